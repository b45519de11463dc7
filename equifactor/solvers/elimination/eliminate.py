"""Two passes over the clusters of a plan: up to the roots, back down to every variable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.clock import Clock
    from equifactor.solvers.elimination.program import Program
    from equifactor.typing import FloatArray, IntArray

    Report = Callable[[int, int], None]

_BUDGET = 2**25  # operations between two looks at the clock: about 30 ms


class Sums(NamedTuple):
    """ln Z and, where they were asked for, the probabilities [x] of all states left."""

    log_z: float
    p: FloatArray | None


class Best(NamedTuple):
    """The best log score and its states [v]."""

    score: float
    states: IntArray


def sum_out(
    program: Program, log_phi: FloatArray, clock: Clock, *, marginals: bool = True, report: Report | None = None
) -> Sums | None:
    """ln Z, and all marginals by a downward pass; None when the clock stopped the work."""
    from equifactor.solvers.elimination import elimination_kernels as kernels
    from equifactor.solvers.elimination.cluster_tables import normalise, scale_groups

    count = len(program.dim)
    start, length = program.starts(reuse=not marginals)
    arena, is_log, low = np.empty(length), np.zeros(len(start), bool), np.zeros(len(start))
    scale, mode = np.zeros(1 + count), np.zeros(count, np.int64)
    work = program.workspace()
    constant = float(log_phi[program.constants].sum())
    _fill(program, log_phi, start, arena)
    tables = program.op_size, program.num_groups, arena, is_log, low, scale
    if constant == -math.inf or not scale_groups(start, *tables):
        return Sums(-math.inf, None)
    shared = (*program.geometry, start, program.op_size, arena)
    n = block = 0
    while n < count:
        if clock.stopped:
            return None
        n, block = kernels.collect(n, block, _BUDGET, *shared, is_log, low, mode, scale, *work)
        if n < 0:
            return Sums(-math.inf, None)
        if report:
            report(n, 2 * count if marginals else count)
    roots = np.flatnonzero(program.parent < 0) + program.num_groups
    at_root = arena[start[roots]]
    log_z = constant + float(scale.sum()) + float(np.where(is_log[roots], at_root, np.log(at_root)).sum())
    if not marginals:
        return Sums(log_z, None)

    p = np.empty(int(program.dim.sum()))
    scratch = np.empty(program.scratch_size), np.empty(len(work[2]), np.int64)
    n, block = count - 1, 0
    while n >= 0:
        if clock.stopped:
            return None
        n, block = kernels.distribute(
            n, block, _BUDGET, *shared, mode, program.state_start, p, *scratch, *work
        )  # fmt: skip
        if report:
            report(2 * count - 1 - n, 2 * count)
    normalise(program.state_start, program.dim, p)
    return Sums(log_z, p)


def maximise(program: Program, log_phi: FloatArray, clock: Clock, *, report: Report | None = None) -> Best | None:
    """The best log score (`-inf` when all are) and an assignment that has it; None when the clock stopped the work."""
    from equifactor.solvers.elimination import elimination_kernels as kernels

    count = len(program.dim)
    start, length = program.starts(reuse=True)
    arena = np.empty(length)
    _fill(program, log_phi, start, arena)
    sizes = program.message_sizes
    choice_start = np.cumsum(sizes) - sizes
    choice = np.empty(int(sizes.sum()), np.uint8 if program.dim.max(initial=1) <= 256 else np.int32)
    roots = np.flatnonzero(program.parent < 0)
    shared = (*program.geometry, start, program.op_size, arena)
    work = program.workspace()
    score = float(log_phi[program.constants].sum())
    n = block = 0
    while n < count:
        if clock.stopped:
            return None
        n, block = kernels.maximise(n, block, _BUDGET, *shared, choice, choice_start, *work)
        if report:
            report(n, count)
    score += float(arena[start[roots + program.num_groups]].sum())
    states = np.empty(count, np.int64)
    states[program.variables] = kernels.trace_back(program.dim, *program.separators, choice, choice_start)
    return Best(score, states)


def _fill(program: Program, log_phi: FloatArray, start: IntArray, arena: FloatArray) -> None:
    from equifactor.solvers.elimination.cluster_tables import fill_groups

    digit = np.empty(int(np.diff(program.separators[0]).max(initial=0)) + 1, np.int64)
    fill_groups(log_phi, program.table_ptr, *program.groups, start, arena, digit)
