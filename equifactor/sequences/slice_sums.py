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
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from equifactor.sequences.chained_products import Factor, product

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.sequences.slice_model import Patterns, SliceModel, SlicePart

# Seconds: of NumPy for a slice, and for a product in it, and of compiling. Measured on one core.
_CALLS, _PRODUCT, _COMPILING = 8e-6, 2e-10, 1.0
_BLOCK_ENTRIES = 2**22  # Entries of the arrays of a block: 32 MiB each.


class Observed:
    """The observations of N sequences of T slices, and what each part says about the state of each slice."""

    def __init__(self, model: SliceModel, states: IntArray, best: bool = False) -> None:
        self.model, self.states = model, states  # [N, T, V], -1 where missing
        self.parts: list[
            tuple[SlicePart, Patterns, Patterns]
        ] = []  # those that say something: in the first slice, later
        for part in model.parts:
            first = model.patterns(part, states[:, :1], False, best)
            later = model.patterns(part, states[:, 1:], True, best)
            self.parts.append((part, first, later))
        self.telling = [
            (part, first, later) for part, first, later in self.parts if first.log_rows.any() or later.log_rows.any()
        ]

    def log_weights(self, t0: int, t1: int) -> FloatArray:
        """Return ln e_t [N, t1 - t0, *state], exactly. For dense models, and for maxima."""
        shape = self.model.shape
        total = np.zeros((len(self.states), t1 - t0, *(1,) * len(shape)))
        for part, first, later in self.telling:
            rows = [p.log_rows[p.index[:, a:b]] for p, a, b in _split(first, later, t0, t1)]
            total = total + self._placed(part, np.concatenate(rows, axis=1), 2)
        return np.broadcast_to(total, (*total.shape[:2], *shape))

    def weights(self, t: int) -> tuple[FloatArray, FloatArray]:
        """Return e_t in a shape that broadcasts against [N, *state], and the logarithms [N] it was divided by."""
        offset = np.zeros(len(self.states))
        factors: list[Factor] = []
        for part, first, later in self.telling:
            p, at = (first, 0) if t == 0 else (later, t - 1)
            rows = p.log_rows[p.index[:, at]]
            top = rows.reshape(len(rows), -1).max(axis=1)
            top[top == -np.inf] = 0.0
            offset += top
            factors.append(Factor((-1, *part.scope), np.exp(rows - top.reshape(-1, *(1,) * (rows.ndim - 1)))))
        while len(factors) > 1:  # Neighbours together: small products first.
            pairs = [factors[k : k + 2] for k in range(0, len(factors), 2)]
            factors = [product(p, tuple(sorted({v for f in p for v in f.scope}))) for p in pairs]
        whole = factors[0] if factors else Factor((-1,), np.ones(len(offset)))
        return self._placed_factor(whole), offset

    def _placed(self, part: SlicePart, rows: FloatArray, leading: int) -> FloatArray:
        shape = [self.model.card[v] if v in part.scope else 1 for v in self.model.state]
        return rows.reshape(*rows.shape[:leading], *shape)

    def _placed_factor(self, factor: Factor) -> FloatArray:
        shape = [self.model.card[v] if v in factor.scope else 1 for v in self.model.state]
        return factor.table.reshape(-1, *shape)


def _split(first: Patterns, later: Patterns, t0: int, t1: int) -> Iterator[tuple[Patterns, int, int]]:
    """Yield the patterns of slices t0 to t1, with places in their own index."""
    if t0 == 0:
        yield first, 0, 1
    if t1 > 1:
        yield later, max(t0, 1) - 1, t1 - 1


def use_kernels(N: int, T: int, S: int) -> bool:
    """Return whether compiled passes pay: NumPy would take longer than compiling."""
    return T * (_CALLS + N * S * S * _PRODUCT) > _COMPILING


