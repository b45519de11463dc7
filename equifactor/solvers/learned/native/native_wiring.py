"""What a native network sees of a batch: the edge states of its larger factors, ordered by states.

Edges with d states are the columns of a block [d, n]. So a mean over the states of an edge adds whole rows, for any
mixture of cardinalities. The order of edge states differs from that of the FlatGraph; `place` translates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.factors.table_ranges import message_floor
from equifactor.kernels.pointers import by_number, ptr_of

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray, Semiring
    from equifactor.graph import FlatGraph

_LOWEST = -float(np.finfo(np.float32).max)  # Stands for the largest of some logs if all of them are -inf.
# Sums over the first 8 edges of a variable are additions of whole rows. Half or twice: CPU within 1 %. Compared
# once, by hand.
_ROUNDS = 8


class Rows(NamedTuple):
    """Where the edges of one cardinality are: the block [d, n] that begins at an edge state."""

    first: int
    card: int
    num: int

    def of(self, values: Any) -> Any:
        """Return the view [.., d, n] of values [.., S2]."""
        part = values[..., self.first : self.first + self.card * self.num]
        return part.reshape(*values.shape[:-1], self.card, self.num)


class Slot(NamedTuple):
    """Where the edges of one scope position of a group of tables are: some columns of a block."""

    rows: Rows
    columns: slice

    def of(self, values: Any) -> Any:
        """Return the view [.., d, F] of values [.., S2]."""
        return self.rows.of(values)[..., self.columns]

    def place(self) -> tuple[int, int, int]:
        """Return the first edge state, the distance between states, and the number of states."""
        return self.rows.first + self.columns.start, self.rows.num, self.rows.card


class SumsByOwner:
    """Sums of columns [H, N] that belong to the same owner, such as the edge states of a variable state."""

    def __init__(self, owner: IntArray, count: int) -> None:
        order = by_number(owner)
        degree = np.bincount(owner, minlength=count)
        ptr = ptr_of(degree)
        by_degree = np.argsort(-degree, kind="stable")
        self.rank = np.empty(count, np.int64)  # the place of an owner among those with most columns
        self.rank[by_degree] = np.arange(count)
        self.rank_of_column = self.rank[owner]
        # Round k adds the k-th column of every owner that has one. Owners of highest degree come first.
        self.rounds = [
            order[ptr[by_degree[: np.count_nonzero(degree > k)]] + k]
            for k in range(min(_ROUNDS, int(degree.max(initial=0))))
        ]
        many = by_degree[: np.count_nonzero(degree > _ROUNDS)]
        rest = ptr_of(degree[many] - _ROUNDS)
        self.rest_ptr = rest[:-1]
        self.rest = order[np.repeat(ptr[many] + _ROUNDS - rest[:-1], np.diff(rest)) + np.arange(rest[-1])]

    def of(self, values: Any) -> Any:
        """Return [H, owners] the sums."""
        return self._ranked(values).take(self.rank, axis=1)

    def of_others(self, values: Any, out: Any = None) -> Any:
        """Return [H, N] for each column the sum of the other columns of its owner."""
        # Without the mode, `take` with `out` works on a copy.
        others = np.take(self._ranked(values), self.rank_of_column, axis=1, out=out, mode="clip")
        others -= values
        return others

    def _ranked(self, values: Any) -> Any:
        total = np.zeros((len(values), len(self.rank)), values.dtype)
        for places in self.rounds:
            total[:, : len(places)] += values.take(places, axis=1)
        if len(self.rest):
            total[:, : len(self.rest_ptr)] += np.add.reduceat(values.take(self.rest, axis=1), self.rest_ptr, axis=1)
        return total


class NativeWiring:
    """Index arrays and fixed numbers of one batch, for one semiring."""

    def __init__(self, flat: FlatGraph[np.ndarray], semiring: Semiring, clock: Clock | None = None) -> None:
        self.flat, self.semiring, self.clock = flat, semiring, clock
        self.compiled = False  # Whether layers are compiled loops. The run decides.
        self.is_max = semiring == "max"
        # Structured factors may have zeros that no log value shows, for example a noisy-or without a leak.
        self.has_zeros = flat.has_zeros or bool(flat.structured)
        self.floor = float(message_floor(_with_zeros(flat))) if self.has_zeros else -np.inf
        self.larger = [g for g in flat.groups if len(g.shape) >= 2]
        self._number_edges()
        self.graph = flat.graph_of_var[flat.var_of_state[self.state]]  # [S2]
        self.unary_messages = self._unary_messages()
        first = flat.state_of_edge_state[: len(self.unary_messages)]
        self.unary = _sums(first, self.unary_messages, flat.num_states)  # [X]
        self.unary_seen = self.unary[self.state]
        self.sums = SumsByOwner(self.state, flat.num_states)

    def is_over(self) -> bool:
        """Return whether the run was stopped, so that no further step will follow."""
        return self.clock is not None and self.clock.stopped

    # ---- order of edge states ---------------------------------------------------------------------------

    def _number_edges(self) -> None:
        """Lay out the edges of larger factors by their number of states."""
        flat = self.flat
        card = np.diff(flat.var_ptr)[flat.var_of_edge]
        blocks = [np.arange(e.start, e.stop) for g in self.larger for e in g.edges]
        blocks += [np.arange(g.edges.start, g.edges.stop) for g in flat.structured]
        edges = np.concatenate([np.zeros(0, np.int64), *blocks])
        self.rows: list[Rows] = []
        column = np.zeros(flat.num_edges, np.int64)  # of each edge in its block
        places, first, by_card = [np.zeros(0, np.int64)], 0, {}
        first_state = ptr_of(card)[:-1]
        for d in np.unique(card[edges]).tolist():
            own = edges[card[edges] == d]
            self.rows.append(Rows(first, d, len(own)))
            by_card[d] = self.rows[-1]
            column[own] = np.arange(len(own))
            places.append((first_state[own] + np.arange(d)[:, None]).ravel())
            first += d * len(own)
        self.place = np.concatenate(places)  # [S2] the edge state in the order of the FlatGraph
        self.state = flat.state_of_edge_state[self.place]  # [S2] the variable state
        self.slots = [
            tuple(
                Slot(by_card[d], slice(int(column[e.start]), int(column[e.start]) + g.num_factors))
                for e, d in zip(g.edges, g.shape, strict=True)
            )
            for g in self.larger
        ]
        self.first_unary = flat.num_edge_states - len(self.place)
        self.where = np.full(flat.num_edge_states, -1)  # the inverse of `place`
        self.where[self.place] = np.arange(len(self.place))

    def _unary_messages(self) -> FloatArray:
        """Return the messages of the unary factors: their normalised tables."""
        found = [np.zeros(0)]
        for group in self.flat.groups:
            if len(group.shape) == 1:
                table = group.table(self.flat.log_phi)
                found.append((table - finite(log_total(table.T, self.is_max))[:, None]).ravel())
        return np.concatenate(found)

    # ---- belief propagation -----------------------------------------------------------------------------

    def uniform_messages(self) -> FloatArray:
        """Return the messages [S2] before the first step."""
        return self.normalize(np.zeros(len(self.state)))

    def outgoing(self, msg_fv: FloatArray) -> FloatArray:
        """Return variable-to-factor messages (Eq. 2 of [Sun21]), not normalised."""
        if not self.has_zeros:
            return self.log_beliefs(msg_fv)[self.state] - msg_fv
        zero = np.isneginf(msg_fv)
        finite_msg = np.where(zero, 0.0, msg_fv)
        total = _sums(self.state, finite_msg, self.flat.num_states)[self.state]
        zeros = _sums(self.state, zero, self.flat.num_states)[self.state] - zero
        return np.where(zeros > 0.5, -np.inf, self.unary_seen + (total - finite_msg))

    def log_beliefs(self, msg_fv: FloatArray) -> FloatArray:
        """Return [X] the sum of all incoming messages, not normalised (Eq. 4)."""
        return self.unary + _sums(self.state, msg_fv, self.flat.num_states)

    def log_total(self, values: Any, is_max: bool) -> Any:
        """Return [.., S2] ln of the sum (or the maximum) over the states of the same edge, repeated for each state."""
        if len(self.rows) == 1:
            total = log_total(self.rows[0].of(values), is_max, axis=-2)
            return np.concatenate([total] * self.rows[0].card, axis=-1)
        out = np.empty_like(values)
        for rows in self.rows:
            rows.of(out)[:] = log_total(rows.of(values), is_max, axis=-2)[..., None, :]
        return out

    def normalize(self, values: Any, is_max: bool | None = None) -> Any:
        """Return messages [.., S2] whose states add up to 1 (sum) or have maximum 1 (max) on each edge."""
        total = self.log_total(values, self.is_max if is_max is None else is_max)
        return values - (finite(total) if self.has_zeros else total)

    def damp(self, new: FloatArray, old: FloatArray, keep: Any) -> FloatArray:
        """Return damped messages `new + keep (old - new)` (Eq. 7); a true zero in either message stays a true zero."""
        if not self.has_zeros:
            return new + keep * (old - new)
        zero = np.isneginf(new) | np.isneginf(old)
        new, old = np.maximum(np.where(zero, 0.0, new), self.floor), np.where(zero, 0.0, old)
        return np.where(zero, -np.inf, np.maximum(new + keep * (old - new), self.floor))

    def messages(self, msg_fv: FloatArray) -> FloatArray:
        """Return all messages [S], those of unary factors included, in the order of the FlatGraph."""
        found = np.empty(self.flat.num_edge_states)
        found[: self.first_unary] = self.unary_messages
        found[self.place] = msg_fv
        return found

    # ---- means ------------------------------------------------------------------------------------------

    def mean_over_states(self, values: Any) -> Any:
        """Return [.., S2] the mean over the states of the same edge, repeated for each state."""
        out = np.empty_like(values)
        for rows in self.rows:
            rows.of(out)[:] = rows.of(values).mean(axis=-2, keepdims=True)
        return out

    def center(self, values: Any) -> None:
        """Subtract the mean over the states of the same edge from values [.., S2], in place."""
        for rows in self.rows:
            own = rows.of(values)
            own -= own.mean(axis=-2, keepdims=True)

    def largest_per_graph(self, graph: IntArray, values: FloatArray) -> FloatArray:
        """Return [G] the largest of the values of each graph, 0 without values; NaN if one of them is NaN."""
        if self.flat.num_graphs == 1:
            return np.array([values.max(initial=0.0)])
        largest = np.zeros(self.flat.num_graphs)
        np.maximum.at(largest, graph, values)
        return largest


def log_total(values: Any, is_max: bool, axis: int = 0) -> Any:
    """Return ln of the sum (or the maximum) of exp(values) along an axis; -inf if all values are -inf."""
    top = values.max(axis)
    if is_max:
        return top
    top = np.maximum(top, _LOWEST)
    rest = values - np.expand_dims(top, axis)
    np.exp(rest, out=rest)
    return np.log(rest.sum(axis)) + top


def finite(log_values: Any) -> Any:
    """Return 0 in place of -inf: a variable without any possible state stays -inf, and no NaN arises."""
    return np.where(np.isneginf(log_values), 0.0, log_values)


def _sums(index: IntArray, values: Any, count: int) -> FloatArray:
    return np.bincount(index, values, count).astype(np.float64)  # bincount of no values has integers


def _with_zeros(flat: FlatGraph[np.ndarray]) -> FlatGraph[np.ndarray]:
    from dataclasses import replace

    return replace(flat, has_zeros=True)
