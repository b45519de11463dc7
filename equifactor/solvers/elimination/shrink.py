"""A smaller graph with the same best score: cheap variables eliminated, factors merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import Budget, Seconds
from equifactor.base.status import Status
from equifactor.base.typing import FloatArray, IntArray
from equifactor.graph import FactorGraph
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.graph.marginals import Marginals

# Most entries of the joint table of one elimination: six variables of two states. Halved in `branch`: gap +7 %;
# doubled: CPU within 5 %.
MOST_ENTRIES = 64


class FactorPool(NamedTuple):
    """Factors that are alive, dead or made by elimination, with room for new ones, and the factors around variables.

    The scope of factor a is scope[start[a]:start[a]+arity[a]], ascending, and its table, in C order, begins at
    table[first[a]]. The factors around a variable are a linked list, head[i] into node_factor and node_next.
    """

    card: IntArray  # [v] states of each variable
    start: IntArray  # [F+v] first place of each scope
    arity: IntArray  # [F+v] variables of each factor, -1 where it is dead
    first: IntArray  # [F+v] first entry of each table
    scope: IntArray
    table: FloatArray
    head: IntArray  # [v] first node of each variable's list, -1 where it is empty
    node_factor: IntArray  # factor of each node
    node_next: IntArray  # node after each node, -1 at the end of a list
    ends: IntArray  # [4] first free place in scope, in table and in the nodes; number of factors


class Trace(NamedTuple):
    """The variables that were eliminated, those each depended on, and its best state for every state of those."""

    eliminated: IntArray  # [n] variables in the order of elimination
    scope_ptr: IntArray  # [n+1] pointer to the variables that each depends on
    scope: IntArray
    choice_start: IntArray  # [n+1] pointer to the best states of each
    choice: NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class ShrunkGraph(ReducedGraph):
    """A graph without cheap variables; `assignment` puts them into the states that are best for the others.

    It has the best score of the original, but no marginals.
    """

    free_part: ReducedGraph = field(kw_only=True, repr=False)  # the graph from which the variables were eliminated
    kept: IntArray = field(kw_only=True, repr=False)  # [v] number of each variable in the free part
    trace: Trace = field(kw_only=True, repr=False)

    def assignment(self, states: IntArray) -> IntArray:
        """Return the assignment [V] of the original for states [v] of the kept variables: the others at their best."""
        from equifactor.solvers.elimination.elimination_kernels import trace_back

        card = self.free_part.graph.card
        full = np.zeros(len(card), np.int64)
        full[self.kept] = states
        trace_back(*self.trace, card, full)
        return self.free_part.assignment(full)

    def states(self, assignment: IntArray) -> IntArray:
        """Return the states [v] of the kept variables in an assignment [V] of the original of positive probability."""
        return self.free_part.states(assignment)[self.kept]

    def marginals(self, values: FloatArray) -> Marginals:
        """Raise: marginals of eliminated variables are not known."""
        raise ValueError("A shrunk graph has no marginals: variables were eliminated at their best states.")

    def optimum(self) -> Estimate:
        """Return the optimum of a graph without remaining variables."""
        assignment = self.assignment(np.zeros(0, np.int64))
        score = self.original.log_score(assignment)
        if np.isneginf(score):
            return zero_by_exclusion(self.original)
        return Estimate(status=Status.OPTIMAL, assignment=assignment, lower_bound=score, upper_bound=score)


def has_time_to_shrink(structure: Structure, clock: Clock) -> bool:
    """Return whether `shrink` of a graph of tables ends before the deadline, or shortly after."""
    arity = structure.arity
    work = Seconds.SHRINK_EDGE * structure.num_edges + Seconds.SHRINK_WIDE * float(arity[arity > 2].sum())
    return Budget(clock).ends_in_time(work + Seconds.SHRINK_ENTRY * structure.num_entries)


def shrink(graph: FactorGraph, most_entries: int = MOST_ENTRIES, widest: int = MOST_ENTRIES) -> ShrunkGraph | None:
    """Remove variables that zeros decide, eliminate cheap ones, and merge factors into those that hold their scope.

    Merged factors and eliminated variables both tighten the relaxation that dual bounds solve, and every search has
    fewer variables. Returns None if the zeros leave no assignment. Cost O(V most_entries + T), a few ms.

    Args:
        graph: the model, observed variables included.
        most_entries: a variable is eliminated only if the joint table of its factors has at most this many entries.
        widest: most other variables that share those factors; 2 keeps a graph of pairs a graph of pairs.
    """
    from equifactor.solvers.elimination import shrink_kernels as kernels

    free_part = to_free_part(graph)
    if free_part is None:
        return None
    pool = _new_pool(free_part.graph, most_entries)
    trace = _new_trace(len(pool.card), most_entries)
    count = kernels.eliminate_cheap(most_entries, widest, tuple(pool), tuple(trace))
    kernels.merge_nested(tuple(pool))
    eliminated = trace.eliminated[:count]
    is_kept = np.ones(len(pool.card), bool)
    is_kept[eliminated] = False
    kept = np.flatnonzero(is_kept)
    rest = _pack(pool, kept)
    if np.isneginf(np.maximum.reduceat(rest.log_phi, rest.structure.table_ptr[:-1])).any():
        return None  # contradicting tables were merged
    return ShrunkGraph(rest, graph, free_part=free_part, kept=kept, trace=trace._replace(eliminated=eliminated))


def _new_pool(graph: FactorGraph, most_entries: int) -> FactorPool:
    """Return the factors of a graph, and room for one more factor of at most `most_entries` entries per variable."""
    from equifactor.solvers.elimination import shrink_kernels as kernels

    s = graph.structure
    v, width = s.num_vars, most_entries.bit_length()
    room = v * most_entries
    scopes, table = kernels.sort_scopes(s.card, s.scope_ptr, s.scope_vars, s.table_ptr, graph.log_phi, room)
    later = np.zeros(v, np.int64)
    node_factor, node_next = np.empty((2, s.num_edges + v * width), np.int64)
    head = np.full(v, -1)
    nodes = kernels.link(s.scope_ptr, scopes, head, node_factor, node_next)
    return FactorPool(
        card=s.card,
        start=np.concatenate((s.scope_ptr[:-1], later)),
        arity=np.concatenate((s.arity, later)),
        first=np.concatenate((s.table_ptr[:-1], later)),
        scope=np.concatenate((scopes, np.zeros(v * width, np.int64))),
        table=table,
        head=head,
        node_factor=node_factor,
        node_next=node_next,
        ends=np.array([s.num_edges, s.num_entries, nodes, s.num_factors]),
    )


def _new_trace(num_vars: int, most_entries: int) -> Trace:
    return Trace(
        eliminated=np.empty(num_vars, np.int64),
        scope_ptr=np.zeros(num_vars + 1, np.int64),
        scope=np.empty(num_vars * most_entries.bit_length(), np.int64),
        choice_start=np.zeros(num_vars + 1, np.int64),
        choice=np.empty(num_vars * most_entries, np.int16),
    )


def _pack(pool: FactorPool, kept: IntArray) -> FactorGraph:
    """Return the live factors as a graph over the variables `kept`."""
    from equifactor.solvers.elimination.shrink_kernels import FACTOR

    num_factors = pool.ends[FACTOR]
    arity, first = pool.arity[:num_factors], pool.first[:num_factors]
    constants = np.flatnonzero(arity == 0)
    if len(constants):  # one is enough
        pool.table[first[constants[0]]] = pool.table[first[constants]].sum()
        arity[constants[1:]] = -1
    alive = np.flatnonzero(arity >= 0)
    place = np.empty(len(pool.card), np.int64)
    place[kept] = np.arange(len(kept))
    scope_ptr = ptr_of(arity[alive])
    edges = np.repeat(pool.start[alive] - scope_ptr[:-1], arity[alive]) + np.arange(scope_ptr[-1])
    structure = Structure.build(pool.card[kept], scope_ptr, place[pool.scope[edges]])
    sizes = np.diff(structure.table_ptr)
    shift = first[alive] - structure.table_ptr[:-1]
    if len(shift) and (shift == shift[0]).all():  # The tables are neighbours, as those of large pairs are.
        return FactorGraph.trusted(structure, pool.table[shift[0] : shift[0] + structure.table_ptr[-1]])
    entries = np.repeat(shift, sizes) + np.arange(structure.table_ptr[-1])
    return FactorGraph.trusted(structure, pool.table[entries])
