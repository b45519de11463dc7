"""Smaller graphs with the same sums: variables that no question needs are summed out where that makes no larger table.

Conditional tables sum to 1 over their child, whatever its parents are. So a variable without observed descendants
leaves the graph without a trace, as do tables that do not depend on a variable. Elimination does not see this: it
keeps the scopes of all tables, and their cliques make it wide.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reduction import ReducedGraph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_SAME = 1e-13  # Log entries that differ by less are equal: sums of rows of probabilities are rounded.
_EDGE_SECONDS = 2e-5
_LARGEST = 2**16  # Entries of tables that are looked at. Chosen by hand.
_Table = tuple[tuple[int, ...], "FloatArray"]  # scope, and log entries with an axis for each of its variables


def is_prunable(graph: FactorGraph) -> bool:
    """Return whether `pruned` takes a graph: one with dense tables, and with a variable at least."""
    return graph.structure.kinds is None and graph.num_vars > 0


def pruning_seconds(graph: FactorGraph) -> float:
    """Return about how many reference seconds `pruned` takes."""
    return _EDGE_SECONDS * graph.structure.num_edges


def pruned(graph: FactorGraph) -> ReducedGraph:
    """Return a smaller graph with the same ln Z; variables that are left out have no state in it.

    Args:
        graph: a graph without observed variables for which `is_prunable` holds.
    """
    work = _Work(graph)
    work.run()
    variables = np.flatnonzero(~work.gone)
    new = np.cumsum(~work.gone) - 1
    tables = [own for own in work.tables if own is not None]
    tables.append((tuple(variables[:1].tolist()), np.full(graph.card[variables[0]], work.constant)))
    scope_ptr = ptr_of([len(scope) for scope, _ in tables])
    scope_vars = new[np.array([v for scope, _ in tables for v in scope], np.int64)]
    structure = Structure.build(graph.card[variables], scope_ptr, scope_vars)
    log_phi = np.concatenate([table.ravel() for _, table in tables])
    smaller = FactorGraph.trusted(structure, log_phi, None, graph.name)
    kept_states = np.flatnonzero(np.repeat(~work.gone, graph.card))
    return ReducedGraph(smaller, graph, variables, kept_states, np.full(graph.num_vars, -1))


class _Work:
    """The tables of a graph while variables are summed out.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: FactorGraph) -> None:
        s = graph.structure
        self.card = s.card
        self.tables: list[_Table | None] = []
        self.gone = np.zeros(s.num_vars, bool)
        self.constant = 0.0
        self.around: list[set[int]] = [set() for _ in range(s.num_vars)]  # the tables of each variable
        for a in range(s.num_factors):
            table = graph.log_phi[s.table_ptr[a] : s.table_ptr[a + 1]].reshape(s.shape(a))
            self._add(tuple(s.scope(a).tolist()), table)

    def run(self) -> None:
        """Sum out variables while that leaves no table behind that is larger than those before it.

        The last variable stays.
        """
        waiting = deque(range(len(self.card)))
        queued = np.ones(len(self.card), bool)
        left = len(self.card)
        while waiting and left > 1:
            v = waiting.popleft()
            queued[v] = False
            if self.gone[v] or not self._is_leaf(v):
                continue
            left -= 1
            for other in self._sum_out(v):
                if not queued[other]:
                    queued[other] = True
                    waiting.append(other)

    def _add(self, scope: tuple[int, ...], table: FloatArray) -> None:
        """Add a table, without the variables that it does not depend on."""
        scope, table = _shortened((scope, table))
        if not scope:
            self.constant += float(table)
            return
        for x in scope:
            self.around[x].add(len(self.tables))
        self.tables.append((scope, table))

    def _is_leaf(self, v: int) -> bool:
        """Return whether one table of a variable contains the scopes of all its others, and is small."""
        scopes = [own[0] for a in self.around[v] if (own := self.tables[a])]
        widest = max(scopes, key=len, default=())
        inside = {*widest}
        small = float(np.prod(self.card[list(widest)].astype(float))) <= _LARGEST
        return small and all(inside.issuperset(scope) for scope in scopes)

    def _sum_out(self, v: int) -> tuple[int, ...]:
        """Replace the tables of a leaf by their sum over its states; return the other variables of those tables."""
        numbers = sorted(self.around[v])
        owns = [own for a in numbers if (own := self.tables[a])]
        widest, _ = max(owns, key=lambda own: len(own[0]), default=((v,), None))
        total = np.zeros(self.card[list(widest)])
        for scope, table in owns:
            total = total + _expanded(scope, table, widest)
        self.gone[v] = True
        for a in numbers:
            for x in (self.tables[a] or ((),))[0]:
                self.around[x].discard(a)
            self.tables[a] = None
        at = widest.index(v)
        rest = widest[:at] + widest[at + 1 :]
        self._add(rest, np.asarray(np.logaddexp.reduce(total, axis=at)))
        return rest


def _shortened(own: _Table) -> _Table:
    """Return a table without the variables that it does not depend on."""
    scope, table = own
    if table.size > _LARGEST:
        return own
    for j in range(table.ndim - 1, -1, -1):
        first = table.take([0], axis=j)
        with np.errstate(invalid="ignore"):
            same = (table == first) | (np.abs(table - first) < _SAME)
        if np.all(same):
            table, scope = np.asarray(table.take(0, axis=j)), scope[:j] + scope[j + 1 :]
    return scope, table


def _expanded(scope: tuple[int, ...], table: FloatArray, widest: tuple[int, ...]) -> FloatArray:
    """Return a table with an axis for each variable of a wider scope, to be broadcast."""
    order = sorted(range(len(scope)), key=lambda j: widest.index(scope[j]))
    inside = {scope[j]: table.shape[j] for j in order}
    return table.transpose(order).reshape([inside.get(v, 1) for v in widest])
