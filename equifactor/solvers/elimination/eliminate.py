"""Two passes over the clusters of a plan: up to the roots, back down to every variable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.program import read_only
from equifactor.solvers.elimination.shared_clusters import SharedClusters

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.elimination.program import ClusterTables, Program, Workspace

    Report = Callable[[int, int], None]

_BUDGET = 2**25  # Operations of a pass between two checks of the clock, about 30 ms.


class Sums(NamedTuple):
    """ln Z and, if they were asked for, the probabilities [x] of all states."""

    log_z: float
    p: FloatArray | None


class UpwardMaxima(NamedTuple):
    """The tables after an upward pass of maxima."""

    score: float  # the best log score
    start: IntArray  # [G+v] first entry of each operand in the arena
    arena: FloatArray  # log tables of all operands
    choice_start: IntArray  # [v] first entry of each cluster in `choice`
    choice: NDArray[Any]  # the best state of each cluster's variable, for each state of its separator


class Best(NamedTuple):
    """The best log score and the states [v] that have it."""

    score: float
    states: IntArray


def sum_out(
    program: Program,
    log_phi: FloatArray,
    clock: Clock,
    *,
    marginals: bool = True,
    report: Report | None = None,
    memory: tuple[ClusterTables, Workspace] | None = None,
    threads: int | None = 1,
) -> Sums | None:
    """Return ln Z, and all marginals by a downward pass; None when the clock stopped the work.

    Threads share the largest tables, which does not change the answer; None for all cores that are free.

    A caller that runs a program many times passes the same `memory`: its tables, with room for marginals, and
    workspace.
    """
    from equifactor.solvers.elimination import elimination_kernels as kernels
    from equifactor.solvers.elimination.cluster_tables import normalise

    clusters = program.clusters
    tables, work = memory or (program.tables(reuse=not marginals), program.workspace(marginals))
    count = len(clusters.dim)
    length = 2 * count if marginals else count
    shared = SharedClusters(program, work, threads)
    log_z = _upward(shared, log_phi, clock, tables, work, report and (lambda n: report(n, length)))
    if log_z is None:
        return None
    if not marginals or log_z == -math.inf:
        return Sums(log_z, None)

    p = np.empty(int(clusters.dim.sum()))
    n, block = count - 1, 0
    while n >= 0:
        if clock.stopped:
            return None
        if block == 0 and n in shared.large and shared.distribute(n, tables, p, clock):
            if clock.stopped:
                return None
            n -= 1
            continue
        most = min(_BUDGET, shared.work_above(n, block))
        n, block = kernels.distribute(n, block, most, tuple(clusters), tuple(tables), tuple(work), p)
        if report:
            report(2 * count - 1 - n, 2 * count)
    normalise(clusters.state_start, clusters.dim, p)
    return Sums(log_z, p)


def sum_up(program: Program, log_phi: FloatArray, clock: Clock) -> tuple[float, ClusterTables] | None:
    """Return ln Z and the tables of the upward pass, every message in its place; None when the clock stopped it."""
    tables, work = program.tables(reuse=False), program.workspace(marginals=False)
    log_z = _upward(SharedClusters(program, work, 1), log_phi, clock, tables, work)
    return None if log_z is None else (log_z, tables)


def _upward(
    shared: SharedClusters,
    log_phi: FloatArray,
    clock: Clock,
    tables: ClusterTables,
    work: Workspace,
    report: Callable[[int], None] | None = None,
) -> float | None:
    """Compute ln Z by an upward pass that leaves factors and messages in the tables; None when the clock stopped it."""
    from equifactor.solvers.elimination import elimination_kernels as kernels
    from equifactor.solvers.elimination.cluster_tables import fill_groups, scale_groups

    program = shared.program
    clusters, groups = program.clusters, program.groups
    tables.mode[:] = 0
    constant = float(log_phi[groups.constants].sum())
    fill_groups(read_only(log_phi), tuple(groups), tables.start, tables.arena, work.digit)
    if constant == -math.inf or not scale_groups(program.num_groups, tuple(tables)):
        return -math.inf
    n = block = 0
    for stop in shared.stops:
        records = shared.until(stop, tables)
        if n < stop and n in shared.large:
            n, block = shared.collect(n, tables, clock)
            if n < 0 or clock.stopped:
                return None if clock.stopped else -math.inf
        while n < stop:
            if clock.stopped:
                return None
            n, block = kernels.collect(n, block, _BUDGET, *records, tuple(work))
            if n < 0:
                return -math.inf
            if report:
                report(n)
    roots = np.flatnonzero(clusters.parent < 0) + program.num_groups
    at_root = tables.arena[tables.start[roots]]
    log_z = constant + float(tables.scale.sum())
    return log_z + float(np.where(tables.is_log[roots], at_root, np.log(at_root)).sum())


def maximise(
    program: Program, log_phi: FloatArray, clock: Clock, *, report: Report | None = None, threads: int | None = 1
) -> Best | None:
    """Return the best log score (`-inf` if all are) and an assignment that has it; None when the clock stopped it."""
    from equifactor.solvers.elimination import elimination_kernels as kernels

    found = maximise_up(program, log_phi, clock, report=report, threads=threads)
    if found is None:
        return None
    count = len(program.clusters.dim)
    by_place = np.zeros(count, np.int64)
    kernels.trace_back(
        np.arange(count), program.clusters.sep_ptr, program.separators, found.choice_start, found.choice,
        program.clusters.dim, by_place,
    )  # fmt: skip
    states = np.empty(count, np.int64)
    states[program.variables] = by_place
    return Best(found.score, states)


def maximise_up(
    program: Program,
    log_phi: FloatArray,
    clock: Clock,
    *,
    reuse: bool = True,
    report: Report | None = None,
    threads: int | None = 1,
) -> UpwardMaxima | None:
    """Return the maxima of every cluster by one upward pass; None when the clock stopped it.

    With `reuse`, messages that have been read are overwritten.
    """
    from equifactor.solvers.elimination import elimination_kernels as kernels
    from equifactor.solvers.elimination.cluster_tables import fill_groups

    clusters, groups = program.clusters, program.groups
    start, length = program.starts(reuse)
    arena, work = np.empty(length), program.workspace(marginals=False)
    count = len(clusters.dim)
    sizes = program.message_sizes
    choice_start = ptr_of(sizes)[:-1]
    choice = np.empty(int(sizes.sum()), np.uint8 if clusters.dim.max(initial=1) <= 256 else np.int32)
    fill_groups(read_only(log_phi), tuple(groups), start, arena, work.digit)
    shared, n, block = SharedClusters(program, work, threads), 0, 0
    for stop in shared.stops:
        if n < stop and n in shared.large:
            shared.maximise(n, (start, arena, choice, choice_start), clock)
            if clock.stopped:
                return None
            n = stop
        some, places = tuple(clusters._replace(dim=clusters.dim[:stop])), start[: program.num_groups + stop]
        while n < stop:
            if clock.stopped:
                return None
            n, block = kernels.maximise_clusters(
                n, block, _BUDGET, some, tuple(work), places, arena, choice, choice_start
            )
            if report:
                report(n, count)
    roots = np.flatnonzero(clusters.parent < 0) + program.num_groups
    score = float(log_phi[groups.constants].sum()) + float(arena[start[roots]].sum())
    return UpwardMaxima(score, start, arena, choice_start, choice)