class SliceSums:
    """Forward and backward passes over the observations of sequences."""

    def __init__(self, observed: Observed) -> None:
        self.observed, self.model = observed, observed.model
        self.N, self.T = observed.states.shape[:2]
        self.log_z = np.zeros(self.N)  # after a forward pass: ln p(observations), -inf where they are impossible
        states = self.model.num_states
        most = max(1, int(_BLOCK_ENTRIES / (self.N * states)))
        self.size = min(most, max(math.isqrt(self.T), 256))
        self._dense = self.model.matrix() if self.model.is_dense else None
        self._compiled = self._dense is not None and use_kernels(self.N, self.T, len(self._dense))
        self._prior = self.model.prior().ravel()

    def _blocks(self) -> list[tuple[int, int]]:
        return [(t, min(t + self.size, self.T)) for t in range(0, self.T, self.size)]

    def forward(self, t0: int, t1: int, alpha: FloatArray | None) -> FloatArray:
        """Return alpha [N, t1 - t0, S] of a block and add to `log_z`, given alpha [N, S] of the slice before."""
        model = self.model
        found = np.empty((self.N, t1 - t0, int(model.num_states)))
        logs = self._scaled_logs(t0, t1) if self._dense is not None else None
        if alpha is not None and logs is not None and self._compiled:
            self._filter_compiled(alpha, logs, found)
            return found
        for t in range(t0, t1):
            if t > t0 == 0 and logs is not None and self._compiled:  # the first slice alone has no step
                self._filter_compiled(found[:, 0], (logs[0][:, 1:], logs[1][:, 1:]), found[:, 1:])
                break
            if alpha is None:
                ahead = np.broadcast_to(self._prior, (self.N, found.shape[2]))
            elif self._dense is not None:
                ahead = alpha @ self._dense
            else:
                ahead = model.step("forward")(model.carried(alpha.reshape(self.N, *model.shape)))
            alpha = found[:, t - t0]
            if logs is not None:
                np.multiply(ahead, logs[0][:, t - t0], out=alpha)
                offset = logs[1][:, t - t0]
            else:
                weights, offset = self.observed.weights(t)
                wide = (self.N, *model.shape)
                np.multiply(ahead.reshape(wide), weights, out=alpha.reshape(wide))
            total = alpha.sum(axis=1)
            with np.errstate(divide="ignore"):
                self.log_z += np.log(total) + offset
            alpha *= 1.0 / np.where(total > 0.0, total, 1.0)[:, None]
        return found

    def _filter_compiled(self, before: FloatArray, logs: tuple[FloatArray, FloatArray], found: FloatArray) -> None:
        from equifactor.sequences.state_kernels import filter_states

        totals = np.empty(found.shape[1])
        for n in range(self.N):
            filter_states(before[n], self._dense, logs[0][n], found[n], totals)
            with np.errstate(divide="ignore"):
                self.log_z[n] += np.log(totals).sum() + logs[1][n].sum()

    def _scaled_logs(self, t0: int, t1: int) -> tuple[FloatArray, FloatArray]:
        """Return e_t [N, B, S] with largest entry 1, and the logarithms [N, B] it was divided by."""
        logs = self.observed.log_weights(t0, t1).reshape(self.N, t1 - t0, -1)
        top = logs.max(axis=2)
        top[top == -np.inf] = 0.0
        return np.exp(logs - top[:, :, None]), top

    def filtered(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield the first slice of each block and alpha [N, B, S]."""
        alpha = None
        self.log_z = np.zeros(self.N)
        for t0, t1 in self._blocks():
            block = self.forward(t0, t1, alpha)
            alpha = block[:, -1]
            yield t0, block

    def smoothed(self) -> Iterator[tuple[int, FloatArray, FloatArray | None, FloatArray]]:
        """Yield blocks from the last to the first: first slice, p(state | all) [N, B, S], and the parts of pairs.

        These are alpha [N, S or B, S] one slice before each, and e beta [N, B, S] of each, such that the probability of
        a pair is in proportion to their product with the transition.
        """
        starts: list[FloatArray | None] = [None]
        for _, block in self.filtered():
            starts.append(block[:, -1].copy())
            last = block
        kept = self.log_z.copy()
        beta = np.ones((self.N, int(self.model.num_states)))
        blocks = self._blocks()
        for k in range(len(blocks) - 1, -1, -1):
            t0, t1 = blocks[k]
            block = last if k == len(blocks) - 1 else self.forward(t0, t1, starts[k])
            p, inner, beta = self._backward(t0, t1, block, beta)
            start = starts[k]
            before = None if start is None else start[:, None]
            earlier = block[:, :-1] if before is None else np.concatenate([before, block[:, :-1]], axis=1)
            yield t0, p, earlier, inner
        self.log_z = kept

    def _backward(
        self, t0: int, t1: int, block: FloatArray, beta: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return p(state | all) and e beta [N, B, S] of a block, and beta [N, S] of the slice before it."""
        model = self.model
        p, inner = np.empty_like(block), np.empty_like(block)
        logs = self._scaled_logs(t0, t1)[0] if self._dense is not None else None
        if logs is not None and self._compiled and self._dense is not None:
            from equifactor.sequences.state_kernels import smooth_states

            transposed, beta = np.ascontiguousarray(self._dense.T), np.array(beta)
            for n in range(self.N):
                smooth_states(beta[n], transposed, logs[n], block[n], p[n], inner[n])
            return p, inner, beta
        for t in range(t1 - 1, t0 - 1, -1):
            both = block[:, t - t0] * beta
            total = both.sum(axis=1, keepdims=True)
            p[:, t - t0] = both / np.where(total > 0.0, total, 1.0)
            if logs is not None:
                inside = logs[:, t - t0] * beta
            else:
                inside = (self.observed.weights(t)[0] * beta.reshape(self.N, *model.shape)).reshape(self.N, -1)
            inner[:, t - t0] = inside
            if t == 0:
                break
            if self._dense is not None:
                beta = inside @ self._dense.T
            else:
                back = model.spread(model.step("backward")(inside.reshape(self.N, *model.shape)))
                beta = np.broadcast_to(back, (self.N, *model.shape)).reshape(self.N, -1)
            top = beta.max(axis=1, keepdims=True)
            beta = beta / np.where(top > 0.0, top, 1.0)
        return p, inner, beta
