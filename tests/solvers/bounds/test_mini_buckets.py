"""mini-buckets hold ln Z between their bounds, at any cluster size and however early they stop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equifactor import FactorGraph, Status, solve
from equifactor.base.budget import Budget
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid, pairwise_field, random_graph
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.bounds import lower_side, upper_side
from equifactor.solvers.bounds.block_field import BlockField
from equifactor.solvers.bounds.bound_descent import Descent
from equifactor.solvers.bounds.bucket_partition import partition, sizes_of
from equifactor.solvers.bounds.elimination_orders import by_breadth, candidate_orders
from equifactor.solvers.bounds.factor_layers import LEAST_LAYERS, OrderedScopes, OutOfTime, cover
from equifactor.solvers.bounds.split_field import SplitField
from equifactor.solvers.bounds.tree_start import TreeStart
from equifactor.solvers.bounds.weighted_bound import WeightedBound
from equifactor.solvers.messages import trw
from equifactor.testing import contract_graphs

KINDS = [
    {"arity": (1, 2), "card": (2, 2), "zeros": 0.0},
    {"arity": (0, 3), "card": (2, 3), "zeros": 0.0},
    {"arity": (1, 4), "card": (2, 4), "zeros": 0.2},
    {"arity": (1, 3), "card": (1, 5), "zeros": 0.4},
]


def graphs_of(kind: dict, count: int, seed: int) -> list[FactorGraph]:
    return random_graph(6, 9, strength=1.5, count=count, seed=seed, **kind)


def truth_of(graph: FactorGraph) -> float:
    return float(solve(graph, "PR", "brute").log_z)


def bound_of(graph: FactorGraph, bits: float, order: np.ndarray | None = None) -> WeightedBound:
    """Return a bound on a graph without forced variables, leaving out constants."""
    s = graph.structure
    scopes = OrderedScopes(s, np.arange(s.num_vars) if order is None else order)
    layers = cover(scopes, bits, Clock())
    return WeightedBound(partition(s, scopes, layers, Clock()), graph.log_phi, len(layers))


def constant_of(graph: FactorGraph) -> float:
    return float(graph.log_phi[graph.structure.table_ptr[:-1][graph.structure.arity == 0]].sum())


def free_parts(kind: dict, count: int, seed: int) -> list[FactorGraph]:
    reduced = [to_free_part(graph) for graph in graphs_of(kind, count, seed)]
    return [r.graph for r in reduced if r is not None and r.graph.num_vars > 0]


def check_between(count: int, seed: int) -> None:
    """Check both bounds on `count` graphs of each kind."""
    rng = np.random.default_rng(seed)
    for kind in KINDS:
        for graph in graphs_of(kind, count, seed):
            truth = truth_of(graph)
            solver = f"mini-buckets(entries={rng.choice([1, 4, 16])}, iterations={rng.choice([1, 5, 40])})"
            got = solve(graph, "PR", solver, seed=seed)
            if truth == -math.inf:
                assert got.status not in (Status.EXACT, Status.CONVERGED) or got.lower_bound is None
                continue
            assert got.status is not Status.ZERO_PROBABILITY
            assert got.upper_bound is not None
            assert got.upper_bound >= truth - 1e-9
            assert got.lower_bound is None or got.lower_bound <= truth + 1e-9
            assert got.log_z is not None
            assert got.log_z <= got.upper_bound + 1e-12


def test_ln_z_lies_between() -> None:
    check_between(10, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_ln_z_lies_between_on_4_000_graphs(seed: int) -> None:
    check_between(100, seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [0.0, 3.0])
def test_the_upper_bound_holds_at_any_shifts_weights_and_order(kind: dict, bits: float) -> None:
    rng = np.random.default_rng(3)
    for graph in free_parts(kind, 40, seed=5):
        truth = truth_of(graph) - constant_of(graph)
        bound = bound_of(graph, bits, rng.permutation(graph.num_vars))
        for scale in (0.0, 1.0, 30.0):
            bound.shift[:] = scale * rng.normal(size=len(bound.shift))
            bound.set_weight(np.exp(scale / 10.0 * rng.normal(size=len(bound.weight))))
            assert bound.up() >= truth


@pytest.mark.parametrize("kind", KINDS)
def test_descent_never_rises_and_its_gradient_is_that_of_the_bound(kind: dict) -> None:
    rng = np.random.default_rng(0)
    for graph in free_parts(kind, 12, seed=8):
        bound = bound_of(graph, 3.0)
        bound.shift[:] = 0.3 * rng.normal(size=len(bound.shift))
        log_weight = 0.3 * rng.normal(size=len(bound.weight))
        bound.set_weight(np.exp(log_weight))
        if bound.up() == -math.inf:
            continue
        assert bound.down()
        slope = bound.gradient()
        for n in rng.choice(len(slope), min(4, len(slope)), replace=False).tolist():
            values = []
            for step in (1e-4, -1e-4):
                weight = log_weight.copy()
                if n < len(bound.shift):
                    bound.shift[n] += step
                else:
                    weight[n - len(bound.shift)] += step
                bound.set_weight(np.exp(weight))
                values.append(bound.up())
                if n < len(bound.shift):
                    bound.shift[n] -= step
            assert (values[0] - values[1]) / 2e-4 == pytest.approx(slope[n], abs=2e-4)
        descent, before = Descent(bound), math.inf
        while descent.iterations < 30 and descent.step(Clock()):
            assert descent.best <= before
            before = descent.best


@pytest.mark.parametrize("kind", KINDS)
def test_the_lower_bound_holds_after_every_sweep(kind: dict) -> None:
    rng = np.random.default_rng(2)
    for graph in free_parts(kind, 25, seed=9):
        truth = truth_of(graph)
        starts = (np.array([rng.integers(d) for d in graph.card]) for _ in range(20))
        start = next((x for x in starts if graph.log_score(x) > -math.inf), None)
        if start is None:
            continue
        scopes = OrderedScopes(graph.structure, rng.permutation(graph.num_vars))
        field = BlockField(graph, scopes, float(rng.choice([0.0, 2.0, 4.0])), start, Clock())
        before = -math.inf
        for _ in range(4):
            assert all(field.update(n, Clock()) for n in range(len(field.blocks)))
            assert before - 1e-9 <= field.bound() <= truth + 1e-9
            before = field.bound()
        assert before >= graph.log_score(start) - 1e-9


def test_splits_only_raise_the_lower_bound_and_it_holds() -> None:
    gained = 0.0
    for graph in free_parts(KINDS[0], 8, seed=3) + free_parts(KINDS[1], 8, seed=4):
        truth = truth_of(graph)
        scopes = OrderedScopes(graph.structure, np.arange(graph.num_vars))
        field = BlockField(graph, scopes, 1.0, np.zeros(graph.num_vars, np.int64), Clock())
        for _ in range(3):
            assert all(field.update(n, Clock()) for n in range(len(field.blocks)))
        first = before = field.bound()
        parts = SplitField(field, first, sweeps=10, gain=1e-6)
        for _ in range(12):
            if parts.finished:
                break
            parts.split(Clock())
            assert before - 1e-9 <= parts.bound() <= truth + 1e-9
            before = parts.bound()
        gained += before - first
    assert gained > 0.1


def test_layers_hold_every_factor_and_keep_their_size() -> None:
    graph = ising_grid(6, 6, seed=2)
    scopes = OrderedScopes(graph.structure, by_breadth(graph.structure))
    layers = cover(scopes, 4.0, Clock())
    assert len(layers) == LEAST_LAYERS
    assert np.all(np.any([layer.factors for layer in layers], axis=0))
    assert all(layer.width.max() < 4 for layer in layers)  # variables besides its own: 16 entries in all
    entries, messages = sizes_of(scopes, layers)
    assert 2 * messages == entries <= 4 * 36 * 16
    assert len(cover(scopes, 36.0, Clock())) == 1
    stopped = Clock(0.0)
    with pytest.raises(OutOfTime):
        cover(scopes, 4.0, stopped)


def test_orders_are_permutations() -> None:
    s = ising_grid(4, 5, seed=0).structure
    found = dict(candidate_orders(s, 1e9, 0))
    assert set(found) == {"listed", "fill", "breadth"}
    assert all(np.array_equal(np.sort(order), np.arange(20)) for order in found.values())


def test_larger_clusters_and_more_iterations_are_tighter(driven_time) -> None:
    driven_time.tick = 1e-4
    graph = ising_grid(8, 8, coupling_std=2.0, seed=4)
    truth = solve(graph, "PR", "exact").log_z
    gaps = []
    for entries, iterations in ((16, 5), (16, 150), (128, 500)):
        got = solve(graph, "PR", f"mini-buckets(entries={entries}, iterations={iterations})", time_limit=60)
        assert got.lower_bound <= truth <= got.upper_bound
        gaps.append(got.gap)
    assert gaps[0] > gaps[1] > gaps[2]
    above = solve(graph, "PR", "trw").upper_bound - solve(graph, "PR", "meanfield").lower_bound
    assert gaps[2] < 0.1 * above


def test_bounds_are_never_worse_than_those_of_trw_and_meanfield() -> None:
    graphs = random_graph(9, 18, arity=(1, 2), card=(2, 6), strength=1.5, count=4, seed=6)
    for graph in [*graphs, ising_grid(6, 6, coupling_std=3.0, seed=3)]:
        got = solve(graph, "PR", "mini-buckets(entries=1, iterations=1)", seed=2)
        assert got.upper_bound <= solve(graph, "PR", "trw", seed=2).upper_bound + 1e-9
        assert got.lower_bound >= solve(graph, "PR", "meanfield", seed=2).lower_bound - 1e-9


def test_messages_of_trees_are_a_start_for_layers() -> None:
    for graph in (ising_grid(4, 4, coupling_std=1.0, seed=3), free_parts(KINDS[2], 6, seed=5)[0]):
        s = graph.structure
        scopes = OrderedScopes(s, by_breadth(s))
        part = partition(s, scopes, cover(scopes, 3.0, Clock()), Clock())
        trees, bound = TreeStart(graph, 0), WeightedBound(part, graph.log_phi)
        trees.advance(Clock())
        before = bound.up()
        bound.shift[:] = trees.shifts(scopes, part)
        assert truth_of(graph) - constant_of(graph) <= bound.up() < before


def test_the_same_call_gives_the_same_answer(driven_time) -> None:
    driven_time.tick = 1e-4
    graph = ising_grid(6, 6, coupling_std=2.0, seed=1)
    one, two = (solve(graph, "MAR", "mini-buckets(entries=16, iterations=60)", seed=3) for _ in range(2))
    assert (one.lower_bound, one.upper_bound) == (two.lower_bound, two.upper_bound)
    assert np.array_equal(one.marginals.values, two.marginals.values)
    driven_time.tick = 0.1  # A slow machine does the same work: without a time limit no clock is read.
    slow = solve(graph, "MAR", "mini-buckets(entries=16, iterations=60)", seed=3)
    assert (one.lower_bound, one.upper_bound) == (slow.lower_bound, slow.upper_bound)
    assert np.array_equal(one.marginals.values, slow.marginals.values)
    exact = solve(graph, "MAR", "exact")
    assert np.abs(one.marginals.values - exact.marginals.values).max() < 0.2


@pytest.mark.parametrize("name", contract_graphs())
def test_no_clusters_to_speak_of_still_bound(name: str) -> None:
    graph = contract_graphs()[name]
    truth = truth_of(graph)
    got = solve(graph, "MAR", "mini-buckets(entries=1, iterations=3)")
    assert got.upper_bound is None or got.upper_bound >= truth - 1e-9
    assert got.lower_bound is None or got.lower_bound <= truth + 1e-9


def test_a_clock_that_has_stopped_leaves_bounds() -> None:
    got = solve(ising_grid(12, 12, coupling_std=3.0, seed=0), "PR", "mini-buckets(entries=64)", time_limit=0.0)
    assert got.status is Status.TIME_LIMIT
    assert got.lower_bound is not None
    assert got.upper_bound is not None
    assert got.lower_bound <= got.log_z <= got.upper_bound


def test_trees_that_stop_early_bound_and_do_not_sweep() -> None:
    for graph in (ising_grid(4, 4, coupling_std=1.0, seed=3), free_parts(KINDS[2], 6, seed=5)[0]):
        trees = TreeStart(graph, 0, Clock(0.0))
        assert trees.settled
        trees.advance(Clock(0.0))
        assert trees.best >= truth_of(graph)
        assert np.isfinite(trees.marginals()).all()


def test_trees_of_dense_graphs_are_not_begun_if_they_would_be_late() -> None:
    for graph, begun in (ising_grid(20, 20, seed=0), True), (pairwise_field(48, topology="complete", seed=0), False):
        budget = Budget(Clock(1000.0))
        budget.measure(trw._START_EDGE * 2500, 1000.0)  # Both graphs have fewer edges.
        side = upper_side.UpperSide(graph, 1.0, 1, 0, budget)
        side.ladder.advance()
        assert (side.description == "above trees by trw") == begun


def test_no_field_is_begun_on_large_tables_if_it_would_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_side, "_FIRST_ENTRY", 1e6)  # as on tables of very many entries
    monkeypatch.setattr(lower_side, "MeanField", None)
    side = lower_side.LowerSide(ising_grid(4, 4, seed=0), 1.0, 1, [], 0, Budget(Clock(1000.0)))
    side.ladder.advance()
    assert side.best > -np.inf


@pytest.mark.parametrize("card", [[2], [1, 1]])
def test_models_of_which_nothing_is_left_without_memory(card: list[int]) -> None:
    graph = FactorGraph(card, [([i], np.arange(1.0, 1 + d)) for i, d in enumerate(card)])
    got = solve(graph, "PR", "mini-buckets(memory_limit=0)", time_limit=0.5)
    want = solve(graph, "PR", "brute").log_z
    assert got.lower_bound <= want + 1e-9
    assert got.upper_bound >= want - 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_without_time_for_trw_and_meanfield(kind: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trw, "_START_EDGE", 1e6)  # as on a very large model
    monkeypatch.setattr(lower_side, "_FIRST_FIELD", 1e6)
    for graph in graphs_of(kind, 20, seed=11):
        truth = truth_of(graph)
        got = solve(graph, "MAR", "mini-buckets(entries=1, memory_limit=0)", time_limit=0.0)
        assert got.upper_bound is None or got.upper_bound >= truth - 1e-12
        assert got.lower_bound is None or got.lower_bound <= truth + 1e-12
        if got.upper_bound is not None and "largest entry" in got.message and not kind["zeros"]:
            assert got.lower_bound is not None


@pytest.mark.parametrize("mebibytes", [0.25, 1.0, 4.0])
def test_the_runs_of_the_upper_bound_share_the_memory(mebibytes: float, driven_time) -> None:
    budget = Budget(Clock(5.0), memory=mebibytes * 2**20)
    side = upper_side.UpperSide(ising_grid(15, 15, seed=0), math.inf, 600, 0, budget)
    most = 0.0
    while not side.ladder.finished and side.iterations < 200:
        side.ladder.advance()
        most = max(most, sum(run.bytes for run in side._kept))
    assert most <= budget.memory
    assert most > 0.0 or mebibytes < 1.0


@pytest.mark.parametrize("mebibytes", [0.125, 0.5, 2.0])
def test_the_blocks_of_the_lower_bound_fit_the_memory(mebibytes: float, driven_time) -> None:
    budget = Budget(Clock(5.0), memory=mebibytes * 2**20)
    side = lower_side.LowerSide(ising_grid(30, 30, seed=0), math.inf, 10, [], 0, budget)
    for _ in range(3):
        side.ladder.advance()
    assert side._bits > 0.0  # There were blocks.
    assert 8.0 * side._heaviest <= 1.2 * budget.memory  # The growth of the next size is an estimate.
