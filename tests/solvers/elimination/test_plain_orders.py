"""Elimination orders in plain Python have the clusters, the limits and about the cost of those of the kernels."""

import numpy as np
import pytest

from equifactor import FactorGraph
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.solvers.elimination.orders import NoOrder, Order, PlanningLimits, best_order
from equifactor.solvers.elimination.plain_orders import known_order, plain_order, plain_order_seconds

NO_LIMITS = PlanningLimits()


def found(graph: FactorGraph) -> Order:
    order = plain_order(graph.structure, NO_LIMITS)
    assert isinstance(order, Order)
    return order


def entries(graph: FactorGraph, order: Order) -> float:
    """The entries of all cluster tables."""
    bits = np.log2(graph.card[order.variables])
    return sum(
        2.0 ** (bits[n] + bits[order.separators[order.sep_ptr[n] : order.sep_ptr[n + 1]]].sum())
        for n in range(len(bits))
    )


@pytest.mark.parametrize("seed", range(12))
def test_clusters_are_those_that_the_kernels_make_of_the_order(seed: int):
    from equifactor.solvers.elimination import order_kernels as kernels

    graph = random_graph(15, 18, arity=(1, 4), card=(1, 4), seed=seed)  # some variables are in no factor
    order, s = found(graph), graph.structure
    ptr, adj = kernels.adjacency(s.num_vars, s.scope_ptr, s.scope_vars)
    want = kernels.clusters(order.variables, ptr, adj)
    assert sorted(order.variables.tolist()) == list(range(graph.num_vars))
    for own, other in zip((order.sep_ptr, order.separators, order.parent), want, strict=True):
        np.testing.assert_array_equal(own, other)
        assert own.dtype == np.int64
    # subtrees are runs: the subtree of every cluster ends with the cluster itself
    first = np.arange(len(order.parent))
    size = np.ones(len(first), np.int64)
    for n, p in enumerate(order.parent.tolist()):
        if p >= 0:
            first[p] = min(first[p], first[n])
            size[p] += size[n]
    np.testing.assert_array_equal(first + size - 1, np.arange(len(first)))
    label = kernels.components(ptr, adj)[0][order.variables]
    assert (np.diff(label) >= 0).all()


def test_tables_are_about_as_small_as_those_of_the_kernels():
    for graph in (ising_grid(6, 20, seed=0), random_tree(60, card=(2, 4), seed=1), random_graph(40, 50, seed=2)):
        other = best_order(graph.structure, PlanningLimits(tries=16))
        assert isinstance(other, Order)
        assert entries(graph, found(graph)) <= 2.0 * entries(graph, other)


def test_an_order_is_kept_for_an_equal_structure():
    first, equal, other = ising_grid(4, 4, seed=0), ising_grid(4, 4, seed=1), ising_grid(4, 5, seed=0)
    order = known_order(first.structure, NO_LIMITS)
    assert known_order(equal.structure, NO_LIMITS) is order
    assert known_order(other.structure, NO_LIMITS) is not order
    assert known_order(first.structure, PlanningLimits(message=2.0**6)) is not order


def test_an_order_that_met_no_limit_is_kept_for_larger_limits():
    structure = ising_grid(6, 7, seed=0).structure
    free = known_order(structure, PlanningLimits(message=2.0**10, work=1e6))
    assert known_order(structure, NO_LIMITS) is free
    assert known_order(structure, PlanningLimits(message=2.0**9)) is not free
    cut = known_order(structure, PlanningLimits(tries=1))
    assert known_order(structure, NO_LIMITS) is not cut


def test_memory_limits_are_kept():
    graph = ising_grid(6, 6, seed=0)
    assert isinstance(plain_order(graph.structure, PlanningLimits(message=2.0**6)), Order)
    for limits in (PlanningLimits(message=2.0**4), PlanningLimits(kept=100.0)):
        none = plain_order(graph.structure, limits)
        assert isinstance(none, NoOrder)
        assert not none.out_of_work
        assert 4 <= none.bits <= 7


def test_large_work_is_left_to_the_kernels():
    dense = random_graph(400, 6000, arity=2, card=2, seed=0).structure
    assert plain_order(dense, NO_LIMITS) is None
    stopped = plain_order(dense, PlanningLimits(work=1e6))
    assert isinstance(stopped, NoOrder)
    assert stopped.out_of_work
    assert np.isfinite(stopped.bits)
    wide = FactorGraph([1] * 5000, [(range(5000), np.ones(1))]).structure
    assert plain_order(wide, NO_LIMITS) is None
    assert plain_order_seconds(wide) > 10.0


def test_planning_ends_at_the_deadline(driven_time):
    structure = ising_grid(10, 100, seed=0).structure
    clock = Clock(1.0)
    with clock.govern():
        assert isinstance(plain_order(structure, PlanningLimits()), Order)
        driven_time.advance(2.0)
        found = plain_order(structure, PlanningLimits())
    assert isinstance(found, NoOrder)
    assert found.out_of_work


def test_no_variables():
    order = found(FactorGraph([], [([], 2.0)]))
    assert len(order.variables) == len(order.separators) == 0
    assert order.sep_ptr.tolist() == [0]
