"""Sums over all paths of a dynamic network: forward, backward, and both together, in blocks of slices.

Symbols:
alpha_t(s) = p(state s at t | observations up to t)
beta_t(s) = p(observations after t | state s at t), up to a factor
e_t(s) = what slice t says about its state, up to a factor

The forward pass keeps alpha at the first slice of every block. The backward pass computes the others of a block again.
So memory grows with the square root of the number of slices, and time by a third.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.sequences.chain_steps import chain_steps
from equifactor.sequences.observed_rows import distinct_rows
from equifactor.sequences.slice_model import padded

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.sequences.slice_model import Patterns, SliceModel

    Joints = list[tuple[tuple[int, ...], FloatArray]]  # variables, and their distribution [N, B, states]

# Seconds: of NumPy for a slice, and for a product in it, and of loading a compiled loop. Measured on one core.
_CALLS, _PRODUCT, _LOADING = 8e-6, 2e-10, 0.25
_BLOCK_ENTRIES = 2**22  # Most entries of the arrays of a block: 32 MiB each.
_LEAST_ENTRIES = 2**18
_CHAIN_ENTRY = 5e-9  # Seconds of NumPy for a joint state of a factorial slice. Loading takes _LOADING.
_JOINT_ENTRIES = 2**9  # What a slice says about its state is a product of tables of at most this size.


@dataclass(frozen=True, eq=False)
class Weights:
    """Factors of e_t for the slices of a block: a row for each pattern of observations."""

    rows: FloatArray  # [U, *cards of the state, 1 where a row does not depend on the variable] or [U, S], or logs
    index: IntArray  # [N, B] the row of each slice
    tops: FloatArray  # [U] the logarithms of what rows were divided by, so that their largest entry is 1


class Observed:
    """The observations of N sequences of T slices, and what each part says about the state of each slice."""

    def __init__(self, model: SliceModel, codes: IntArray, best: bool = False, rounds: int = 1) -> None:
        self.model, self.codes, self.best = model, codes, best  # [N, T, V]; see `Sequences`
        self.rounds = rounds  # of passes that are expected over observations of this shape
        compiles = rounds * codes[:, :, 0].size * model.num_states * _CHAIN_ENTRY > _LOADING
        self.chains = None if best or model.is_dense or not compiles else chain_steps(model)
        self._patterns = [
            [model.patterns(part, own, later, best) for part in model.parts]
            for later, own in ((False, codes[:, :1]), (True, codes))
        ]
        self._groups = [self._grouped(own) for own in self._patterns]

    def blocks(self, entries: float | None = None) -> list[tuple[int, int]]:
        """Return the slices from and to which each block goes. The first slice, which has tables of its own, is one.

        A slice keeps an entry for each of its states, or a given number of entries.
        """
        N, T = self.codes.shape[:2]
        S = N * max(1.0, entries or self.model.num_states)
        size = max(1, min(int(_BLOCK_ENTRIES / S), max(math.isqrt(T), int(_LEAST_ENTRIES / S))))
        return [(0, 1), *((t, min(t + size, T)) for t in range(1, T, size))]

    def has_hidden(self, scopes: Sequence[tuple[int, ...]]) -> bool:
        """Return whether a part with missing values depends on more of the state than one of the scopes."""
        card = self.model.card
        return any(
            ((own.codes < 0) | (own.codes >= [card[v] for v in own.part.variables])).any()
            for patterns in self._patterns
            for own in patterns
            if own.part.variables and not any({*own.part.scope} <= {*scope} for scope in scopes)
        )

    def patterns(self, t0: int) -> list[Patterns]:
        """Return what the parts say in the block that starts with slice t0."""
        return self._patterns[t0 > 0]

    def _grouped(self, patterns: list[Patterns]) -> list[list[Patterns]]:
        """Return the patterns that say something about the state, in groups over few variables."""
        model, telling = self.model, [own for own in patterns if own.log_rows.any()]
        telling.sort(key=self._place)
        most = math.inf if model.is_dense else _JOINT_ENTRIES
        groups: list[list[Patterns]] = [[]]
        for own in telling:
            last = groups[-1]
            joint = {v for p in (*last, own) for v in p.part.scope}
            if last and (self._place(last[-1]) != self._place(own) or math.prod(model.card[v] for v in joint) > most):
                groups.append([])
            groups[-1].append(own)
        return [group for group in groups if group]

    def _place(self, own: Patterns) -> int:
        """Return which variables of a factorial state a part is about: 0 those in front, 2 those behind, 1 both."""
        if self.chains is None:
            return 0
        places = {2 * (v in self.chains.low) for v in own.part.scope}
        return places.pop() if len(places) == 1 else 1

    def weights(self, t0: int, t1: int) -> list[Weights]:
        """Return e_t of the slices of a block as factors, or their logs; a dense model has one, with rows [U, S]."""
        model, N = self.model, len(self.codes)
        found = []
        for group in self._groups[t0 > 0]:
            codes = np.stack([p.index[:, t0:t1].ravel() for p in group], axis=1)
            chosen, index = distinct_rows(codes)
            logs = np.zeros((len(chosen), *(model.shape if model.is_dense else (1,) * len(model.shape))))
            for p, k in zip(group, chosen.T, strict=True):
                shape = [model.card[v] if v in p.part.scope else 1 for v in model.state]
                logs = logs + p.log_rows[k].reshape(-1, *shape)
            if model.is_dense:
                logs = logs.reshape(len(chosen), -1)
            tops = np.zeros(len(chosen))
            if not self.best:
                tops = logs.reshape(len(chosen), -1).max(axis=1)
                tops[tops == -np.inf] = 0.0
                logs = np.exp(logs - tops.reshape(-1, *(1,) * (logs.ndim - 1)))
            found.append(Weights(logs, index.reshape(N, -1), tops))
        if model.is_dense and not found:
            rows = np.full((1, math.prod(model.shape)), 0.0 if self.best else 1.0)
            found = [Weights(rows, np.zeros((N, t1 - t0), np.int64), np.zeros(1))]
        return found


def use_kernels(N: int, T: int, S: int) -> bool:
    """Return whether compiled passes pay: NumPy would take longer than loading them, for T slices in all rounds."""
    return T * (_CALLS + N * S * S * _PRODUCT) > _LOADING


class SliceSums:
    """Forward and backward passes over the observations of sequences. Blocks share arrays: use one before the next."""

    def __init__(self, observed: Observed) -> None:
        self.observed, self.model = observed, observed.model
        self.N, self.T = observed.codes.shape[:2]
        self.S = int(self.model.num_states)
        self.log_z = np.zeros(self.N)  # after a forward pass: ln p(observations), -inf where they are impossible
        self._matrix = self.model.matrix() if self.model.is_dense else None
        self._compiled = self._matrix is not None and use_kernels(self.N, self.T * observed.rounds, self.S)
        self._prior = self.model.prior().reshape(1, -1)
        self._blocks = observed.blocks()
        self._arrays: dict[str, FloatArray] = {}
        self.joints: Joints = []  # the distributions of the block that was computed last: all of the state, or groups

    def _array(self, name: str, slices: int) -> FloatArray:
        """Return an array [N, slices, S] that is used again for every block: new memory costs as much as a product."""
        if name not in self._arrays:
            self._arrays[name] = np.empty((self.N, max(t1 - t0 for t0, t1 in self._blocks), self.S))
        return self._arrays[name][:, :slices]

    def forward(self, t0: int, t1: int, alpha: FloatArray | None, keep: bool = True) -> FloatArray:
        """Return alpha [N, t1 - t0, S] of a block and add to `log_z`, given alpha [N, S] of the slice before.

        Without `keep`, alpha of the last slice may be enough, if `joints` hold all that answers need.
        """
        found = self._array("alpha", t1 - t0)
        totals = np.empty((self.N, t1 - t0))
        weights = self.observed.weights(t0, t1)
        if self._compiled and self._matrix is not None and alpha is not None:
            from equifactor.sequences.state_kernels import filter_states

            (own,), matrix = weights, padded(self._matrix, 0.0)
            for n in range(self.N):
                filter_states(alpha[n], matrix, own.rows, own.index[n], found[n], totals[n])
        else:
            for t in range(t1 - t0):
                self._advance(alpha, weights, t, found[:, t])
                alpha = found[:, t]
                total = totals[:, t] = alpha.sum(axis=1)
                alpha *= 1.0 / np.where(total > 0.0, total, 1.0)[:, None]
        self._add(totals, weights)
        self.joints = [(self.model.state, found)]
        return found

    def _add(self, totals: FloatArray, weights: list[Weights]) -> None:
        """Add the logarithms of the totals [N, B] of a block, and of what its weights were divided by, to `log_z`."""
        with np.errstate(divide="ignore"):
            self.log_z += np.log(totals).sum(axis=1)
        self.log_z += sum(w.tops[w.index].sum(axis=1) for w in weights)

    def _advance(self, alpha: FloatArray | None, weights: list[Weights], t: int, out: FloatArray) -> None:
        """Fill out [N, S] with alpha of slice t of a block, up to a factor, from alpha of the slice before."""
        if alpha is None:
            ahead = self._prior
        elif self._matrix is not None:
            ahead = alpha @ self._matrix
        else:
            before = self.model.carried(alpha.reshape(self.N, *self.model.shape))
            ahead = self.model.step("forward")(before).reshape(self.N, -1)
        self._multiply(ahead, weights, t, out)

    def _multiply(self, values: FloatArray, weights: list[Weights], t: int, out: FloatArray) -> None:
        """Fill out [N, S] with values times e_t, for slice t of the block."""
        factors: list[FloatArray] = []
        for w in weights:
            at = w.index[:, t]
            rows = w.rows[at[0] : at[0] + 1] if self.N == 1 else w.rows[at]
            if factors and factors[-1].size * rows.size <= _JOINT_ENTRIES * self.N**2:
                rows = factors.pop() * rows
            factors.append(rows)
        if not factors:
            out[:] = values
        shape = (-1, self.S) if self._matrix is not None else (-1, *self.model.shape)
        for rows in factors:
            np.multiply(values.reshape(shape), rows, out=out.reshape(shape))
            values = out

    def filtered(self, keep: bool = False) -> Iterator[tuple[int, FloatArray]]:
        """Yield the first slice of each block and alpha [N, B, S]; see `forward`."""
        alpha = None
        self.log_z = np.zeros(self.N)
        for t0, t1 in self._blocks if keep else self.long_blocks():
            block = self.forward(t0, t1, alpha, keep)
            alpha = block[:, -1].copy()
            yield t0, block

    def long_blocks(self) -> list[tuple[int, int]]:
        """Return the blocks of a forward pass alone."""
        return self._blocks

    def smoothed(self) -> Iterator[tuple[int, FloatArray, FloatArray | None, FloatArray]]:
        """Yield blocks from the last to the first: first slice, p(state | all) [N, B, S], and the parts of pairs.

        These are alpha [N, B, S] one slice before each, None in the first block, and e beta [N, B, S] of each. The
        probability of a pair is in proportion to their product with the transition.
        """
        starts: list[FloatArray | None] = [None]
        for _, block in self.filtered(keep=True):
            starts.append(block[:, -1].copy())
        kept = self.log_z.copy()
        beta = np.ones((self.N, self.S))  # of the last slice
        for k in range(len(self._blocks) - 1, -1, -1):
            (t0, t1), start = self._blocks[k], starts[k]
            if k < len(self._blocks) - 1:
                block = self.forward(t0, t1, start)
            p, inner = self._array("p", t1 - t0), self._array("inner", t1 - t0)
            beta = self._backward(t0, t1, block, beta, p, inner)
            self.joints.append((self.model.state, p))
            earlier = None if start is None else np.concatenate([start[:, None], block[:, :-1]], axis=1)
            yield t0, p, earlier, inner
        self.log_z = kept

    def _backward(
        self, t0: int, t1: int, block: FloatArray, beta: FloatArray, p: FloatArray, inner: FloatArray
    ) -> FloatArray:
        """Fill p(state | all) and e beta [N, B, S] of a block; return beta [N, S] of the slice before it."""
        model = self.model
        weights = self.observed.weights(t0, t1)
        self.joints = []
        if self._compiled and self._matrix is not None:
            from equifactor.sequences.state_kernels import smooth_states

            (own,), matrix = weights, padded(self._matrix.T, 0.0)
            for n in range(self.N):
                smooth_states(beta[n], matrix, own.rows, own.index[n], block[n], p[n], inner[n])
            return beta
        for t in range(t1 - t0 - 1, -1, -1):
            np.multiply(block[:, t], beta, out=p[:, t])
            total = p[:, t].sum(axis=1, keepdims=True)
            p[:, t] *= 1.0 / np.where(total > 0.0, total, 1.0)
            self._multiply(beta, weights, t, inner[:, t])
            if t0 + t == 0:
                break
            if self._matrix is not None:
                beta = inner[:, t] @ self._matrix.T
            else:
                back = model.spread(model.step("backward")(inner[:, t].reshape(self.N, *model.shape)))
                beta = np.broadcast_to(back, (self.N, *model.shape)).reshape(self.N, -1)
            top = beta.max(axis=1, keepdims=True)
            beta = beta / np.where(top > 0.0, top, 1.0)
        return beta
