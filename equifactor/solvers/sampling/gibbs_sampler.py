"""Several Gibbs chains under one clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.numerics.moves import rebuild
from equifactor.solvers.optimise.annealing import LocalSearch
from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat
from equifactor.solvers.sampling.gibbs_kernels import gibbs_sweeps

if TYPE_CHECKING:
    from equifactor.graph.search_model import SearchModel
    from equifactor.solver import SolveContext
    from equifactor.typing import FloatArray, IntArray


_BATCHES = 32  # parts into which the draws of a chain are cut for the diagnostics
_BATCH_MEMORY = 2**24  # numbers kept for them; fewer parts where that is not enough
_REPAIR_PHASES = 400  # of local search, for one chain that starts at probability zero
_BURST_SECONDS = 0.05
_BURN_IN_SHARE = 0.25  # of the time limit, at most


class Draws(NamedTuple):
    """What the chains give."""

    marginals: FloatArray  # [X]
    r_hat: FloatArray  # [X]
    effective: FloatArray  # [X]
    sweeps: int  # recorded ones of each chain, thinned ones included


class Chains:
    """State of C chains on one graph."""

    def __init__(self, model: SearchModel, starts: list[IntArray], seed: int) -> None:
        self.model = model
        num = len(starts)
        self.x = np.array(starts, np.int64).reshape(num, -1)
        self.local = np.zeros((num, len(model.arrays.unary)))
        self.at = np.zeros((num, len(model.arrays.factors) - 1), np.int64)
        self.rng = np.random.default_rng(seed).integers(1, 2**64, (num, 1), np.uint64)
        self.p = np.zeros(len(model.arrays.unary))
        self.cost = 0.0  # measured seconds of a sweep of all chains

    def sweep(self, sweeps: int, thin: int, total: FloatArray, squares: FloatArray) -> None:
        """All chains; sums are renewed first, so that rounding does not add up."""
        start = time.perf_counter()
        for x, local, at in zip(self.x, self.local, self.at, strict=True):
            rebuild(*self.model.arrays, x, local, at)
        gibbs_sweeps(
            *self.model.arrays, self.x, self.local, self.at, self.rng, self.p, sweeps, thin, total, squares
        )  # fmt: skip
        self.cost = (time.perf_counter() - start) / sweeps

    def burst(self, thin: int) -> int:
        """Sweeps that stay below the time a call may take, a multiple of `thin`."""
        return thin * max(1, int(_BURST_SECONDS / max(self.cost * thin, 1e-9))) if self.cost else thin


def find_starts(model: SearchModel, chains: int, context: SolveContext) -> list[IntArray]:
    """A possible assignment for each chain, as different as can be; none when no search found one.

    Random ones where the model has no zeros. Otherwise local search repairs random ones, and a chain whose repair fails
    starts where another one does.
    """
    rng = np.random.default_rng(context.seed)
    found: list[IntArray] = []
    for c in range(chains):
        start = model.random_assignment(rng)
        if not model.flat.has_zeros:
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
    """Burn in, then so many recorded draws of each chain, `thin` sweeps apart; fewer at the deadline.

    Returns estimates from what was drawn: at least one sweep is always made.
    """
    num, width = chains.local.shape
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
    length = max(1, samples // batches)  # recorded draws of a batch
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
