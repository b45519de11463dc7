"""Marginals by Gibbs sampling: several chains under one clock, checked against each other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph import compile
from equifactor.graph.move_model import MoveModel, MoveState
from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Status, Task, impossible
from equifactor.solver import GraphSolver, SolveContext
from equifactor.solvers.elimination.impossibility import proven_impossible
from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.typing import FloatArray, IntArray

R_HAT_LIMIT = 1.05  # Chains that differ by more have not mixed.
_BATCHES = 32  # The draws of a chain are cut into this many parts for the diagnostics.
_BATCH_MEMORY = 2**24  # The parts keep at most this many numbers; there are fewer parts where that is not enough.
_REPAIR_PHASES = 400  # Local search has this many phases to repair a start of probability zero.
_BURST_SECONDS = 0.05  # A call of the kernel aims to stay below this time.
_BURN_IN_SHARE = 0.25  # Burn-in takes at most this share of the time limit.


@register("gibbs")
@dataclass(frozen=True, kw_only=True)
class Gibbs(GraphSolver):
    """Several Gibbs chains; marginals are averages of conditional distributions, checked by R-hat."""

    tasks = (Task.MAR,)
    symmetries = frozenset()  # Its draws are random.
    any_kind = True

    chains: int = option(4, "independent chains", low=1)
    burn_in: int = option(500, "sweeps dropped at the start; at most a quarter of the time limit", low=0)
    samples: int = option(4000, "draws of each chain that count", low=1)
    thin: int = option(1, "sweeps from one draw to the next", low=1)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Starts of positive probability, burn-in, draws, diagnostics."""
        flat = compile(graph)
        model = MoveModel(flat)
        starts = find_starts(model, self.chains, context)
        if not starts:
            if proven_impossible(graph, context.clock):
                return impossible()
            return Estimate(
                status=context.clock.status or Status.ITERATION_LIMIT,
                message="No assignment of positive probability was found to start from: use exact or bp.",
            )
        draws = draw(Chains(model, starts, context.seed), self.burn_in, self.samples, self.thin, context)
        r_hat, effective = float(draws.r_hat.max(initial=1.0)), float(draws.effective.min(initial=np.inf))
        mixed = r_hat < R_HAT_LIMIT
        finished = draws.sweeps >= (self.samples // 2) * self.thin
        stuck = _num_stuck(model, draws.marginals)
        solved = mixed and finished and not stuck
        said = f"largest R-hat {r_hat:.3f}, smallest effective sample size {effective:.0f}"
        message = f"The chains agree: {said}." if mixed else f"The chains have not mixed: {said}; raise samples."
        if stuck:
            message += (
                f" {stuck:,} of {flat.num_vars:,} variables never moved: zeros hold them, and single moves may be "
                "unable to reach other possible assignments. Use exact or bp."
            )
        return Estimate(
            status=Status.CONVERGED if solved else context.clock.status or Status.ITERATION_LIMIT,
            message=message,
            marginals=flat.marginals(draws.marginals)[0],
            iterations=draws.sweeps,
            stats={"max_r_hat": r_hat, "min_effective_samples": effective},
        )


def _num_stuck(model: MoveModel, marginals: FloatArray) -> int:
    """How many variables around checks, counts and the like never had a choice in any chain.

    Such a variable may have one possible state only, or be held by factors whose variables would have to move
    together; the chains cannot tell. Tables are left to R-hat alone.
    """
    if not model.num_structured or not model.has_zeros:
        return 0
    around = np.zeros(len(model.card), bool)
    for group in model.flat.structured:
        around[model.flat.var_of_edge[group.edges]] = True
    certain = np.maximum.reduceat(marginals, model.flat.var_ptr[:-1]) >= 1.0 - 1e-12
    return int(np.sum(certain & around & (model.card > 1)))


class Draws(NamedTuple):
    """What the chains give."""

    marginals: FloatArray  # [X] Estimates from all chains together.
    r_hat: FloatArray  # [X] How far the chains disagree; see `split_r_hat`.
    effective: FloatArray  # [X] How many independent draws they are worth; see `effective_samples`.
    sweeps: int  # The number of sweeps of each chain after burn-in, those between two draws included.


class Chains:
    """The state of C chains on one graph.

    Args:
        model: the compiled graph.
        starts: C assignments [V] of positive probability.
        seed: the seed of the draws.
    """

    def __init__(self, model: MoveModel, starts: list[IntArray], seed: int) -> None:
        self.model = model
        num = len(starts)
        self.state = MoveState.zeros(model.arrays, num)
        self.state.x[:] = starts
        self.rng = np.random.default_rng(seed).integers(1, 2**64, (num, 1), np.uint64)
        self.p = np.zeros(len(model.arrays.unary))
        self.cost = 0.0  # This is the measured time of a sweep of all chains, in seconds.

    def sweep(self, sweeps: int, thin: int, total: FloatArray, squares: FloatArray) -> None:
        """Sweep all chains; see `gibbs_sweeps`. Sums are renewed first, so that rounding does not add up."""
        from equifactor.numerics.jit import plain
        from equifactor.numerics.moves import rebuild
        from equifactor.solvers.sampling.gibbs_kernels import gibbs_sweeps

        start = time.perf_counter()
        for c in range(len(self.rng)):
            rebuild(plain(self.model.arrays), plain(self.state.of(c)))
        gibbs_sweeps(plain(self.model.arrays), plain(self.state), self.rng, self.p, sweeps, thin, total, squares)
        self.cost = (time.perf_counter() - start) / sweeps

    def burst(self, thin: int) -> int:
        """The number of sweeps, a multiple of `thin`, that stays below the time a call may take."""
        return thin * max(1, int(_BURST_SECONDS / max(self.cost * thin, 1e-9))) if self.cost else thin


def find_starts(model: MoveModel, chains: int, context: SolveContext) -> list[IntArray]:
    """A possible assignment for each chain, as different as can be; none when no search found one.

    The starts are random where the model has no zeros. Otherwise local search repairs random ones, and a chain whose
    repair fails starts where another one does.
    """
    from equifactor.solvers.optimise.local_search import LocalSearch

    rng = np.random.default_rng(context.seed)
    found: list[IntArray] = []
    for c in range(chains):
        start = model.random_assignment(rng)
        if not model.has_zeros:
            found.append(start)
            continue
        search = LocalSearch(model, start, seed=context.seed + c)
        for _ in range(_REPAIR_PHASES):
            if search.possible or context.clock.stopped:
                break
            search.step()
        if search.possible:
            found.append(search.best)
    return [found[c % len(found)] for c in range(chains)] if found else []


def draw(chains: Chains, burn_in: int, samples: int, thin: int, context: SolveContext) -> Draws:
    """Burn in, then record `samples` draws of each chain, `thin` sweeps apart, and fewer at the deadline.

    Returns estimates from what was drawn; at least one sweep is always made.
    """
    num, width = chains.state.local.shape
    none = np.zeros((num, 0))
    limit = context.clock.time_limit
    until = np.inf if limit is None else context.clock.seconds + _BURN_IN_SHARE * context.clock.left
    done = 0
    while done < burn_in and not context.clock.stopped and context.clock.seconds < until:
        sweeps = min(chains.burst(1), burn_in - done)
        chains.sweep(sweeps, 0, none, none)
        done += sweeps
        context.report(done, burn_in + samples * thin, "burn-in")

    batches = max(2, min(_BATCHES, samples, _BATCH_MEMORY // max(1, num * width)))
    length = max(1, samples // batches)  # This is the number of recorded draws in a batch.
    batches = max(1, samples // length)
    total, squares = np.zeros((batches, num, width)), np.zeros((batches, num, width))
    taken = 0
    for b in range(batches):
        in_batch = 0
        while in_batch < length and (not context.clock.stopped or taken == 0):
            count = 1 if context.clock.stopped else min(chains.burst(thin) // thin, length - in_batch)
            chains.sweep(count * thin, thin, total[b], squares[b])
            in_batch += count
            taken += count
            context.report(burn_in + taken * thin, burn_in + samples * thin)
        if context.clock.stopped:
            break
    whole = taken // length
    marginals = total.sum(axis=(0, 1)) / (num * taken)
    r_hat = split_r_hat(total[:whole], squares[:whole], length)
    return Draws(marginals, r_hat, effective_samples(total[:whole], length), taken * thin)
