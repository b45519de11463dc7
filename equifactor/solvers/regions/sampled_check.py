"""Errors of an answer by its distance from that of a short run of a sampler, whose errors are known.

Splittings of one model can agree on a wrong answer, so their spread can be too small. A sampler errs in other ways.
An answer that the sampler contradicts is averaged with the answer of the sampler.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, GIB, Seconds
from equifactor.base.status import Status, Task
from equifactor.solvers.sampling.blocks import BlockSampling
from equifactor.solvers.sampling.gibbs import Gibbs

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
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
# The least squared error over the squared distance to the sampler, and over the squared error of the sampler, which
# hides smaller errors. By `benchmarks.coverage`, tuning seeds.
_HIDDEN = 0.5
# No distance is more than this many standard errors. By `benchmarks.coverage`, tuning seeds: with 2.5, two standard
# errors cover 89 to 97 % of marginals per kind of graph instead of 93 to 98 %; with 1.5, 98 to 100 %.
_FARTHEST = 2.0
# The squared error of ln Z over the sum of the squared errors of all variables. By `benchmarks.coverage`, tuning seeds:
# 1.4 to 2 cover 90 to 100 % of ln Z per kind of graph.
_AT_RANDOM = 1.6
# The least error of ln Z over the number of variables times their error, as if errors of all had the same sign. By
# `benchmarks.coverage`, tuning seeds: 100 spins need it.
_SAME_SIGN = 0.17
# The distance from ln Z of the sampler, in its standard errors, beyond which it is not chance. Halved: the same
# coverage of 30 graphs.
_BEYOND_CHANCE = 3.0
# The squared distance to a sampler over the squared error of the sampler, beyond which the answer is moved. By
# `benchmarks.coverage`, tuning seeds: it covers 91 to 98 % of marginals and 92 to 100 % of ln Z per kind of graph.
_CONTRADICTED = 4.0


class CheckedAnswer(NamedTuple):
    """An answer and its standard errors."""

    marginals: FloatArray  # [X]
    log_z: float
    errors: FloatArray  # [X] of the marginals
    log_z_error: float
    sampler: str  # the name of the sampler
    moved: bool  # whether the marginals are averaged with those of the sampler


def check_by_sampling(
    graph: FactorGraph, p: FloatArray, log_z: float, seconds: float, memory: float, context: SolveContext
) -> CheckedAnswer | None:
    """Return marginals p [X] and ln Z with their errors; None if there is not enough time for a sampler.

    Let A be the squared error of ln Z that those of the marginals suggest, S that of the sampler, and D the squared
    distance of the two values of ln Z. If both errors are normal, the squared error is w^2 D + w S on average, with
    w = A / (A + S): the distance if the sampler is exact, and A if it tells nothing.

    An answer that a sampler with agreeing chains contradicts is moved towards the sampler by the share w of their
    distance. The squared error is then w S.

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
    gap = p - found.marginals.values
    errors = errors_by_distance(gap, own)
    suggested = log_z_error_of(errors, graph.structure.state_ptr)
    agree = found.status is Status.CONVERGED
    D, S = float(np.mean(gap**2)), float(np.mean(own**2))
    moved = agree and D > _CONTRADICTED * S
    if moved:
        weight = 1.0 - S / D
        p, errors = p - weight * gap, math.sqrt(weight) * own
    if found.log_z is None or found.log_z_error is None:
        return CheckedAnswer(p, log_z, errors, suggested, sampler.name, moved)
    A, S, difference = suggested**2, found.log_z_error**2, log_z - found.log_z
    D = difference**2
    if D > _BEYOND_CHANCE**2 * S:
        A = max(A, D - S)
    weight = A / max(A + S, 1e-300)
    if agree and D > _CONTRADICTED * S:
        return CheckedAnswer(p, log_z - weight * difference, errors, math.sqrt(weight * S), sampler.name, moved)
    return CheckedAnswer(p, log_z, errors, math.sqrt(weight**2 * D + weight * S), sampler.name, moved)


def squared_error_of(distance: float, sampled: float) -> float:
    """Return the squared error of an answer, from its squared distance to a sampler with a known squared error.

    Both are means over all entries. The distance is the sum of the squared errors of both, but a part of it is chance.
    """
    return max(distance - sampled, _HIDDEN * max(distance, sampled))


def errors_by_distance(gap: FloatArray, own: FloatArray, square: float | None = None) -> FloatArray:
    """Return [X] standard errors of marginals from their distances [X] to those of a sampler.

    One distance tells little about one entry. So the errors of entries are taken to be in proportion to those of the
    sampler: both are small at states that are nearly certain. An error that is far below its distance is raised.

    Args:
        gap: [X] the distances.
        own: [X] the standard errors of the sampler.
        square: the mean squared error, if more is known than the distances.
    """
    sampled = float(np.mean(own**2))
    square = squared_error_of(float(np.mean(gap**2)), sampled) if square is None else square
    shape = own**2 / sampled if sampled > 0.0 else np.ones(len(own))
    return np.sqrt(np.maximum(square * shape, (gap / _FARTHEST) ** 2))


def log_z_error_of(errors: FloatArray, ptr: IntArray) -> float:
    """Return the error of ln Z that the errors [X] of the marginals of the same method suggest, if it has settled.

    ln Z is a sum of terms of single places, and so is its error. If places err at random, the squared error of ln Z is
    about the sum of the squared errors of all variables, in total variation. In models of many variables that are all
    alike, places err in the same direction.

    Args:
        errors: [X] the errors of the marginals.
        ptr: [V+1] the first state of each variable.
    """
    variables = len(ptr) - 1
    if variables == 0:
        return 0.0
    return variation_of(errors, ptr) * max(math.sqrt(_AT_RANDOM * variables), _SAME_SIGN * variables)


def variation_of(errors: FloatArray, ptr: IntArray) -> float:
    """Return the root mean square over variables of their errors in total variation, from errors [X] of marginals."""
    return float(np.sqrt(np.mean((0.5 * np.add.reduceat(np.abs(errors), ptr[:-1])) ** 2)))


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
