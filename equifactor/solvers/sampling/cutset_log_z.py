"""ln Z from chains of blocks: the sum over a block at one state of its cutset, divided by that state's probability.

For any state a of a cutset, Z = W(a) / p(a), where W(a) is the sum over the block given a, known exactly, and p(a) the
probability of a. Another block of the cover holds the variables of a; given its own cutset b, p(a | b) is a ratio of
two exact sums, and p(a) is its mean over the b that the chains visit (the idea of [Chib95]). As p(a | b) lies in
[0, 1], the mean has a finite variance, and batches tell its standard error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure
    from equifactor.solvers.sampling.block_chains import BlockChains, Cover

_LEAST_DRAWS = 12  # With fewer draws of each chain there is no estimate, as its error would be a guess.
_BATCHES = 16  # The draws of each chain are cut into at most this many parts.


class LogZ(NamedTuple):
    """An estimate of ln Z with its standard error."""

    value: float
    error: float


class CutsetLogZ:
    """Collects the probability of one state of the first cutset of a cover, given each visited state of the second.

    Args:
        chains: the chains that are watched.
        cover: two blocks or more, of which the first two are used.
    """

    def __init__(self, chains: BlockChains, cover: Cover) -> None:
        self._chains = chains
        self._first, self._second = cover.blocks[:2]
        self._best = -math.inf
        self._state: IntArray | None = None
        self._clamped: FloatArray | None = None
        self._given: list[FloatArray] = []
        # No table can be clamped for a variable without factors, whose states are equally probable.
        s, cut = chains.structure, self._first.slicing.cut
        bare = cut[np.bincount(s.scope_vars, minlength=s.num_vars)[cut] == 0]
        self._bare = float(np.log(s.card[bare]).sum())

    def choose(self, log_sum: FloatArray) -> None:
        """Remember the most probable state that the chains have had, after a draw of the first block.

        Args:
            log_sum: [L] ln of the sums over the block in the chains at the model itself.
        """
        c = int(log_sum.argmax())
        if log_sum[c] > self._best and self._clamped is None:
            self._best = float(log_sum[c])
            self._state = self._chains.cold[c].copy()

    def record(self, log_sum: FloatArray) -> None:
        """Note the probabilities of the chosen state, after a draw of the second block.

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
        clamped_sums(self._clamped, self._chains.cold, *self._second.records, there)
        self._given.append(np.minimum(there - log_sum - self._bare, 0.0))

    def estimate(self) -> LogZ | None:
        """ln Z = ln W(a) - ln mean of p(a | b); None where draws are too few, or the state was never possible again."""
        if len(self._given) < _LEAST_DRAWS:
            return None
        given = np.stack(self._given)  # [N, L]
        top = given.max()
        if top == -math.inf:
            return None
        p = np.exp(given - top)
        parts = np.array_split(p, min(_BATCHES, len(p)))
        means = np.array([part.mean(axis=0) for part in parts])  # [B, L]
        mean = float(p.mean())
        by_batch = means.var(ddof=1) / means.size
        chain = p.mean(axis=0)
        by_chain = chain.var(ddof=1) / len(chain) if len(chain) > 1 else 0.0
        error = max(math.sqrt(max(by_batch, by_chain)) / mean, _unseen(given) - float(top) - math.log(mean))
        return LogZ(self._best - float(top) - math.log(mean), error)


def _unseen(given: FloatArray) -> float:
    """ln of the mean of p(a | b) if the highest of its logarithms were the tail of a normal distribution.

    So it is where cutsets are large: the mean comes from values too rare to be drawn, and the draws cannot tell.
    """
    possible = given[given > -math.inf]
    one, two = np.quantile(possible, (0.841, 0.977))  # one and two standard deviations above the mean
    mean = float(2.0 * one - two + (two - one) ** 2 / 2)
    return min(mean + math.log(len(possible) / given.size), 0.0)  # No probability is above 1.


def combined(estimates: list[LogZ | None]) -> LogZ | None:
    """One estimate from several of the same chains, weighted by their errors; its error is that of the best of them.

    They share their draws, so that their errors do not average out; where they differ by more, that is the error.
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
    """[T] the tables with zero wherever one of the variables is not in its state: one factor of each says so.

    Args:
        s: the structure.
        log_phi: [T] the tables.
        variables: those to clamp.
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
