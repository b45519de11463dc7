"""The most probable sequence of states of all variables, given observations (Viterbi on the state of a slice).

delta_t(s) is the best log score of all beginnings that end in state s at slice t, with the variables of all parts at
their best. The way forward keeps delta at the first slice of every block. The way back computes the others again and
looks for the state that attained each maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.sequences.chained_products import Factor, eliminated
from equifactor.sequences.observed_rows import distinct_rows
from equifactor.sequences.slice_model import padded
from equifactor.sequences.slice_sums import Observed, use_kernels

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.sequences.slice_model import SliceModel, SlicePart


def best_sequences(model: SliceModel, codes: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the best states [N, T, V] and their log scores [N], for observations [N, T, V]; see `Sequences`.

    A score of -inf means that the observations are impossible; the states are then meaningless.
    """
    return _BestSequences(model, Observed(model, codes, best=True)).run()


class _BestSequences:
    def __init__(self, model: SliceModel, observed: Observed) -> None:
        self.model, self.observed = model, observed
        self.N, self.T, self.V = observed.codes.shape
        self.shape = model.shape
        with np.errstate(divide="ignore"):
            self.log_prior = np.log(model.prior()).reshape(1, -1)
            self.log_tables = [(f.scope, np.log(f.table)) for f in model.transitions()]
            self.log_matrix = np.log(model.matrix()) if model.is_dense else None
        self.compiled = model.is_dense and use_kernels(self.N, self.T, int(model.num_states))

    def run(self) -> tuple[IntArray, FloatArray]:
        """Return the best states and their scores."""
        blocks = self.observed.blocks()
        starts: list[FloatArray | None] = [None]
        block = np.empty(0)
        for t0, t1 in blocks:
            block = self._forward(t0, t1, starts[-1])
            starts.append(block[:, -1].copy())
        last = block[:, -1]
        chosen = last.argmax(axis=1)
        score = last[np.arange(self.N), chosen]
        path = np.empty((self.N, self.T), np.int64)
        for k in range(len(blocks) - 1, -1, -1):
            t0, t1 = blocks[k]
            if k < len(blocks) - 1:
                block = self._forward(t0, t1, starts[k])
            if self.compiled:
                chosen = self._trace_compiled(block, starts[k], chosen, path[:, t0:t1])
                continue
            for t in range(t1 - 1, t0 - 1, -1):
                path[:, t] = chosen
                if t > 0:
                    before = block[:, t - 1 - t0] if t > t0 else starts[k]
                    assert before is not None
                    chosen = (before + self._into(chosen)).argmax(axis=1)
        return self._all_variables(path), score

    def _forward(self, t0: int, t1: int, delta: FloatArray | None) -> FloatArray:
        """Return delta [N, t1 - t0, S] of a block, given delta [N, S] of the slice before."""
        model, weights = self.model, self.observed.weights(t0, t1)
        found = np.empty((self.N, t1 - t0, self.log_prior.size))
        if self.compiled and self.log_matrix is not None and delta is not None:
            from equifactor.sequences.state_kernels import best_states

            (own,), matrix = weights, padded(self.log_matrix, -np.inf)
            for n in range(self.N):
                best_states(delta[n], matrix, own.rows, own.index[n], found[n])
            return found
        for t in range(t1 - t0):
            if delta is None:
                ahead = self.log_prior
            elif self.log_matrix is not None:
                ahead = np.stack([(d[:, None] + self.log_matrix).max(axis=0) for d in delta])
            else:
                before = model.carried(delta.reshape(self.N, *self.shape), best=True)
                ahead = model.step("best")(before)
            wide = found[:, t].reshape(self.N, *self.shape)
            wide[:] = ahead.reshape(-1, *self.shape)
            for w in weights:
                rows = w.rows[w.index[:, t]]
                wide += rows.reshape(wide.shape) if model.is_dense else rows
            delta = found[:, t]
        return found

    def _trace_compiled(
        self, block: FloatArray, before: FloatArray | None, chosen: IntArray, path: IntArray
    ) -> IntArray:
        """Fill the path [N, B] of a block that ends in the chosen states; return the states before the block."""
        from equifactor.sequences.state_kernels import trace_states

        assert self.log_matrix is not None
        transposed = np.ascontiguousarray(self.log_matrix.T)
        path[:, -1] = chosen
        for n in range(self.N):
            trace_states(block[n], transposed, path[n])
        return chosen if before is None else (before + self._into(path[:, 0])).argmax(axis=1)

    def _into(self, chosen: IntArray) -> FloatArray:
        """Return the log weight [N, S] of the steps from every state of the slice before into the chosen states."""
        if self.log_matrix is not None:
            return self.log_matrix[:, chosen].T
        model, V = self.model, self.V
        digits = np.unravel_index(chosen, self.shape)
        place = {v: k for k, v in enumerate(model.state)}
        total = np.zeros((self.N, *(1,) * len(self.shape)))
        for scope, table in self.log_tables:
            own = [k for k, v in enumerate(scope) if v >= V]
            past = [k for k, v in enumerate(scope) if v < V]
            rows = table.transpose(*own, *past)[tuple(digits[place[scope[k]]] for k in own)]
            rows = rows.reshape(self.N, *(table.shape[k] for k in past)) if own else table.transpose(past)[None]
            axes = [place[V + scope[k]] for k in past]
            order = np.argsort(axes)
            shape = [1] * len(self.shape)
            for k in axes:
                shape[k] = self.shape[k]
            total = total + rows.transpose(0, *(1 + order)).reshape(-1, *shape)
        return np.broadcast_to(total, (self.N, *self.shape)).reshape(self.N, -1)

    def _all_variables(self, path: IntArray) -> IntArray:
        """Return the states [N, T, V] of all variables, given the joint state of each slice."""
        model, V = self.model, self.V
        found = self.observed.codes.copy()
        for v, digit in zip(model.state, np.unravel_index(path, self.shape), strict=True):
            found[:, :, v - V] = digit
        for later, piece in ((False, found[:, :1]), (True, found[:, 1:])):
            for part in model.parts:
                if not part.variables or not piece.size:
                    continue
                own, given = [v - V for v in part.variables], [v - V for v in part.scope]
                rows, index = distinct_rows(piece[:, :, given + own].reshape(-1, len(given + own)))
                best = self._best_part(part, rows[:, : len(given)], rows[:, len(given) :], later)
                piece[:, :, own] = best[index].reshape(*piece.shape[:2], len(own))
        return found

    def _best_part(self, part: SlicePart, state: IntArray, codes: IntArray, later: bool) -> IntArray:
        """Return the best states [U, variables of the part], given the state [U, scope] and what is observed."""
        codes = codes.copy()
        for k, v in enumerate(part.variables):
            if ((codes[:, k] >= 0) & (codes[:, k] < self.model.card[v])).all():
                continue
            factors = self.model.part_factors(part, codes, later, logs=True)
            for x, u in zip(state.T, part.scope, strict=True):
                at = np.where(x[:, None] == np.arange(self.model.card[u]), 0.0, -np.inf)
                factors.append(Factor((-1, u), at))
            codes[:, k] = eliminated(factors, (-1, v), logs=True).table.argmax(axis=1)
        return codes
