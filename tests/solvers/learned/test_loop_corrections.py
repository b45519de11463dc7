"""Corrections around loops: exact on a graph with one short loop, and absent without loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equifactor import FactorGraph, solve
from equifactor.generators import ising_grid
from equifactor.graph import compile
from equifactor.solvers.learned.loop_corrections import loops_of
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.wiring import wire


def ring_with_tails(length: int, card: list[int], seed: int = 0, zeros: bool = False) -> FactorGraph:
    """Return a loop of pair factors, with a tail of two variables at its first corner and of one at its second."""
    rng = np.random.default_rng(seed)
    ring = [(k, (k + 1) % length) for k in range(length)]
    scopes: list[tuple[int, ...]] = [*ring, (0, length), (length, length + 1), (1, length + 2)]
    scopes += [(v,) for v in range(length + 3)]
    tables = [np.exp(1.5 * rng.standard_normal([card[v] for v in scope])) for scope in scopes]
    if zeros:
        tables[0][0, 1] = tables[length][0, 0] = 0.0
    return FactorGraph(card, list(zip(scopes, tables, strict=True)))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("card", [[2] * 7, [3, 2, 4, 2, 3, 2, 2]], ids=["binary", "ragged"])
@pytest.mark.parametrize("length", [3, 4])
def test_one_short_loop_is_solved_exactly(length: int, card: list[int], zeros: bool) -> None:
    graph = ring_with_tails(length, card[: length + 3], zeros=zeros)
    exact = solve(graph, "MAR", "brute").marginals
    ours = solve(graph, "MAR", "fe-net(untrained, damping=0, iterations=10, tolerance=0)").marginals
    np.testing.assert_allclose(ours.values, exact.values, rtol=0, atol=1e-9)
    bp = solve(graph, "MAR", "bp(iterations=200)").marginals
    assert np.abs(bp.values - exact.values).max() > 1e-5  # Plain BP is not exact here.


@pytest.mark.slow
def test_one_short_loop_has_the_right_max_marginals() -> None:
    wrong = 0
    for seed in range(60):
        length = 3 + seed % 2
        graph = ring_with_tails(length, [3, 2, 4, 2, 3, 2, 2][: length + 3], seed=seed)
        best = solve(graph, "MAP", "brute").assignment
        ours = solve(graph, "MAP", "fe-net(untrained, damping=0, iterations=10, tolerance=0)").assignment
        np.testing.assert_array_equal(ours, best)
        wrong += not np.array_equal(solve(graph, "MAP", "bp(iterations=10)").assignment, best)
    assert wrong  # BP is not exact on all graphs.


def test_a_state_that_only_its_loop_excludes() -> None:
    equal, other = np.eye(2), np.array([[0.0, 1.0], [1.0, 1.0]])
    graph = FactorGraph([2, 2, 2], [((0, 1), equal), ((1, 2), equal), ((2, 0), other)])
    exact = solve(graph, "MAR", "brute").marginals
    ours = solve(graph, "MAR", "fe-net(untrained, damping=0, iterations=10, tolerance=0)").marginals
    np.testing.assert_allclose(ours.values, exact.values, atol=1e-9)
    bp = solve(graph, "MAR", "bp(iterations=50)").marginals
    assert np.abs(bp.values - exact.values).max() > 0.1


@pytest.mark.parametrize("scale", [0.0, 180.0, 1500.0])
def test_the_scale_of_tables_means_nothing(scale: float) -> None:
    graph = ring_with_tails(4, [2] * 7, zeros=True)
    ptr = graph.structure.table_ptr
    pairs = np.repeat(np.diff(graph.structure.scope_ptr) == 2, np.diff(ptr))
    shifted = FactorGraph.trusted(graph.structure, graph.log_phi - scale * pairs)
    exact = solve(graph, "MAR", "brute").marginals
    ours = solve(shifted, "MAR", "fe-net(untrained, damping=0, iterations=10, tolerance=0)").marginals
    np.testing.assert_allclose(ours.values, exact.values, atol=1e-9)


def test_zeros_of_another_graph_of_the_batch_mean_nothing() -> None:
    strong, zeros = ising_grid(3, 3, coupling_std=300.0, seed=3), ring_with_tails(3, [2] * 6, zeros=True)
    solver = "fe-net(untrained, iterations=10, tolerance=0)"
    for task in ("MAR", "MAP"):
        alone, together = solve(strong, task, solver), solve([strong, zeros], task, solver)[0]
        if task == "MAP":
            assert together.upper_bound == pytest.approx(alone.upper_bound, rel=1e-9)
        else:
            np.testing.assert_allclose(together.marginals.values, alone.marginals.values, atol=1e-9)


def test_what_is_kept_serves_other_types_and_modes() -> None:
    flat = compile(ising_grid(3, 3, seed=1)).to()
    network = build("fe-net", {"channels": 4, "tables": 2, "hidden": 8, "steps": 2}, seed=0)
    network.double()
    with torch.inference_mode():
        first = network(flat)[-1]
    again = network(flat)[-1]
    torch.testing.assert_close(again.detach(), first)
    again.sum().backward()
    single = network.float()(flat.with_log_phi(flat.log_phi.float()))[-1]
    torch.testing.assert_close(single.detach(), first.float(), rtol=1e-3, atol=1e-4)
    single.sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in network.mlp1.parameters())


def test_without_loops_it_is_belief_propagation() -> None:
    hexagon = ring_with_tails(6, [2] * 9)
    assert loops_of(wire(compile(hexagon).to(), "sum")) is None
    ours = solve(hexagon, "MAR", "fe-net(untrained, damping=0.5, iterations=20, tolerance=0)").marginals
    bp = solve(hexagon, "MAR", "bp(damping=0.5, iterations=20, tolerance=0)").marginals
    np.testing.assert_allclose(ours.values, bp.values, rtol=0, atol=1e-12)


def test_loops_are_searched_once_for_all_potentials() -> None:
    flat = compile(ising_grid(3, 3, seed=1)).to()
    first = loops_of(wire(flat, "sum"))
    second = loops_of(wire(flat.with_log_phi(2 * flat.log_phi), "sum"))
    assert first is not None
    assert second is not None
    assert first.index is second.index
    torch.testing.assert_close(2 * first.tables, second.tables)


@pytest.mark.slow
def test_gradients_reach_potentials_through_the_corrections() -> None:
    flat = compile(ising_grid(2, 3, seed=2)).to()
    network = build("fe-net", {"channels": 4, "tables": 2, "hidden": 8, "steps": 4}, seed=0).double()

    def energy(log_phi: torch.Tensor) -> torch.Tensor:
        return network(flat.with_log_phi(log_phi), "sum", 4)[-1].square().sum()

    assert torch.autograd.gradcheck(energy, flat.log_phi.clone().requires_grad_())


def test_loops_make_spin_glasses_better() -> None:
    graphs = [ising_grid(4, 4, seed=n) for n in range(40)]
    exact = np.concatenate([r.marginals.values for r in solve(graphs, "MAR", "exact")])
    error = {}
    for solver in ("bp(damping=0.5, iterations=10, tolerance=0)", "fe-net(untrained, iterations=10, tolerance=0)"):
        error[solver] = np.square(np.concatenate([r.marginals.values for r in solve(graphs, "MAR", solver)]) - exact)
    bp, loops = (e.mean() for e in error.values())
    assert loops < 0.5 * bp


def test_loops_are_not_searched_for_after_the_deadline() -> None:
    from equifactor.base.clock import Clock

    flat = compile(ising_grid(3, 3, seed=0)).to()
    assert loops_of(wire(flat, "sum", Clock(0.0))) is None
    assert "loops" not in flat.cache  # A search that was cut short is not cached.
    assert loops_of(wire(flat, "sum", Clock(60.0))) is not None
