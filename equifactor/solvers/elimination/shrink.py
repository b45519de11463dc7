"""A smaller graph with the same best score: cheap variables eliminated, factors merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.result import Estimate, Status, impossible
from equifactor.solvers.elimination.reduction import Reduction, pointers, reduce_graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.typing import IntArray


MOST_ENTRIES = 64  # of a table that one elimination joins: six variables of two states


@dataclass(frozen=True, eq=False)
class Shrunk:
    """What is left, and the way back. Variables of `graph` are numbered anew; v counts those of the reduction."""

    source: FactorGraph
    reduction: Reduction = field(repr=False)
    graph: FactorGraph
    kept: IntArray  # [v'] variables of the reduction that are left
    _trace: tuple[NDArray[np.signedinteger], ...] = field(repr=False)  # of `kernels.shrink.trace_back`

    def assignment(self, states: IntArray) -> IntArray:
        """[V] assignment of the source from states [v'] of what is left: the eliminated variables at their best."""
        from equifactor.solvers.elimination.shrink_kernels import trace_back

        done, *trace = self._trace
        full = np.zeros(len(self.reduction.card), np.int64)
        full[self.kept] = states
        trace_back(len(done), done, *trace, self.reduction.card, full)
        return self.reduction.assignment(self.source, full)

    def estimate(self) -> Estimate:
        """The optimum of a graph of which nothing is left."""
        assignment = self.assignment(np.zeros(0, np.int64))
        score = self.source.log_score(assignment)
        if np.isneginf(score):
            return impossible()
        return Estimate(status=Status.OPTIMAL, assignment=assignment, lower_bound=score, upper_bound=score)

    def states(self, assignment: IntArray) -> IntArray:
        """[v'] the states of what is left in an assignment [V] of the source that has positive probability."""
        r = self.reduction
        chosen = assignment[r.variables[self.kept]]
        if r.states is None:
            return chosen
        ptr = pointers(r.card)
        number = np.full((len(self.kept), int(r.card[self.kept].max(initial=1))), -1)
        for x in range(number.shape[1]):
            has = r.card[self.kept] > x
            number[has, x] = r.states[ptr[self.kept[has]] + x]
        return np.argmax(number == chosen[:, None], axis=1)


def shrink(graph: FactorGraph, most_entries: int = MOST_ENTRIES, widest: int = MOST_ENTRIES) -> Shrunk | None:
    """Leave out what zeros decide, eliminate cheap variables, merge factors into those that hold their scope.

    Merged factors and eliminated variables both tighten the relaxation that dual bounds solve, and every search has
    fewer variables to look at. None when the zeros leave no assignment. Cost O(V most_entries + T), a few ms.

    Args:
        graph: the model, observed variables included.
        most_entries: a variable is eliminated when the joint table of its factors has no more entries,
        widest: and when no more than so many other variables share them: 2 keeps a graph of pairs one of pairs.
    """
    from equifactor.solvers.elimination import shrink_kernels as kernels

    left = reduce_graph(graph)
    if left.impossible:
        return None
    v, num, edges = len(left.card), len(left.scope_ptr) - 1, len(left.scope_vars)
    width = most_entries.bit_length()
    scope_vars, tables = kernels.sort_scopes(
        left.card, left.scope_ptr, left.scope_vars, left.table_ptr, left.log_phi(graph)
    )
    arity = np.concatenate((np.diff(left.scope_ptr), np.zeros(v, np.int64)))
    start = np.concatenate((left.scope_ptr[:-1], np.zeros(v, np.int64)))
    first = np.concatenate((left.table_ptr[:-1], np.zeros(v, np.int64)))
    scope = np.concatenate((scope_vars, np.zeros(v * width, np.int64)))
    table = np.empty(len(tables) + v * most_entries)  # not zeros: what nobody writes takes no memory
    table[: len(tables)] = tables
    head = np.full(v, -1)
    node_factor, node_next = np.empty((2, edges + v * width), np.int64)
    nodes = kernels.link(left.scope_ptr, scope_vars, head, node_factor, node_next)
    lists = head, node_factor, node_next
    done, done_ptr, choice_ptr = np.empty(v, np.int64), np.zeros(v + 1, np.int64), np.zeros(v + 1, np.int64)
    done_scope, choice = np.empty(v * width, np.int64), np.empty(v * most_entries, np.int16)
    pools = start, arity, first, scope, table
    union, around = np.empty(v + 1, np.int64), np.empty(num + v, np.int64)
    ends = np.array([edges, len(tables), nodes])
    limits = most_entries, widest
    trace = done, done_ptr, done_scope, choice_ptr, choice
    count, num_factors = kernels.eliminate_cheap(*limits, left.card, num, *pools, *lists, ends, *trace, union, around)
    kernels.absorb(left.card, num_factors, *pools, *lists, union)
    kept = np.setdiff1d(np.arange(v), done[:count])
    rest = _pack(left.card, kept, num_factors, pools)
    if np.isneginf(np.maximum.reduceat(rest.log_phi, rest.structure.table_ptr[:-1])).any():
        return None  # tables that contradict each other have met in one
    return Shrunk(graph, left, rest, kept, (done[:count], *trace[1:]))


def _pack(card: IntArray, kept: IntArray, num_factors: int, pools: tuple[NDArray, ...]) -> FactorGraph:
    """The factors that are alive as a graph over the variables `kept`."""
    start, arity, first, scope, table = pools
    constants = np.flatnonzero(arity[:num_factors] == 0)
    if len(constants):  # one is enough
        table[first[constants[0]]] = table[first[constants]].sum()
        arity[constants[1:]] = -1
    alive = np.flatnonzero(arity[:num_factors] >= 0)
    place = np.empty(len(card), np.int64)
    place[kept] = np.arange(len(kept))
    scope_ptr = pointers(arity[alive])
    edges = np.repeat(start[alive] - scope_ptr[:-1], arity[alive]) + np.arange(scope_ptr[-1])
    structure = Structure.build(card[kept], scope_ptr, place[scope[edges]])
    sizes = np.diff(structure.table_ptr)
    entries = np.repeat(first[alive] - structure.table_ptr[:-1], sizes) + np.arange(structure.table_ptr[-1])
    return FactorGraph.trusted(structure, table[entries])
