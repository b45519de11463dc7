"""Errors of an answer by its distance from that of a short run of a sampler, whose errors are known.

Splittings of one model can agree on a wrong answer, so their spread can be too small. A sampler errs in other ways.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, GIB, Seconds
from equifactor.base.status import Task
from equifactor.solvers.sampling.blocks import BlockSampling
from equifactor.solvers.sampling.gibbs import Gibbs

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import GraphSolver, SolveContext

# Sweeps of blocks, at least and at most: fewer do not give ln Z with six covers in turn. Halved or doubled: error
# within 15 %.
_SWEEPS = 120, 600
_BLOCK_DRAWS = 16  # Blocks drawn in a sweep: two in each of 8 chains.
# Times that a draw with marginals and a jump goes over the tables of a block. Measured on grids of 9 to 900 spins.
_DRAW_COST = 4
# Table entries of a block for each variable, at least: others are drawn by gibbs. Halved or doubled: error within 20 %.
_ENTRIES_OF_VARIABLE = 8
_MOST_MEMORY = 2.0**-6  # GiB of the tables of a block at most, as by default.
_CHAINS = 16  # Chains of gibbs. Halved or doubled: error within 10 %.
# Draws of each chain: fewer do not check anything, and more are not needed. Halved or doubled: error within 20 %.
_DRAWS = 48, 1000
_BURN_IN = 4  # Sweeps of burn-in are one over this many of the draws. Halved or doubled: error within 20 %.
# The least squared error over that of the sampler, which hides smaller errors. By `benchmarks.coverage`, tuning seeds.
_HIDDEN = 0.5
# No distance is more than this many standard errors. Halved: they cover all marginals of 30 graphs instead of 97.7 %;
# doubled: 97.4 % (`benchmarks.coverage`).
_FARTHEST = 2.5
# The error of ln Z over the sum of the errors of all variables, if the marginals are nearly right. By
# `benchmarks.coverage`, tuning seeds.
LOG_Z_SHARE = 0.5
# The distance from ln Z of the sampler, in standard errors, beyond which it is not chance. Halved: the same coverage of
# 30 graphs.
_BEYOND_CHANCE = 3.0


class CheckedErrors(NamedTuple):
    """The standard errors of an answer."""

    marginals: FloatArray  # [X]
    log_z: float
    sampler: str  # the name of the sampler


def check_by_sampling(
    graph: FactorGraph, p: FloatArray, log_z: float, seconds: float, memory: float, context: SolveContext
) -> CheckedErrors | None:
    """Return the errors of marginals p [X] and of ln Z; None if there is not enough time for a sampler.

    The error of ln Z is its distance from that of the sampler. A distance that the error of the sampler explains tells
    little: then, and without an estimate by the sampler, it is at most half of the sum of the errors of all variables.

    Args:
        graph: the model without observed variables.
        p: [X] the marginals.
        log_z: ln Z.
        seconds: reference seconds that the check may take.
        memory: GiB of tables that it may use.
        context: its clock limits the check.
    """
    sampler = _sampler(graph, seconds, memory)
    if sampler is None or context.clock.stopped or not len(p):
        return None
    found = sampler.run_one(graph, Task.MAR, context)
    if found.marginals is None:
        return None
    own = np.zeros(len(p)) if found.standard_errors is None else found.standard_errors.values
    errors = errors_by_distance(p - found.marginals.values, own)
    of_log_z = LOG_Z_SHARE * graph.num_vars * float(errors.min())
    if found.log_z is not None:
        gap, own_error = abs(found.log_z - log_z), found.log_z_error or 0.0
        measured = math.hypot(gap, own_error)
        of_log_z = measured if gap > _BEYOND_CHANCE * own_error else min(measured, of_log_z)
    return CheckedErrors(errors, of_log_z, sampler.name)


def errors_by_distance(gap: FloatArray, own: FloatArray) -> FloatArray:
    """Return [X] standard errors of marginals from their distances [X] to those of a sampler.

    The mean squared distance is the sum of the squared errors of both. All entries get the same error, since one
    distance tells little about one entry. The error of an entry is raised if it is far below the distance of the entry
    or the error of the sampler.

    Args:
        gap: [X] the distances.
        own: [X] the standard errors of the sampler.
    """
    sampler = float(np.mean(own**2))
    square = max(float(np.mean(gap**2)) - sampler, _HIDDEN * sampler)
    return np.sqrt(np.maximum(square, np.maximum((gap / _FARTHEST) ** 2, _HIDDEN * own**2)))


def _sampler(graph: FactorGraph, seconds: float, memory: float) -> GraphSolver | None:
    """Return blocks, which mix on rugged models, if there is time for them, otherwise gibbs; None for too little time.

    Work is counted and not timed, so that a call without a time limit can be repeated.
    """
    s = graph.structure
    spare = seconds - Seconds.BLOCK_COVER * s.num_vars
    by_variables, by_entry = Seconds.BLOCK_VARIABLE * s.num_vars, _DRAW_COST * Seconds.BLOCK_DRAW
    most = (spare / (_SWEEPS[0] * _BLOCK_DRAWS) - by_variables) / by_entry  # entries of a block in the least sweeps
    if most >= _ENTRIES_OF_VARIABLE * s.num_vars:
        entries = min(most, min(memory, _MOST_MEMORY) * GIB / FLOAT_BYTES)
        sweeps = int(min(_SWEEPS[1], spare / (_BLOCK_DRAWS * (by_variables + by_entry * entries))))
        return BlockSampling(sweeps=sweeps, memory_limit=entries * FLOAT_BYTES / GIB, enumerate=False)
    sweep = Seconds.GIBBS_EDGE * _CHAINS * max(1, s.num_edges)
    singles = int(min(_DRAWS[1], seconds / sweep * _BURN_IN / (_BURN_IN + 1)))
    return Gibbs(chains=_CHAINS, samples=singles, burn_in=singles // _BURN_IN) if singles >= _DRAWS[0] else None
