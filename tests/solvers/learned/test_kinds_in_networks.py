"""Structured factors in the differentiable layer and in the networks, without dense tables or auxiliary variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from equifactor import (
    AtMost,
    Clause,
    Count,
    FactorGraph,
    ModelError,
    NoisyOr,
    Parity,
    Potts,
    SparseTable,
    TruncatedLinear,
    beliefs,
    solve,
)
from equifactor.generators import ising_grid
from equifactor.graph.reduction import without_impossible_states
from equifactor.learned import log_scores
from equifactor.solvers import compile
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.replay import Replay
from equifactor.solvers.learned.wiring import wire
from equifactor.symmetry import audit
from equifactor.symmetry.auditing import Trials
from tests.factors.random_factors import as_tables, random_factor, random_mixture

pytestmark = pytest.mark.slow  # kernels on kinds take long to compile

gradients = pytest.mark.parametrize("gradient", ["unrolled", "implicit"])


def tree(seed: int, noisy: bool = True) -> FactorGraph:
    """Return factors of any kind, each sharing one variable with earlier factors, and a field on every variable."""
    rng = np.random.default_rng(seed)
    kinds = ["parity", "clause", "count", "sparse", "at most", "potts", "truncated_linear", *["noisy_or"] * noisy]
    while True:
        card, factors = [2], []
        for _ in range(5):
            kind = str(rng.choice(kinds))
            new = 1 if kind in ("potts", "truncated_linear") else int(rng.integers(1, 3))
            scope = [int(rng.integers(len(card))), *range(len(card), len(card) + new)]
            card += [2] * new
            factors.append((rng.permutation(scope).tolist(), random_factor(rng, kind, (2,) * len(scope))))
        factors += [([i], rng.normal(size=2)) for i in range(len(card))]
        graph = FactorGraph(card, factors, log=True)
        if without_impossible_states([graph])[0] is not None and solve(graph, "PR", "exact").log_z is not None:
            return graph


def possible(seed: int) -> FactorGraph:
    """Return a random mixture of kinds with loops, without the states that its factors exclude."""
    rng = np.random.default_rng(seed)
    while True:
        (reduced,) = without_impossible_states([random_mixture(rng)])
        if reduced is not None and reduced.graph.structure.kinds is not None and reduced.graph.num_vars > 2:
            return reduced.graph


def with_fields(graph: FactorGraph) -> FactorGraph:
    """Return the graph times a table for each variable, so that no two states are equally good."""
    rng = np.random.default_rng(0)
    return graph.with_factors([([i], rng.normal(size=graph.card[i])) for i in graph.free_vars.tolist()], log=True)


# ---- the layer ------------------------------------------------------------------------------------------


@gradients
def test_the_layer_is_exact_on_trees_of_kinds(gradient: Any) -> None:
    for seed in range(3):
        graph = tree(seed)
        flat = compile(graph).to()
        log_phi = flat.log_phi.clone().requires_grad_()
        answer = beliefs(flat, log_phi, damping=0.0, iterations=14, gradient=gradient)
        exact = solve(graph, "MAR", "brute")
        np.testing.assert_allclose(answer.probabilities.detach(), exact.marginals.values, atol=1e-10)
        assert answer.log_z.item() == pytest.approx(exact.log_z, abs=1e-10)
        (found,) = torch.autograd.grad(answer.log_z.sum(), log_phi)
        # The field of a variable is a separate table, whose gradient is the marginal.
        (fields,) = (g for g in flat.groups if len(g.shape) == 1)
        marginal = exact.marginals.values.reshape(-1, 2)[flat.var_of_edge[fields.edges[0]]]
        np.testing.assert_allclose(found[fields.entries].reshape(-1, 2), marginal, atol=1e-10)


@gradients
def test_factor_beliefs_are_the_gradient_of_log_z(gradient: Any) -> None:
    for seed in range(2):
        graph = tree(seed, noisy=False)
        flat = compile(graph).to()
        log_phi = flat.log_phi.clone().requires_grad_()
        answer = beliefs(flat, log_phi, damping=0.0, iterations=14, gradient=gradient)
        (found,) = torch.autograd.grad(answer.log_z.sum(), log_phi)
        torch.testing.assert_close(answer.factors.detach(), found, atol=1e-10, rtol=0)
        with torch.no_grad():  # Factor beliefs do not need a gradient, also for a count with equal values.
            again = beliefs(flat, flat.log_phi, damping=0.0, iterations=14, gradient=gradient)
        torch.testing.assert_close(again.factors, found, atol=1e-10, rtol=0)


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_unrolled_gradients_are_those_of_finite_differences(semiring: Any) -> None:
    table = [[0.3, -0.2], [0.1, 0.5]]
    factors = [
        ([0, 1, 2], Parity(log_values=(0.3, -0.8))), ([1, 2, 3], Clause([True, False, True], weight=0.7)),
        ([0, 2, 3], Count([0.2, -0.1, 0.4, -np.inf])), ([3, 0, 1], NoisyOr(0.2, [0.5, 0.3])),
        ([0, 3], Potts(0.6)), ([1, 3], table),
        ([2, 0], TruncatedLinear(0.4, 1.0)), ([0, 1, 3], SparseTable([[0, 1, 1], [1, 0, 0]], [0.4, -0.3], 0.1)),
    ]  # fmt: skip
    flat = compile(FactorGraph([2] * 4, factors, log=True)).to()
    mask = torch.isfinite(flat.log_phi)
    theta = flat.log_phi[mask].clone().requires_grad_()

    def answers(theta: Tensor) -> tuple[Tensor, ...]:
        log_phi = flat.log_phi.masked_scatter(mask, theta)
        answer = beliefs(flat, log_phi, damping=0.3, iterations=4, semiring=semiring)
        return (answer.probabilities, answer.log_z) + ((answer.factors,) if semiring == "sum" else ())

    assert torch.autograd.gradcheck(answers, (theta,), atol=1e-6, fast_mode=True)


@gradients
@pytest.mark.parametrize(("semiring", "dtype"), [("sum", "float64"), ("max", "float32")])
def test_no_nan_and_a_batch_equals_its_graphs(gradient: Any, semiring: Any, dtype: str) -> None:
    graphs = [*(random_mixture(np.random.default_rng(seed)) for seed in range(25)), ising_grid(3, 3, seed=0)]
    options: dict[str, Any] = {"iterations": 6, "tolerance": 0.0, "semiring": semiring, "gradient": gradient}
    flat = compile(graphs).to(dtype=dtype)
    log_phi = flat.log_phi.clone().requires_grad_()
    answer = beliefs(flat, log_phi, **options)
    assert not torch.isnan(answer.log_z).any()
    values = answer.probabilities.square().sum() + answer.factors.sum()
    values = values + torch.where(torch.isneginf(answer.log_z), 0.0, answer.log_z).sum()
    (found,) = torch.autograd.grad(values, log_phi)
    assert torch.isfinite(found).all()
    for n in (0, 7, 25):
        single = compile(graphs[n]).to(dtype=dtype)
        alone = beliefs(single, single.log_phi, **options)
        torch.testing.assert_close(flat.split(answer.probabilities, "states")[n], alone.probabilities)
        torch.testing.assert_close(answer.log_z[n], alone.log_z[0])


def test_impossible_evidence_has_probability_zero() -> None:
    graph = FactorGraph([2] * 3, [([0, 1, 2], Parity()), ([0], [1.0, 2.0])])
    flat = compile(graph).to()
    field, parity = flat.groups[0].entries, flat.structured[0].entries
    log_phi = flat.log_phi.clone()
    log_phi[parity], log_phi[field] = -torch.inf, 0.0
    answer = beliefs(flat, log_phi.requires_grad_())
    assert answer.log_z.tolist() == [-torch.inf]
    loss = answer.probabilities.sum() + answer.log_z.clamp_min(-1.0).sum()
    assert not torch.autograd.grad(loss, log_phi)[0].isnan().any()
    for solver in ("bp(engine=torch)", "fe-nbp(untrained)", "fe-net(untrained)"):
        odd = FactorGraph([2] * 2, [(range(2), Parity()), ([0], [0.0, 1.0]), ([1], [1.0, 0.0])])
        assert solve(odd, "MAR", solver).status == "zero-probability"


def test_likelihoods_can_be_learned_through_kinds() -> None:
    """The log scores of the page on the layer, for graphs of structured factors."""
    graph = tree(3)
    flat = compile(graph).to()
    states = solve(graph, "MAP", "brute").assignment
    assert log_scores(flat, torch.tensor(states)).item() == pytest.approx(graph.log_score(states))


# ---- networks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["fe-nbp", "fe-net", "fe-net(untrained)"])
@pytest.mark.parametrize("task", ["MAR", "MAP"])
def test_answers_are_those_for_the_tables(spec: str, task: str) -> None:
    """The weights of the package were trained on tables only, and a noisy-or has its own temperatures."""
    if (spec, task) == ("fe-net", "MAR"):
        spec = "fe-net(alone)"  # The trust in its marginals looks at the zeros of tables, so it differs a little.
    graphs = [g for g in map(possible, range(9)) if not (g.structure.kinds.kind == NoisyOr.number).any()]
    assert len(graphs) > 3
    pairs = zip(solve(graphs, task, spec), solve([as_tables(g) for g in graphs], task, spec), strict=True)
    for found, wanted in pairs:
        assert found.status == wanted.status
        if task == "MAR":
            np.testing.assert_allclose(found.marginals.values, wanted.marginals.values, atol=1e-6)
            assert found.log_z == pytest.approx(wanted.log_z, abs=1e-5)
        else:
            assert found.upper_bound == pytest.approx(wanted.upper_bound, abs=1e-5)


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
def test_claims_hold_on_every_kind_for_random_weights(kind: str, tmp_path: Path, write_model: Any) -> None:
    rng = np.random.default_rng(0)
    unary = [([i], rng.normal(size=2)) for i in range(12)]
    long = [
        (range(12), Parity()), (range(11), NoisyOr(0.1, np.linspace(0.1, 0.9, 10))), (range(2, 12), AtMost(3)),
        (range(1, 9), Clause()), ([0, 1], Potts(0.7)), ([1, 2], Potts(-0.4)), ([2, 0], Clause(weight=1.0)),
    ]  # fmt: skip
    graphs = [FactorGraph([2] * 12, [*unary, *long], log=True), *(with_fields(possible(seed)) for seed in range(2))]
    for task in ("MAR", "MAP"):
        model = write_model(tmp_path / f"{task}.safetensors", kind, task=task, steps=3)
        for finding in audit(model, graphs, trials=Trials(1)):
            assert not finding.failed, f"{finding.violation.where}: {finding.violation.error}"


def test_loops_of_other_pair_factors_are_corrected() -> None:
    rng = np.random.default_rng(0)
    unary = [([i], rng.normal(size=3)) for i in range(4)]
    pairs = [([i, (i + 1) % 4], Potts(float(rng.normal()))) for i in range(3)]
    graph = FactorGraph([3] * 4, [*unary, *pairs, ([0, 3], rng.normal(size=(3, 3)))], log=True)
    found, wanted = (solve(g, "MAR", "fe-net(untrained)") for g in (graph, as_tables(graph)))
    exact, plain = solve(graph, "MAR", "exact"), solve(graph, "MAR", "bp")
    np.testing.assert_allclose(found.marginals.values, wanted.marginals.values, atol=1e-10)
    error, other = (np.abs(r.marginals.values - exact.marginals.values).max() for r in (found, plain))
    assert error < 0.3 * other


def test_long_factors_in_networks() -> None:
    rng = np.random.default_rng(1)
    unary = [([i], rng.normal(size=2)) for i in range(500)]
    graph = FactorGraph([2] * 500, [*unary, (range(500), Parity()), (range(200), AtMost(90))], log=True)
    exact = solve(graph, "PR", "bp").log_z
    for solver in ("fe-nbp(untrained, iterations=40)", "fe-net(untrained, iterations=40)"):
        assert solve(graph, "PR", solver).log_z == pytest.approx(exact, abs=1e-3)


def test_networks_of_tables_refuse_other_factors() -> None:
    flat = compile(possible(0)).to()
    with pytest.raises(ModelError, match="bpnn takes dense tables only"):
        build("bpnn", seed=0)(flat)


def test_replay_and_gradients_of_weights() -> None:
    flat = compile([possible(seed) for seed in range(3)]).to(dtype="float32")
    network = build("fe-net", {"steps": 2}, seed=0)
    log_b = network(flat)[-1]
    loss = torch.where(torch.isneginf(log_b), 0.0, log_b).square().sum()
    loss.backward()
    for parameter in network.parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()
    torch.testing.assert_close(Replay(network, flat)(flat.log_phi), log_b.detach())
    assert wire(flat, "sum").has_zeros
