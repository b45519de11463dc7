"""Elimination orders and their clusters."""

import math
from itertools import pairwise

import numpy as np
import pytest

from equifactor import FactorGraph
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.solvers.elimination.orders import NoOrder, Order, PlanningLimits, best_order


def found(graph: FactorGraph, tries: int = 256, seed: int = 0) -> Order:
    order = best_order(graph.structure, PlanningLimits(tries=tries), seed)
    assert isinstance(order, Order)
    return order


def naive_clusters(graph: FactorGraph, variables: list[int]) -> list[set[int]]:
    """Return the neighbours of each variable when it is eliminated, by joining sets."""
    around = {i: set() for i in range(graph.num_vars)}
    for a in range(graph.num_factors):
        scope = graph.structure.scope(a).tolist()
        for i in scope:
            around[i] |= set(scope) - {i}
    clusters = []
    for v in variables:
        clusters.append(around.pop(v))
        for u in clusters[-1]:
            around[u] |= clusters[-1] - {u}
            around[u] -= {v}
    return clusters


@pytest.mark.parametrize("seed", range(20))
def test_clusters_are_those_of_the_order(seed: int):
    graph = random_graph(15, 22, arity=(1, 4), card=(2, 4), seed=seed)
    order = found(graph, seed=seed)
    variables = order.variables.tolist()
    assert sorted(variables) == list(range(graph.num_vars))
    want = naive_clusters(graph, variables)
    for n in range(len(variables)):
        places = order.separators[order.sep_ptr[n] : order.sep_ptr[n + 1]].tolist()
        assert places == sorted(places, reverse=True)
        assert {variables[p] for p in places} == want[n]
        assert order.parent[n] == (min(places) if places else -1)


@pytest.mark.parametrize("seed", range(10))
def test_the_incremental_fill_is_exact(seed: int):
    """One try by fill alone has the cost of the textbook rule, up to ties; the first step here has no ties."""
    graph = random_graph(12, 16, arity=2, card=2, seed=seed)
    order = found(graph, tries=1)
    around = {i: set() for i in range(graph.num_vars)}
    for a in range(graph.num_factors):
        i, j = graph.structure.scope(a).tolist()
        around[i].add(j)
        around[j].add(i)
    by_place = order.variables.tolist()
    # subtrees were moved together; the least fill is among the variables without children before them
    first = [v for n, v in enumerate(by_place) if n not in order.parent.tolist()]

    def fill(v: int) -> int:
        return sum(1 for x in around[v] for y in around[v] if x < y and y not in around[x])

    assert min(map(fill, around)) == min(map(fill, first))


def test_subtrees_are_contiguous():
    order = found(ising_grid(6, 6))
    size = np.ones(len(order.parent), int)
    for n, parent in enumerate(order.parent.tolist()):
        if parent >= 0:
            size[parent] += size[n]
    for n, parent in enumerate(order.parent.tolist()):
        if parent >= 0:
            assert parent - size[parent] < n < parent


def test_trees_have_width_one():
    order = found(random_tree(200, card=(2, 5), seed=1))
    assert np.diff(order.sep_ptr).max() == 1


def test_a_grid_is_swept_at_its_width():
    order = found(ising_grid(20, 20))
    assert np.diff(order.sep_ptr).max() <= 21


def test_components_are_ordered_one_by_one():
    graph = FactorGraph([2] * 9, [([i, j], np.ones((2, 2))) for i, j in [(0, 1), (1, 2), (2, 0), (4, 5), (7, 8)]])
    assert (found(graph).parent < 0).sum() == 5  # a triangle, two pairs, two single variables


def test_the_same_seed_gives_the_same_order():
    graph = ising_grid(9, 9)
    assert np.array_equal(found(graph, seed=3).variables, found(graph, seed=3).variables)


def test_a_limit_ends_the_search_soon():
    answer = best_order(ising_grid(40, 40).structure, PlanningLimits(kept=2.0**20))
    assert isinstance(answer, NoOrder)
    assert answer.bits > 10
    assert not answer.out_of_work
    assert answer.tries < 20


def test_the_work_of_planning_is_bounded():
    answer = best_order(ising_grid(40, 40).structure, PlanningLimits(work=1000.0))
    assert isinstance(answer, NoOrder)
    assert answer.out_of_work


def test_more_tries_are_never_worse():
    structure = random_graph(60, 90, arity=2, card=2, seed=2).structure
    costs = []
    for tries in (1, 8, 64):
        order = best_order(structure, PlanningLimits(tries=tries, effort=math.inf))
        assert isinstance(order, Order)
        costs.append(float(np.exp2(1 + np.diff(order.sep_ptr)).sum()))
    assert costs == sorted(costs, reverse=True)


def test_an_empty_graph_has_an_empty_order():
    assert len(found(FactorGraph([], [])).variables) == 0


def test_the_queue_of_prices_gives_the_cheapest_first() -> None:
    from equifactor.solvers.elimination.greedy import price_heap

    price = np.random.default_rng(3).random(200)
    key, heap, where = price_heap(price)
    np.testing.assert_array_equal(key, -price)
    np.testing.assert_array_equal(where[heap], np.arange(200))
    assert all(price[heap[(n - 1) // 2]] <= price[heap[n]] for n in range(1, 200))


def test_tries_go_on_where_orders_come_near_to_the_limits() -> None:
    rng = np.random.default_rng(3)
    card = rng.integers(2, 6, 90)
    pairs = [rng.choice(90, 2, replace=False).tolist() for _ in range(150)]
    structure = FactorGraph(card.tolist(), [(pair, np.ones(card[pair])) for pair in pairs]).structure
    limits = PlanningLimits(kept=2.0**24.5, message=2.0**24.5)
    assert isinstance(best_order(structure, limits), NoOrder)
    found = best_order(structure, limits._replace(near=8.0))
    assert isinstance(found, Order)
    bits = np.log2(structure.card)[found.variables]
    kept = sum(2.0 ** bits[found.separators[a:b]].sum() for a, b in pairwise(found.sep_ptr.tolist()))
    assert kept <= limits.kept
    assert isinstance(best_order(structure, limits._replace(near=8.0, kept=2.0**10)), NoOrder)


def test_tries_do_not_go_on_where_all_orders_are_alike() -> None:
    graph = FactorGraph([2] * 24, [([i, j], np.ones((2, 2))) for i in range(24) for j in range(i)])
    found = best_order(graph.structure, PlanningLimits(kept=2.0**21, message=2.0**21, near=16.0))
    assert found.tries == 32  # Eight within the limits, and 24 that are never better than the first of them.


def test_a_component_without_an_order_does_not_exceed_an_infinite_limit() -> None:
    structure = ising_grid(30, 30, seed=0).structure
    found = best_order(structure, PlanningLimits(message=64.0, near=16.0, work=4.5e5))  # NaN would be a warning.
    assert isinstance(found, NoOrder)
