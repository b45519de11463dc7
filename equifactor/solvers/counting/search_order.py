"""The order in which a search for sums decides variables: separators of the elimination order first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.orders import NoOrder, PlanningLimits, best_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.counting.formula import LitClause
    from equifactor.solvers.elimination.orders import Order

_TRIES = 24  # Elimination orders tried. Chosen by hand: more tries rarely find a smaller width.


class SearchOrder(NamedTuple):
    """How early to decide each variable, and what elimination along the same order would cost."""

    priority: FloatArray  # [n] larger is earlier
    width: int | None  # None if planning found no order in its time
    entries: float  # of all tables of an elimination


def search_order(num_vars: int, clauses: Sequence[LitClause], seconds_of_planning: float) -> SearchOrder:
    """Return the order in which a search decides variables.

    The cluster tree of the order is rooted at a cluster with subtrees as equal as possible. A variable is decided the
    earlier, the nearer to the root its first cluster is, so that the formula falls apart into components.

    Args:
        num_vars: the number of variables n.
        clauses: clauses of two literals or more.
        seconds_of_planning: reference seconds that planning may take.
    """
    scopes = [sorted({x >> 1 for x in clause}) for clause in clauses]
    scope_ptr = ptr_of([len(scope) for scope in scopes])
    scope_vars = np.array([v for scope in scopes for v in scope], np.int64)
    structure = Structure.trusted(np.full(num_vars, 2), scope_ptr, scope_vars, np.zeros(len(scopes) + 1, np.int64))
    limits = PlanningLimits(tries=_TRIES, effort=np.inf, work=5e7 * seconds_of_planning)
    order = best_order(structure, limits)
    if isinstance(order, NoOrder):
        return SearchOrder(np.zeros(num_vars), None, np.inf)
    width = np.diff(order.sep_ptr)
    return SearchOrder(-_depths(order).astype(float), int(width.max(initial=0)), float(np.exp2(width + 1.0).sum()))


def _depths(order: Order) -> IntArray:
    """Return [n] the distance of each variable's first cluster from the root of its tree."""
    parent, count = order.parent.tolist(), len(order.parent)
    size = np.ones(count, np.int64)
    largest = np.zeros(count, np.int64)  # of the subtrees below each cluster; parents follow their children
    for n, p in enumerate(parent):
        if p >= 0:
            size[p] += size[n]
            largest[p] = max(largest[p], size[n])
    near: list[list[int]] = [[] for _ in range(count)]
    root = np.arange(count)
    for n in range(count - 1, -1, -1):
        if parent[n] >= 0:
            root[n] = root[parent[n]]
            near[n].append(parent[n])
            near[parent[n]].append(n)
    worst = np.maximum(largest, size[root] - size)
    centre: dict[int, int] = {}
    for n in np.lexsort((np.arange(count), worst)).tolist():
        centre.setdefault(int(root[n]), n)
    depth = np.full(count, count, np.int64)  # by variable
    for start in centre.values():
        stack = [(start, -1, 0)]
        while stack:
            n, before, steps = stack.pop()
            bag = order.variables[np.append(order.separators[order.sep_ptr[n] : order.sep_ptr[n + 1]], n)]
            depth[bag] = np.minimum(depth[bag], steps)
            stack += [(m, n, steps + 1) for m in near[n] if m != before]
    return depth
