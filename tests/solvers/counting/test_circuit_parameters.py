"""Gradients of circuits in all table entries, against finite differences and marginals; torch modules."""

from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor import Clause, FactorGraph, ModelError
from equifactor.answers import Circuit

GRAPH = FactorGraph(
    {"a": 2, "b": ["low", "mid", "high"], "c": 2, "d": 1, "e": 2},
    [
        (["a", "b"], [[1, 0, 2], [0.5, 0.5, 0]]),
        (["b", "c"], [[1, 1], [1, 3], [0, 1]]),
        (["a", "c", "d"], np.arange(4.0).reshape(2, 2, 1)),
        (["c", "e"], [[1, 0], [0, 1]]),  # they are equal: their literals are joined
        (["e"], [0.3, 0.7]),
        (["b"], [2, 1, 0]),
    ],
)
EVIDENCE = [{}, {"a": 1}, {"b": "mid", "e": 0}, {"c": 0, "e": 1}]  # the last one is impossible


def differences(circuit: Circuit, log_phi: np.ndarray, evidence: list[dict[str, object]]) -> np.ndarray:
    slope = np.zeros((len(evidence), len(log_phi)))
    for k in np.flatnonzero(log_phi > -np.inf):
        step = np.zeros(len(log_phi))
        step[k] = 1e-5
        above, below = (circuit.with_log_phi(log_phi + sign * step).log_z(evidence) for sign in (1, -1))
        with np.errstate(invalid="ignore"):
            slope[:, k] = np.nan_to_num((above - below) / 2e-5)
    return slope


@pytest.mark.parametrize("graph", [GRAPH, GRAPH.condition({"c": 1}), FactorGraph([2, 3]), FactorGraph([])])
def test_gradients_are_differences(graph: FactorGraph) -> None:
    circuit = ef.compile_circuit(graph, parameters=True)
    evidence = EVIDENCE if graph.num_factors else [{}]
    log_z, slope = circuit.gradient(evidence)
    np.testing.assert_allclose(log_z, ef.compile_circuit(graph).log_z(evidence), atol=1e-12)
    np.testing.assert_allclose(slope, differences(circuit, graph.log_phi, evidence), atol=1e-9)
    if len(evidence) > 1:
        assert not slope[-1].any()
    single, own = circuit.gradient(evidence[0])
    assert single == log_z[0]
    np.testing.assert_array_equal(own, slope[0])


def test_random_networks_with_other_entries() -> None:
    for seed in range(5):
        graph = ef.generators.random_network(8, zeros=0.3, observed=0.0, seed=seed)
        log_phi = graph.log_phi + np.random.default_rng(seed).normal(size=len(graph.log_phi))
        circuit = ef.compile_circuit(graph, parameters=True).with_log_phi(log_phi)
        other = FactorGraph.trusted(graph.structure, log_phi, None)
        want = ef.solve(other, "MAR", "brute")
        log_z, slope = circuit.gradient()
        assert log_z == pytest.approx(want.log_z, abs=1e-12)
        for a in range(graph.num_factors):
            own = slope[graph.structure.table_ptr[a] : graph.structure.table_ptr[a + 1]].reshape(
                graph.structure.shape(a)
            )
            child = graph.structure.scope(a)[-1]
            np.testing.assert_allclose(own.reshape(-1, own.shape[-1]).sum(axis=0), want.marginals[child], atol=1e-12)


def test_modules_have_the_same_gradients() -> None:
    torch = pytest.importorskip("torch")
    circuit = ef.compile_circuit(GRAPH, parameters=True)
    module = circuit.torch()
    log_z, slope = circuit.gradient(EVIDENCE)
    found = module(EVIDENCE)
    np.testing.assert_allclose(found.detach().numpy(), log_z, atol=1e-12)
    found[:-1].sum().backward()
    np.testing.assert_allclose(module.log_phi.grad.numpy(), slope.sum(axis=0), atol=1e-12)
    assert torch.autograd.gradcheck(
        lambda entries: torch.func.functional_call(module, {"log_phi": entries}, ({"a": 1},)),
        torch.tensor(np.maximum(GRAPH.log_phi, -50.0), requires_grad=True),
    )
    rows = np.array([[1, -1, -1, -1, -1], [0, 2, -1, -1, -1]])
    assert torch.equal(module(rows), module(torch.tensor(rows)))
    assert module({"a": 1}).ndim == 0


def test_entries_are_learned_from_data() -> None:
    torch = pytest.importorskip("torch")
    truth = ef.generators.random_network(4, observed=0.0, seed=1)
    rows = ef.sample(truth, 200, seed=1).states
    module = ef.compile_circuit(
        FactorGraph.trusted(truth.structure, 0.0 * truth.log_phi, None), parameters=True
    ).torch()
    optimiser = torch.optim.LBFGS(module.parameters(), max_iter=50)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = module() - module(rows).mean()
        value.backward()
        return value

    optimiser.step(loss)
    assert loss() <= -truth.log_score(rows).mean() + 1e-6  # the best fit is no worse than the truth


def test_parameters_are_saved(tmp_path: Path) -> None:
    circuit = ef.compile_circuit(GRAPH, parameters=True)
    circuit.save(tmp_path / "a.safetensors")
    back = Circuit.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(back.gradient({"a": 1})[1], circuit.gradient({"a": 1})[1])
    np.testing.assert_array_equal(back.log_phi, GRAPH.log_phi)


def test_what_parameters_refuse() -> None:
    with pytest.raises(ModelError, match="dense tables"):
        ef.compile_circuit(FactorGraph([2, 2], [([0, 1], Clause())]), parameters=True)
    with pytest.raises(ModelError, match="one for each entry"):
        ef.compile_circuit(GRAPH, parameters=True).with_log_phi(np.zeros(3))
    with pytest.raises(ModelError, match="No assignment"):
        ef.compile_circuit(FactorGraph([2], [([0], [0, 0])]), parameters=True)
