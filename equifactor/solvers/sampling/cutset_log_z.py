"""ln Z from chains of blocks: the sum over a block at one state of its cutset, divided by the probability of the state.

For any state a of a cutset, Z = W(a) / p(a). W(a) is the sum over the block given a, known exactly, and p(a) is the
probability of a. Another block of the cover holds the variables of a. Given its own cutset b, p(a | b) is a ratio of
two exact sums. Its mean over the b that the chains visit is p(a) (the idea of [Chib95]). As p(a | b) lies in [0, 1],
the mean has a finite variance, and its standard error follows from batches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.solvers.elimination.program import read_only
from equifactor.solvers.sampling.diagnostics import split_r_hat
from equifactor.solvers.sampling.running_batches import (
    UNSEEN,
    not_mixed,
    variance_of_mean,
    widened,
    with_chains,
)

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure
    from equifactor.solvers.sampling.block_chains import BlockChains, Cover
    from equifactor.solvers.sampling.running_batches import BatchStatistics

# Draws of each chain below which there is no estimate, since its error would be a guess. Halved, more short runs of
# `blocks` have an answer, with fewer draws than its error needs.
_LEAST_DRAWS = 12
# Batches into which the draws of each chain are divided, at least if there are enough. Halved or doubled: error within
# 75 %.
_BATCHES = 16


class LogZ(NamedTuple):
    """An estimate of ln Z with its standard error."""

    value: float
    error: float


class CutsetLogZ:
    """The probability of one state of the first cutset of a cover, given each visited state of the second cutset.

    Args:
        chains: the chains that are observed.
        cover: a cover of two or more blocks, of which the first two are used.
    """

    def __init__(self, chains: BlockChains, cover: Cover) -> None:
        self._chains = chains
        self._first, self._second = cover.blocks[:2]
        self.best = -math.inf  # ln of the sum over the first block at the chosen state
        self._state: IntArray | None = None
        self._clamped: FloatArray | None = None
        self._given: list[FloatArray] = []
        # A variable without factors has no table to clamp, and its states are equally probable.
        s, cut = chains.structure, self._first.slicing.cut
        bare = cut[np.bincount(s.scope_vars, minlength=s.num_vars)[cut] == 0]
        self._bare = float(np.log(s.card[bare]).sum())

    def choose(self, log_sum: FloatArray) -> None:
        """Keep the most probable state of the chains so far, after a draw of the first block.

        Args:
            log_sum: [L] ln of the sums over the block in the chains at the model itself.
        """
        c = int(log_sum.argmax())
        if log_sum[c] > self.best and self._clamped is None:
            self.best = float(log_sum[c])
            self._state = self._chains.cold[c].copy()

    def record(self, log_sum: FloatArray) -> None:
        """Add the probabilities of the chosen state, after a draw of the second block.

        Args:
            log_sum: [L] ln of the sums over the block in the chains at the model itself.
        """
        from equifactor.solvers.sampling.block_kernels import clamped_sums

        if self._state is None:
            return
        if self._clamped is None:
            cut = self._first.slicing.cut
            self._clamped = clamp(self._chains.structure, self._chains.log_phi[0], cut, self._state)
        there = np.empty(len(log_sum))
        clamped_sums(read_only(self._clamped), self._chains.cold, *self._second.records, there)
        self._given.append(np.minimum(there - log_sum - self._bare, 0.0))

    def estimate(self, found: BatchStatistics) -> LogZ | None:
        """Return ln Z = ln W(a) - ln mean of p(a | b); None after too few draws, or if a was always impossible.

        Args:
            found: what the chains tell about all marginals. A single number p(a) would hardly show that chains are slow
                or have not mixed.
        """
        if len(self._given) < _LEAST_DRAWS:
            return None
        given = np.stack(self._given)  # [N, L]
        top = given.max()
        if top == -math.inf:
            return None
        p = np.exp(given - top)
        length = max(1, len(p) // _BATCHES)
        batches = len(p) // length
        kept = p[len(p) - batches * length :].reshape(batches, length, p.shape[1], 1)
        total, squares, mean = kept.sum(axis=1), (kept**2).sum(axis=1), float(p.mean())
        r_hat = split_r_hat(total, squares, length)
        means = total / length
        apart = np.maximum(not_mixed(r_hat), found.apart)
        square = variance_of_mean(means.reshape(-1, 1))
        if p.shape[1] > 1:
            square = with_chains(square, means, found.slow)
        variance = float(widened(square, means.mean(axis=0), apart)[0])
        rare = UNSEEN * max(found.rare, 1.0 / (self._chains.fresh * p.size))  # What no chain has met, as for marginals.
        log_p = float(top) + math.log(mean)
        # The probability of a state is at most 1, so that no more than -ln p is missing.
        error = math.hypot(math.sqrt(variance) / mean, rare, min(_missing(given), -log_p))
        return LogZ(self.best - log_p, error)


def _missing(given: FloatArray) -> float:
    """Return by how much ln of the mean of p(a | b) is too low because its largest values are too rare to be drawn.

    Args:
        given: [N, L] ln p(a | b). For large cutsets their distribution is nearly normal. Then values above the quantile
            z of 1 - 1 / n, which n draws do not meet, hold the share Phi(s - z) of the mean, s being the standard
            deviation. It is measured between one and two standard deviations above the mean.
    """
    from statistics import NormalDist

    possible = given[given > -math.inf]
    one, two = np.quantile(possible, (0.841, 0.977))
    x = NormalDist().inv_cdf(1.0 - 1.0 / max(2, len(possible))) - float(two - one)
    # -ln Phi(x), by its asymptotic form where Phi(x) underflows.
    return -math.log(0.5 * math.erfc(-x / math.sqrt(2.0))) if x > -30.0 else x * x / 2.0 + math.log(-2.5066 * x)


def combined(estimates: list[LogZ | None]) -> LogZ | None:
    """Return one estimate from several of the same chains, weighted by their errors; None for an empty list.

    The estimates share their draws, so their errors do not average out. The error is that of the best estimate, or the
    spread of the estimates if that is larger.
    """
    found = [e for e in estimates if e is not None]
    if not found:
        return None
    value, error = np.array(found).T
    weight = 1.0 / np.maximum(error, 1e-9) ** 2
    weight /= weight.sum()
    mean = float(weight @ value)
    spread = math.sqrt(float(weight @ (value - mean) ** 2))
    return LogZ(mean, max(float(error.min()), spread))


def clamp(s: Structure, log_phi: FloatArray, variables: IntArray, states: IntArray) -> FloatArray:
    """Return [T] the tables with zeros for all other states of some variables, in one factor of each variable.

    Args:
        s: the structure.
        log_phi: [T] the tables.
        variables: the variables to clamp.
        states: [V] the state of every variable.
    """
    from equifactor.solvers.sampling.block_kernels import exclude_states

    size = np.diff(s.table_ptr)[s.factor_of_edge]
    order = np.lexsort((size, s.scope_vars))  # The smallest factor of each variable comes first.
    _, first = np.unique(s.scope_vars[order], return_index=True)
    edge = np.full(s.num_vars, -1)
    edge[s.scope_vars[order[first]]] = order[first]
    clamped = log_phi.copy()
    strides = _strides(s)
    for i in variables[edge[variables] >= 0].tolist():
        e = int(edge[i])
        a = int(s.factor_of_edge[e])
        exclude_states(clamped[s.table_ptr[a] : s.table_ptr[a + 1]], int(strides[e]), int(s.card[i]), int(states[i]))
    return clamped


def _strides(s: Structure) -> IntArray:
    from equifactor.solvers.elimination.program_kernels import table_strides

    strides: IntArray = table_strides(s.scope_ptr, s.scope_vars, s.card)
    return strides
