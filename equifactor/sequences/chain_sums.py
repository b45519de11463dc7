"""Sums over sequences of a factorial model, by the compiled passes of chain_kernels.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.sequences.slice_sums import Observed, SliceSums, Weights

if TYPE_CHECKING:
    from typing import Any

    from equifactor.base.typing import FloatArray
    from equifactor.sequences.chain_steps import ChainSteps


def slice_sums(observed: Observed) -> SliceSums:
    """Return the passes over observations that suit their model."""
    return SliceSums(observed) if observed.chains is None else _FactorialSums(observed, observed.chains)


class _FactorialSums(SliceSums):
    def __init__(self, observed: Observed, chains: ChainSteps) -> None:
        super().__init__(observed)
        self._chains = chains
        self._crossed = observed.has_hidden((chains.high, chains.low))

    def long_blocks(self) -> list[tuple[int, int]]:
        """Return the blocks of a forward pass alone, which keeps the sums over either group."""
        H, K, L = self._chains.sizes
        return self._blocks if self._crossed else self.observed.blocks(H + K * L)

    def forward(self, t0: int, t1: int, alpha: FloatArray | None, keep: bool = True) -> FloatArray:
        """Return alpha of a block, or of its last slice; see `SliceSums`."""
        if alpha is None:
            found = super().forward(t0, t1, alpha)
            split = found.reshape(self.N, t1 - t0, self._chains.sizes[0], -1)
            self.joints = [(self._chains.high, split.sum(axis=3)), (self._chains.low, split.sum(axis=2)), *self.joints]
            return found
        keep = keep or self._crossed
        found = self._array("alpha", t1 - t0) if keep else self._array("last", 1)
        weights = self.observed.weights(t0, t1)
        totals = self._pass(alpha, False, weights, t1 - t0, None, found, None)
        self._add(totals, weights)
        totals = np.where(totals > 0.0, totals, 1.0)
        if keep:
            found *= 1.0 / totals[:, :, None]
            self.joints.append((self.model.state, found))
        else:
            found *= 1.0 / totals[:, -1:, None]
        return found

    def _backward(
        self, t0: int, t1: int, block: FloatArray, beta: FloatArray, p: FloatArray, inner: FloatArray
    ) -> FloatArray:
        """Fill p(state | all) and e beta of a block; return e beta of its first slice."""
        totals = self._pass(beta, t1 == self.T, self.observed.weights(t0, t1), t1 - t0, block, inner, p)
        p *= 1.0 / np.where(totals > 0.0, totals, 1.0)[:, :, None]
        return inner[:, 0].copy()

    def _pass(
        self,
        state: FloatArray,
        starts: bool,
        weights: list[Weights],
        slices: int,
        alpha: FloatArray | None,
        result: FloatArray,
        p: FloatArray | None,
    ) -> FloatArray:
        """Run the kernel for each sequence, forward without alpha; set `joints`, and return the totals [N, B]."""
        from equifactor.sequences.chain_kernels import pass_chains

        chains, none = self._chains, np.empty((0, self.S))
        H, K, L = map(int, chains.sizes)
        high, low = np.empty((self.N, slices, H)), np.empty((self.N, slices, K * L))
        totals = np.empty((self.N, slices))
        moves = chains.forward if alpha is None else chains.backward
        tables = self._tables(weights)
        for n in range(self.N):
            seen = (tables[0], tables[1][:, n], *tables[2:])
            given = none if alpha is None or p is None else alpha[n], result[n], none if p is None else p[n]
            pass_chains(state[n], *moves, (H, K, L), seen, starts, *given, high[n], low[n], totals[n])
        scale = 1.0 / np.where(totals > 0.0, totals, 1.0)[:, :, None]
        self.joints = [(chains.high, high * scale), (chains.low, low * scale)]
        return totals

    def _tables(self, weights: list[Weights]) -> tuple[Any, ...]:
        """Return the weights of a block as `pass_chains` takes them, with the places [G, N, B]."""
        state, high = self.model.shape, len(self._chains.high)
        H, KL = int(self._chains.sizes[0]), int(self._chains.sizes[1] * self._chains.sizes[2])
        weights = sorted(weights, key=lambda w: math.prod(w.rows.shape[1 + high :]) > 1)
        only_high = sum(math.prod(w.rows.shape[1 + high :]) == 1 for w in weights)
        places, offsets = np.zeros((len(weights), self.N, weights[0].index.shape[1] if weights else 0), np.int64), []
        begin = 0
        for w, place in zip(weights, places, strict=True):
            size = w.rows[0].size
            place[:] = begin + w.index * size
            begin += w.rows.size
            number = np.arange(size).reshape(*w.rows.shape[1 : 1 + high], -1)
            front, behind = number[..., 0], number[(0,) * high].reshape(w.rows.shape[1 + high :])
            offsets.append([np.broadcast_to(x, s).ravel() for x, s in ((front, state[:high]), (behind, state[high:]))])
        fronts = np.array([front for front, _ in offsets], np.int64).reshape(-1, H)
        behinds = np.array([behind for _, behind in offsets], np.int64).reshape(-1, KL)
        values = np.concatenate([np.empty(0), *(w.rows.ravel() for w in weights)])
        _, first, index = np.unique(fronts[only_high:], axis=1, return_index=True, return_inverse=True)
        same = first[index.ravel()] if only_high < len(weights) else np.zeros(H, np.int64)
        return values, places, fronts, behinds, only_high, same
