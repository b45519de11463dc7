"""Elimination in any order, by maxima over query variables and sums over all others: upper bounds on marginal MAP.

A maximum that is taken before a sum can only be too large, so every order gives an upper bound. It is exact if every
maximum comes after the sums that it meets [Park03].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.kernels.pointers import picked, ptr_of
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.program import Clusters, ClusterTables, Program, build_program, read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.structure import Structure

_PASS = 2**25  # Operations of a pass between two checks of the clock, about 30 ms.


class MixedValue(NamedTuple):
    """The result of a mixed elimination."""

    log_value: float  # an upper bound on the log of the best sum, up to rounding; the best sum itself if it is exact
    states: IntArray | None  # [v] the best states of the query, others -1; None if the value is not exact


@dataclass(frozen=True, eq=False)
class MixedPlan:
    """An order of all variables of a structure, and whether its value is exact."""

    structure: Structure
    order: Order
    is_query: BoolArray  # [v] by variable

    @property
    def sizes(self) -> FloatArray:
        """[v] log2 of the entries of every cluster."""
        return _sizes(self.structure.card, self.order.variables, self.order.sep_ptr, self.order.separators)

    @property
    def entries(self) -> float:
        """The entries of all cluster tables."""
        return float(np.exp2(np.minimum(self.sizes, 500.0)).sum())

    @cached_property
    def early(self) -> IntArray:
        """The query variables whose maximum is taken before a sum that it meets, the one with the most sums first."""
        is_max, parent = self.is_query[self.order.variables], self.order.parent
        sums = np.zeros(len(parent) + 1, np.int64)  # the sums above each cluster; the last place is above the roots
        for n in range(len(parent) - 1, -1, -1):
            sums[n] = 0 if parent[n] < 0 else sums[parent[n]] + (not is_max[parent[n]])
        places = np.flatnonzero(is_max & (sums[:-1] > 0))
        return self.order.variables[places[np.argsort(-sums[places], kind="stable")]]

    @cached_property
    def program(self) -> Program:
        """The clusters in the form that kernels take."""
        return build_program(self.structure, self.order)

    def run(self, log_phi: FloatArray, clock: Clock) -> MixedValue | None:
        """Return the value for log tables [T]; None when the clock stopped the work."""
        from equifactor.solvers.elimination import elimination_kernels as kernels
        from equifactor.solvers.elimination.cluster_tables import fill_groups, scale_groups

        program, is_max = self.program, self.is_query[self.order.variables]
        tables, work = program.tables(reuse=True), tuple(program.workspace(marginals=False))
        constant = float(log_phi[program.groups.constants].sum())
        fill_groups(read_only(log_phi), tuple(program.groups), tables.start, tables.arena, work[4])
        if constant == -math.inf or not scale_groups(program.num_groups, tuple(tables)):
            return MixedValue(-math.inf, None)
        sizes = np.where(is_max, program.message_sizes, 0)
        choice_start = ptr_of(sizes)[:-1]
        choice = np.empty(int(sizes.sum()), np.uint8 if self.structure.card.max(initial=1) <= 256 else np.int32)
        ends = np.append(np.flatnonzero(np.diff(is_max)) + 1, len(is_max)).tolist() if len(is_max) else []
        n = block = 0
        for end in ends:
            clusters = tuple(Clusters(*program.clusters)._replace(dim=program.clusters.dim[:end].copy()))
            own = tuple(ClusterTables(*tables)._replace(size=tables.size[: program.num_groups + end].copy()))
            while n < end:
                if clock.stopped:
                    return None
                if is_max[n]:
                    n = self._maximise(n, clusters, tables, work, (choice, choice_start))
                else:
                    n, block = kernels.collect(n, block, _PASS, clusters, own, work)
                if n < 0:
                    return MixedValue(-math.inf, None)
        roots = np.flatnonzero(program.clusters.parent < 0) + program.num_groups
        at_root = tables.arena[tables.start[roots]]
        value = constant + float(tables.scale.sum())
        value += float(np.where(tables.is_log[roots], at_root, np.log(at_root)).sum())
        return MixedValue(value, None if len(self.early) else self._states(choice_start, choice))

    def _maximise(
        self,
        n: int,
        clusters: tuple[Any, ...],
        tables: ClusterTables,
        work: tuple[Any, ...],
        chosen: tuple[Any, IntArray],
    ) -> int:
        """Take the maximum over the variable of cluster n, in logs; return the next cluster, or -1 for zero."""
        from equifactor.solvers.elimination import elimination_kernels as kernels
        from equifactor.solvers.elimination.cluster_tables import scale_log, to_log

        c, groups = self.program.clusters, self.program.num_groups
        for op in c.in_op[c.in_ptr[n] : c.in_ptr[n + 1]].tolist():
            if not tables.is_log[op]:
                to_log(tables.arena, tables.start[op], tables.size[op])
                tables.is_log[op] = True
        only = tuple(Clusters(*clusters)._replace(dim=c.dim[: n + 1].copy()))
        start, (choice, choice_start) = tables.start[: groups + n + 1].copy(), chosen
        at, block = n, 0
        while at == n:
            at, block = kernels.maximise_clusters(
                n, block, _PASS, only, work, start, tables.arena, choice, choice_start
            )
        op = groups + n
        taken = scale_log(op, tables.start[op], tables.size[op], tables.arena, tables.is_log, tables.low)
        tables.scale[1 + n] = taken
        return -1 if taken == -math.inf else n + 1

    def _states(self, choice_start: IntArray, choice: NDArray[Any]) -> IntArray:
        """Return the best states of the query; no maximum depends on a variable that was summed out."""
        from equifactor.solvers.elimination import elimination_kernels as kernels

        order, clusters = self.order, self.program.clusters
        places = np.flatnonzero(self.is_query[order.variables])
        scope_ptr, which = picked(order.sep_ptr, places)
        by_place = np.full(len(order.variables), -1, np.int64)
        kernels.trace_back(
            places, scope_ptr, order.separators[which], choice_start[places], choice, clusters.dim, by_place
        )  # fmt: skip
        states = np.empty(len(by_place), np.int64)
        states[order.variables] = by_place
        return states


def plan_mixed(
    structure: Structure, variables: IntArray, is_query: BoolArray, most_bits: float, most_entries: float
) -> MixedPlan:
    """Return a plan from an order of elimination in which query variables are moved to later places.

    Args:
        structure: the structure of a graph of tables.
        variables: [v] an order of all variables.
        is_query: [v] whether a variable is maximised over.
        most_bits: log2 of the entries of the largest cluster table that a move may cause.
        most_entries: entries of all cluster tables that moves may cause.
    """
    from equifactor.solvers.elimination import order_kernels as kernels

    ptr, adj = kernels.adjacency(structure.num_vars, structure.scope_ptr, structure.scope_vars)

    def fits(order: list[int]) -> bool:
        trial = np.array(order)
        sep_ptr, separators, _ = kernels.clusters(trial, ptr, adj)
        bits = _sizes(structure.card, trial, sep_ptr, separators)
        return bool(bits.max(initial=0.0) <= most_bits and np.exp2(bits).sum() <= most_entries)

    order = variables.tolist()
    for i in reversed([i for i in order if is_query[i]]) if most_bits > 0.0 else ():
        at = order.index(i)
        rest = order[:at] + order[at + 1 :]
        low, high = at, len(rest)  # the place is at least `low`
        if fits([*rest, i]):
            low = high
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if fits([*rest[:middle], i, *rest[middle:]]) else (low, middle)
        order = [*rest[:low], i, *rest[low:]]
    found = np.array(order, np.int64)
    parent = kernels.clusters(found, ptr, adj)[2]
    found = found[kernels.post_order(parent)]
    sep_ptr, separators, parent = kernels.clusters(found, ptr, adj)
    return MixedPlan(structure, Order(found, sep_ptr, separators, parent, 1), is_query)


def _sizes(card: IntArray, variables: IntArray, sep_ptr: IntArray, separators: IntArray) -> FloatArray:
    """Return [v] log2 of the entries of every cluster of an order."""
    bits = np.log2(card[variables])
    running = np.concatenate(([0.0], np.cumsum(bits[separators])))
    return bits + running[sep_ptr[1:]] - running[sep_ptr[:-1]]
