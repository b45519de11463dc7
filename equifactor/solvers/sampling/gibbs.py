"""Marginals by Gibbs sampling: chains whose blocks are single variables, with factors of any kind as they are."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.factors.move_model import MoveModel, MoveState
from equifactor.graph import compile
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.sampling.chain_driver import RunLimits, no_start, repair, run_chains, sampled_estimate
from equifactor.solvers.sampling.running_batches import RunningBatches
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph

_FIRST_BATCHES = 64, 32  # Draws begin in batches of one in so many of all, at most so many draws.
_REPAIR_PHASES = 400  # Local search has this many phases to repair a start of probability zero.
_BURST_SECONDS = 0.05  # A call of the kernel aims to stay below this time.
_BURN_IN_SHARE = 0.25  # Burn-in takes at most this share of the time limit.


@register("gibbs")
@dataclass(frozen=True, kw_only=True)
class Gibbs(GraphSolver):
    """Several Gibbs chains: `blocks` of one variable each, on factors of any kind; averages of exact conditionals."""

    tasks = (Task.MAR,)
    symmetries = frozenset()  # Its draws are random.
    any_kind = True

    chains: int = option(4, "independent chains", low=1)
    burn_in: int = option(500, "sweeps dropped at the start; at most a quarter of the time limit", low=0)
    samples: int = option(4000, "draws of each chain that count", low=1)
    thin: int = option(1, "sweeps from one draw to the next", low=1)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Starts of positive probability, burn-in, draws, diagnostics."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        model = MoveModel(compile(reduced.graph))
        starts = find_starts(model, self.chains, context)
        if starts is None:
            return no_start(reduced, context.clock)
        moves = SingleMoves(model, starts, self.thin, context.seed)
        moves.burn_in(self.burn_in, context)
        batches, most = _FIRST_BATCHES
        length = max(1, min(self.samples // batches, most))
        sums = RunningBatches(self.chains, len(model.arrays.unary), length=length, dropped=0)
        run_chains(moves, sums, RunLimits(sweeps=self.samples), context)
        found = sums.findings()
        estimate = sampled_estimate(reduced, found, sums.sweeps * self.thin, context)
        stuck = _num_stuck(model, found.mean)
        if not stuck:
            return estimate
        return replace(
            estimate,
            status=context.clock.status or Status.ITERATION_LIMIT,
            message=f"{estimate.message} {stuck:,} of {len(model.card):,} variables never moved: zeros hold them, and "
            "single moves may be unable to reach other possible assignments. Use exact or bp.",
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


def find_starts(model: MoveModel, chains: int, context: SolveContext) -> IntArray | None:
    """[C, V] a possible assignment for each chain, as different as can be; None when no search found one.

    The starts are random where the model has no zeros. Otherwise local search repairs random ones, and a chain whose
    repair fails starts where another one does.
    """
    rng = np.random.default_rng(context.seed)
    starts = np.stack([model.random_assignment(rng) for _ in range(chains)])
    if not model.has_zeros:
        return starts
    everyone = np.ones(chains, bool)
    possible = repair(model, starts, everyone, _REPAIR_PHASES, context.seed, lambda _: context.clock.stopped)
    found = np.flatnonzero(possible)
    return starts[found[np.arange(chains) % len(found)]] if len(found) else None


class SingleMoves:
    """C chains on one graph that draw one variable after the other; see `ChainMoves`.

    Args:
        model: the compiled graph.
        starts: [C, V] assignments of positive probability.
        thin: sweeps from one draw that counts to the next.
        seed: the seed of the draws.
    """

    def __init__(self, model: MoveModel, starts: IntArray, thin: int, seed: int) -> None:
        self.model, self.thin = model, thin
        self.state = MoveState.zeros(model.arrays, len(starts))
        self.state.x[:] = starts
        self.rng = np.random.default_rng(seed).integers(1, 2**64, (len(starts), 1), np.uint64)
        self.p = np.zeros(len(model.arrays.unary))
        self._cost = 0.0  # This is the measured time of a sweep of all chains, in seconds.

    def sweep_into(self, sums: RunningBatches, most: int, clock: Clock | None) -> int:
        """Make as many sweeps as a short time allows."""
        count = min(most, self._burst(self.thin))
        self._sweep(count * self.thin, self.thin, sums.total, sums.squares)
        return count

    def burn_in(self, sweeps: int, context: SolveContext) -> None:
        """Sweeps that do not count."""
        none, clock = np.zeros((len(self.rng), 0)), context.clock
        until = np.inf if clock.time_limit is None else clock.seconds + _BURN_IN_SHARE * clock.left
        done = 0
        while done < sweeps and not clock.stopped and clock.seconds < until:
            count = min(self._burst(1), sweeps - done)
            self._sweep(count, 0, none, none)
            done += count
            context.report(done, sweeps, "burn-in")

    def _sweep(self, sweeps: int, thin: int, total: FloatArray, squares: FloatArray) -> None:
        """Sweep all chains; see `gibbs_sweeps`. Sums are renewed first, so that rounding does not add up."""
        from equifactor.factors.moves import rebuild
        from equifactor.kernels.jit import plain
        from equifactor.solvers.sampling.gibbs_kernels import gibbs_sweeps

        start = time.perf_counter()
        for c in range(len(self.rng)):
            rebuild(plain(self.model.arrays), plain(self.state.of(c)))
        gibbs_sweeps(plain(self.model.arrays), plain(self.state), self.rng, self.p, sweeps, thin, total, squares)
        self._cost = (time.perf_counter() - start) / sweeps

    def _burst(self, thin: int) -> int:
        """The number of draws, `thin` sweeps apart, that stays below the time a call may take."""
        return max(1, int(_BURST_SECONDS / max(self._cost * thin, 1e-9))) if self._cost else 1
