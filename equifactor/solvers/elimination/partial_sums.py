"""Sums over some variables of a graph: the graph over the others, with the sums as tables.

The kernels of elimination run along an order that ends early. A cluster whose message would go to a variable that
stays is a root, and its message becomes a factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import picked, ptr_of
from equifactor.kernels.readiness import plain_is_better, uses_kernels
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.plain_elimination import ClusterTree, plain_seconds
from equifactor.solvers.elimination.program import Clusters, ClusterTables, build_program, read_only

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray

    Message = tuple[IntArray, FloatArray]  # variables, and a log table in C order

_PASS = 2**25  # Operations of a pass between two checks of the clock, about 30 ms.
_SECONDS = 3e-9  # Reference seconds for a table entry of a sum.


class SumPlan(NamedTuple):
    """The clusters of the variables that are summed out, in their order; and what their sums cost."""

    part: Structure  # the factors that have such a variable, over all variables of the graph
    factors: IntArray  # [n] their numbers in the graph
    order: Order  # of all variables, those that stay at the end and without separators
    num_sums: int
    entries: float  # of all cluster tables
    largest: float  # log2 of the entries of the largest cluster table

    @property
    def seconds(self) -> float:
        """Reference seconds of the sums, within a factor of two or three."""
        return self.entries * _SECONDS


def cheap_sums(structure: Structure, may_go: BoolArray, most_bits: float) -> list[int]:
    """Return variables in an order in which they can be summed out with tables of at most 2^`most_bits` entries.

    The variable with the smallest table is next, until the tables of all others are too large.

    Args:
        structure: the structure of a graph of tables.
        may_go: [V] the variables that may be summed out.
        most_bits: log2 of the entries of the largest cluster table.
    """
    near: list[set[int]] = [set() for _ in range(structure.num_vars)]
    scope_vars = structure.scope_vars.tolist()
    for start, stop in pairwise(structure.scope_ptr.tolist()):
        for i in scope_vars[start:stop]:
            near[i].update(scope_vars[start:stop])
    bits = np.log2(structure.card).tolist()
    for i, own in enumerate(near):
        own.discard(i)
    size = {i: bits[i] + sum(bits[j] for j in near[i]) for i in np.flatnonzero(may_go).tolist()}
    heap = [(cost, i) for i, cost in size.items()]
    heapify(heap)
    found: list[int] = []
    while heap:
        cost, i = heappop(heap)
        if i not in size or cost != size[i]:
            continue
        if cost > most_bits:
            break
        del size[i]
        found.append(i)
        around = near[i]
        for j in around:
            near[j] |= around
            near[j] -= {i, j}
        for j in around:
            if j in size:
                size[j] = bits[j] + sum(bits[k] for k in near[j])
                heappush(heap, (size[j], j))
    return found


def plan_sums(structure: Structure, sums: Sequence[int] | IntArray) -> SumPlan:
    """Return the clusters for sums over some variables in this order."""
    from equifactor.solvers.elimination import order_kernels as kernels

    s, count = structure, len(sums)
    goes = np.zeros(s.num_vars, bool)
    goes[np.asarray(sums, np.int64)] = True
    factors = np.unique(s.factor_of_edge[goes[s.scope_vars]])
    part = Structure.build(s.card, ptr_of(s.arity[factors]), s.scope_vars[picked(s.scope_ptr, factors)[1]])
    order = np.concatenate((np.asarray(sums, np.int64), np.flatnonzero(~goes)))
    ptr, adj = kernels.adjacency(s.num_vars, part.scope_ptr, part.scope_vars)
    sep_ptr, separators, parent = kernels.clusters(order, ptr, adj)
    sep_ptr, parent = sep_ptr.copy(), parent.copy()
    sep_ptr[count:] = sep_ptr[count]
    separators = separators[: sep_ptr[count]].copy()
    parent[count:] = -1
    parent[parent >= count] = -1
    bits = np.log2(s.card[order])
    running = np.concatenate(([0.0], np.cumsum(bits[separators])))
    size = bits[:count] + running[sep_ptr[1 : count + 1]] - running[sep_ptr[:count]]
    made = Order(order, sep_ptr, separators, parent, 1)
    return SumPlan(
        part, factors, made, count, float(np.exp2(np.minimum(size, 500.0)).sum()), float(size.max(initial=0.0))
    )


def sum_out_part(graph: FactorGraph, steps: SumPlan, clock: Clock) -> tuple[FactorGraph, IntArray] | None:
    """Return the graph over the variables that stay, and their numbers; None when the clock stopped the work.

    If the sum of all scores is zero, the new graph has a constant factor of zero.

    Args:
        graph: a graph of tables with the structure that was planned, without observed variables.
        steps: the plan.
        clock: the clock of the call.
    """
    s = graph.structure
    log_phi = graph.log_phi[picked(s.table_ptr, steps.factors)[1]]
    plain = plain_seconds(steps.entries, steps.num_sums, False)
    if not uses_kernels("elimination") and plain_is_better(plain, steps.seconds, "elimination"):
        found = _plain_messages(steps, log_phi, clock)
    else:
        found = _messages(steps, log_phi, clock)
    if found is None:
        return None
    constant, messages = found
    kept = steps.order.variables[steps.num_sums :]
    place = np.full(s.num_vars, -1)
    place[kept] = np.arange(len(kept))
    stays = np.ones(s.num_factors, bool)
    stays[steps.factors] = False
    rest = np.flatnonzero(stays)
    arity = np.concatenate((s.arity[rest], [len(scope) for scope, _ in messages], [0])).astype(np.int64)
    scopes = np.concatenate([s.scope_vars[picked(s.scope_ptr, rest)[1]], *[scope for scope, _ in messages]])
    tables = [graph.log_phi[picked(s.table_ptr, rest)[1]], *[table for _, table in messages], np.array([constant])]
    structure = Structure.build(s.card[kept], ptr_of(arity), place[scopes.astype(np.int64)])
    return FactorGraph.trusted(structure, np.concatenate(tables), None, graph.name), kept


def _messages(steps: SumPlan, log_phi: FloatArray, clock: Clock) -> tuple[float, list[Message]] | None:
    """Return a constant and the messages to variables that stay, by the kernels of elimination."""
    from equifactor.solvers.elimination import elimination_kernels as kernels
    from equifactor.solvers.elimination.cluster_tables import fill_groups, scale_groups

    count, order = steps.num_sums, steps.order
    program = build_program(steps.part, order)
    tables, work = program.tables(reuse=False), program.workspace(marginals=False)
    tables.mode[:] = 0
    fill_groups(read_only(log_phi), tuple(program.groups), tables.start, tables.arena, work.digit)
    constant = float(log_phi[program.groups.constants].sum())
    if constant == -math.inf or not scale_groups(program.num_groups, tuple(tables)):
        return -math.inf, []
    # The passes take the number of clusters from these two arrays.
    clusters = tuple(Clusters(*program.clusters)._replace(dim=program.clusters.dim[:count].copy()))
    own = tuple(ClusterTables(*tables)._replace(size=tables.size[: program.num_groups + count].copy()))
    n = block = 0
    while n < count:
        if clock.stopped:
            return None
        n, block = kernels.collect(n, block, _PASS, clusters, own, tuple(work))
        if n < 0:
            return -math.inf, []
    constant += float(tables.scale[: 1 + count].sum())
    found: list[Message] = []
    with np.errstate(divide="ignore"):
        for n in np.flatnonzero(order.parent[:count] < 0).tolist():
            operand = program.num_groups + n
            start, size = tables.start[operand], tables.size[operand]
            table = tables.arena[start : start + size]
            table = table.copy() if tables.is_log[operand] else np.log(table)
            scope = order.variables[order.separators[order.sep_ptr[n] : order.sep_ptr[n + 1]]]
            if len(scope):
                found.append((scope, table))
            else:
                constant += float(table[0])
    return constant, found


class _SumTree(ClusterTree):
    """The same in plain NumPy: messages of roots with a separator are kept."""

    def _send(self, n: int, message: FloatArray) -> float:
        if self.parent[n] >= 0 or not message.ndim:
            return super()._send(n, message)
        self.kept.append((self.variables[self.axes[n][1:]], message.ravel()))
        return 0.0

    def messages(self, steps: SumPlan) -> tuple[float, list[Message]] | None:
        """Return a constant and the messages to variables that stay."""
        self.kept: list[Message] = []
        with np.errstate(all="ignore"):
            total = self.sum_up(keep=False)
        if total is None:
            return None
        # A variable that stays has a cluster without tables, whose sum is its number of states.
        return total - float(np.log(self.dim[steps.num_sums :]).sum()), self.kept


def _plain_messages(steps: SumPlan, log_phi: FloatArray, clock: Clock) -> tuple[float, list[Message]] | None:
    return _SumTree(steps.part, steps.order, log_phi, clock).messages(steps)
