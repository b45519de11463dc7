"""Elimination orders for clusters of bounded size, for which narrow orders are not always best.

A sweep from one side of a model to the other has wide frontiers that can be divided into strips. An order of least fill
meets its large clusters at the end, all at once. A short trial shows which order is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.budget import Budget
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure

# The share of the time left for planning orders, of clusters or of exact elimination. Halved or doubled: gap within
# 15 %.
PLANNING_SHARE = 0.1
_BREADTH = 2e-6  # Reference seconds for an edge, to order by breadth: formulas of 656,000 clauses.
TRIES = 8  # Orders of least fill that are tried, also for exact elimination. Halved or doubled: gap within 15 %.


def candidate_orders(
    structure: Structure, most_work: float, seed: int, budget: Budget | None = None
) -> Iterator[tuple[str, IntArray]]:
    """Yield names and orders [V]: by least fill, as the model lists its variables, and by breadth if there is time.

    Args:
        structure: the model.
        most_work: list operations for the order of least fill; it is left out if it needs more.
        seed: the seed of the random choices.
        budget: the time; None for no limit.
    """
    from equifactor.solvers.elimination.orders import Order, PlanningLimits, best_order

    found = best_order(structure, PlanningLimits(tries=TRIES, work=most_work), seed)
    if isinstance(found, Order):
        yield "fill", found.variables
    yield "listed", np.arange(structure.num_vars)
    if budget is None or budget.ends_in_time(_BREADTH * structure.num_edges):
        yield "breadth", by_breadth(structure)


def by_breadth(structure: Structure) -> IntArray:
    """Return [V] variables by their distance from a variable at the edge of the graph, component by component."""
    from equifactor.solvers.elimination import order_kernels as kernels

    ptr, adj = kernels.adjacency(structure.num_vars, structure.scope_ptr, structure.scope_vars)
    neighbours = [adj[a:b].tolist() for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]
    order: list[int] = []
    reached = [False] * structure.num_vars
    for start in range(structure.num_vars):
        if not reached[start]:
            end = _walk(start, neighbours)[-1]
            for v in _walk(end, neighbours):
                reached[v] = True
                order.append(v)
    return np.array(order, np.int64)


def _walk(start: int, neighbours: list[list[int]]) -> list[int]:
    """Return the variables that can be reached, nearest first; at each step those with few neighbours first."""
    found, seen = [start], {start}
    for v in found:
        fresh = [u for u in neighbours[v] if u not in seen]
        fresh.sort(key=lambda u: len(neighbours[u]))
        seen.update(fresh)
        found += fresh
    return found
