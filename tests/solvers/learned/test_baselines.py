"""Properties of every baseline: its symmetries and no others, batches, zeros, gradients, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from equifactor import FactorGraph
from equifactor.base.errors import ModelError
from equifactor.factors.tensors import probabilities
from equifactor.generators import asymmetric_grid, ising_grid, random_graph, random_tree
from equifactor.learned import Network
from equifactor.questions.solve import solve
from equifactor.solvers import compile
from equifactor.solvers.duals.map_bounds import map_upper_bound
from equifactor.solvers.elimination.exact_batch import exact_marginals
from equifactor.solvers.learned.network import build
from equifactor.symmetry import KINDS, equivariance_error

PUBLISHED = {"widths": "8+16+8", "steps": 4, "form": "types", "rank": 4, "update": "residual", "position": True}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("bpnn", {"steps": 4}),
    ("bpnn", {"variant": "scalar", "steps": 4}),
    ("nebp", {"channels": 4, "hidden": 8, "steps": 4}),
    ("ggnn", {"steps": 4}),
    ("ggnn", {"steps": 4, "orient": True}),
    ("ggnn", {"steps": 4, "graph": "bipartite"}),
    ("ggnn", {"steps": 4, "graph": "bipartite", "orient": True}),
    ("fgnn", {"steps": 4}),
    ("fgnn", {"steps": 4, "orient": True}),
    ("fgnn", {"steps": 4, "aggregate": "lse"}),
    ("fgnn", PUBLISHED),
]
each = pytest.mark.parametrize(("kind", "settings"), CASES)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread, because threads only wait for each other on tiny tensors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shaken(kind: str, settings: dict[str, Any]) -> Network:
    """Return a network with weights far from its starting weights, in double precision."""
    network = build(kind, settings, seed=1).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in network.parameters():
            p += torch.randn(p.shape, generator=generator, dtype=p.dtype) / p.shape[-1] ** 0.5 / 2
    return network


def marginals(network: Network, graphs: Any, dtype: str = "float64", semiring: Any = "sum") -> torch.Tensor:
    flat = compile(graphs).to(dtype=dtype)
    with torch.no_grad():
        return probabilities(flat, network(flat, semiring)[-1])


@each
def test_claimed_symmetries_hold_and_no_others(kind: str, settings: dict[str, Any]) -> None:
    network = shaken(kind, settings)
    grid = asymmetric_grid(3, 3, seed=3)
    error = equivariance_error(lambda g: marginals(network, g), grid, trials=2)
    for symmetry in KINDS:
        assert (error[symmetry] < 1e-10) == (symmetry in network.symmetries), (symmetry, error[symmetry])
        assert error[symmetry] < 1e-10 or error[symmetry] > 1e-4, "a break must be seen from afar"


@each
@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_batch_is_the_graphs_one_by_one(kind: str, settings: dict[str, Any], semiring: str) -> None:
    network = shaken(kind, settings)
    graphs = [ising_grid(2, 3), random_tree(7, card=2, seed=1), FactorGraph([2, 2], [([0], [1.0, 2.0])])]
    together = marginals(network, graphs, semiring=semiring)
    alone = torch.cat([marginals(network, g, semiring=semiring) for g in graphs])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


@each
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_impossible_states_stay_so(kind: str, settings: dict[str, Any], dtype: str) -> None:
    hard = [random_graph(8, 12, arity=(1, 2), card=2, zeros=0.3, seed=s) for s in range(4)]
    differ = np.array([[0.0, 1.0], [2.0, 0.0]])
    hard.append(FactorGraph([2] * 4, [([0], [0.0, 3.0]), *(([i, i + 1], differ) for i in range(3))]))
    network = shaken(kind, settings).to(getattr(torch, dtype))
    got = marginals(network, hard, dtype).double().numpy()
    assert np.isfinite(got).all()
    exact = np.concatenate([m for g in hard for m in solve(g, "MAR", "exact").marginals or ()])
    assert np.all(exact[got == 0.0] < 1e-12)  # nothing possible is ruled out
    assert got[-8:].tolist() == pytest.approx([0, 1, 1, 0, 0, 1, 1, 0])  # found by propagation alone


@each
def test_gradients_reach_every_weight(kind: str, settings: dict[str, Any]) -> None:
    graphs = asymmetric_grid(3, 3, count=8, seed=4)
    want = torch.tensor(exact_marginals(graphs)[0]).reshape(-1)
    flat = compile(graphs).to(dtype="float64")
    network = build(kind, settings, seed=0).double()
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)

    def loss() -> torch.Tensor:
        return -(want * network(flat)[-1].reshape(-1, 2).log_softmax(1).reshape(-1)).mean()

    first = loss()
    for _ in range(5):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < first.item()
    for name, p in network.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.abs().max() > 0, name


@each
def test_gradients_are_finite_at_zeros(kind: str, settings: dict[str, Any]) -> None:
    flat = compile(random_graph(8, 12, arity=(1, 2), card=2, zeros=0.3, seed=1)).to(dtype="float64")
    network = shaken(kind, settings)
    probabilities(flat, network(flat)[-1]).square().sum().backward()  # type: ignore[no-untyped-call]
    for name, p in network.named_parameters():
        assert p.grad is None or p.grad.isfinite().all(), name


@each
def test_bound_of_any_messages_holds(kind: str, settings: dict[str, Any]) -> None:
    graph = asymmetric_grid(3, 3, seed=5)
    flat = compile(graph).to(dtype="float64")
    network = shaken(kind, settings)
    with torch.no_grad():
        state = network.begin(flat, "max")
        for _ in range(3):
            state = network.step(state)
        bound = map_upper_bound(flat, state.wiring.messages(state.msg_fv))
    best = solve(graph, "MAP", "exact").log_score
    assert best is not None
    assert bound.item() >= best - 1e-9


@each
def test_other_cardinalities_are_refused(kind: str, settings: dict[str, Any]) -> None:
    mixed = FactorGraph([2, 3], [([0, 1], np.ones((2, 3)))]).renamed("mixed")
    with pytest.raises(ModelError, match=r"states, and mixed has a variable of 3\. Use fe-nbp or fe-net"):
        build(kind, settings)(compile(mixed).to())


@pytest.mark.parametrize("kind", ["bpnn", "nebp", "ggnn", "fgnn"])
def test_three_states(kind: str) -> None:
    network = build(kind, {"card": 3}, seed=0).double()
    got = marginals(network, random_graph(6, 8, arity=(1, 2), card=3, seed=2))
    torch.testing.assert_close(got.reshape(-1, 3).sum(1), torch.ones(6, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["bpnn", "nebp", "ggnn", "fgnn"])
def test_solver_answers_untrained(kind: str) -> None:
    graph = ising_grid(3, 3)
    assert solve(graph, "MAR", f"{kind}(untrained)").marginals is not None
    result = solve(graph, "MAP", f"{kind}(untrained)")
    assert result.log_score is not None
    assert result.upper_bound is not None
    assert result.log_score <= result.upper_bound
