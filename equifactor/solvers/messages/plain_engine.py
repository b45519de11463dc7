"""Belief propagation in plain NumPy, for graphs that converge sooner than the kernels are loaded.

Factors of one table shape are a block, with the number of the factor as the last axis: tables [d1, .., dk, F] and
messages [d, F]. Every reduction then runs along a leading axis, over long contiguous rows. Messages are logs, and true
zeros are -inf.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.factors.table_ranges import message_floor
from equifactor.graph.factor_rows import by_shape
from equifactor.graph.kinds import kind_class
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.messages.bp_engine import BpAnswers, BpPart, BpSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph
    from equifactor.graph.flat_graph import StructuredGroup

# The most entries of the dense table of a structured factor: 512 KiB, as for torch (`dense_tensors`).
_MOST_ENTRIES = 2.0**16
_MOST_AXES = 60  # The most variables of a factor; an array of NumPy has at most 64 axes.
_LOWEST = -float(np.finfo(np.float64).max)  # Stands for the largest of some logs where all of them are -inf.


class _ShapeBlock(NamedTuple):
    """All factors of one table shape."""

    table: FloatArray  # [d1, .., dk, F] logs
    factors: IntArray  # [F] batch-wide factor numbers
    slots: tuple[slice, ...]  # where the messages [d, F] of each scope position are

    def messages(self, values: FloatArray) -> list[FloatArray]:
        """Return the messages of each scope position, as arrays that are added to the table."""
        count, arity = len(self.factors), len(self.slots)
        shapes = [[1] * j + [d] + [1] * (arity - j - 1) + [count] for j, d in enumerate(self.table.shape[:-1])]
        return [values[slot].reshape(shape) for slot, shape in zip(self.slots, shapes, strict=True)]


def applies_to(flat: FlatGraph[np.ndarray]) -> bool:
    """Return whether the engine takes a batch: the dense tables of its structured factors must be small."""
    for group in flat.structured:
        bits = np.add.reduceat(np.log2(group.card), group.edge_ptr[:-1])  # no structured factor is without variables
        if bits.max() > math.log2(_MOST_ENTRIES) or np.exp2(bits).sum() > _MOST_ENTRIES:
            return False
    longest = max((int(np.diff(group.edge_ptr).max()) for group in flat.structured), default=0)
    return max([longest, *[len(group.shape) for group in flat.groups]]) <= _MOST_AXES


def plain_bp_seconds(flat: FlatGraph[np.ndarray], iterations: int) -> float:
    """Return about how long some iterations take in plain NumPy."""
    slots = sum(len(group.shape) for group in flat.groups if len(group.shape) > 1)
    entries = 2.0 * flat.num_entries + 2.0 * flat.num_edge_states
    for group in flat.structured:
        bits = np.add.reduceat(np.log2(group.card), group.edge_ptr[:-1])
        entries += 2.0 * float(np.exp2(np.minimum(bits, 1000.0)).sum())
        slots += int(np.unique(np.diff(group.edge_ptr)).sum())
    return iterations * (Seconds.PLAIN_ITERATION + slots * Seconds.PLAIN_SLOT + entries * Seconds.PLAIN_MESSAGE)


class PlainEngine:
    """The engine of the parallel schedule, sum or max semiring. Messages are in the order of the blocks."""

    name = "numpy"

    def __init__(self, flat: FlatGraph[np.ndarray], settings: BpSettings) -> None:
        self.flat, self.settings = flat, settings
        self.is_max = settings.semiring == "max"
        self.floor = float(message_floor(flat))
        self.blocks: list[_ShapeBlock] = []
        places: list[IntArray] = [np.zeros(0, np.int64)]  # of the messages of each slot in flat order
        start = 0
        for table, factors, slots in _blocks_of(flat):
            ends = [start, *[start := start + slot.size for slot in slots]]
            ranges = tuple(slice(a, b) for a, b in pairwise(ends))
            self.blocks.append(_ShapeBlock(np.ascontiguousarray(table), factors, ranges))
            places += [slot.ravel() for slot in slots]
        self.place = np.concatenate(places)  # [S]
        self.state = flat.state_of_edge_state[self.place]  # [S]
        self.has_zeros = any(bool(np.isneginf(block.table).any()) for block in self.blocks)
        first = min((b.slots[0].start for b in self.blocks if len(b.slots) > 1), default=start)
        self.moving = slice(first, start)  # the messages of unary factors come first and never change
        with np.errstate(all="ignore"):
            self.msg = self._first_messages()

    def _first_messages(self) -> FloatArray:
        """Return the first messages: unary factors send their normalised table, the others a uniform message."""
        msg = np.zeros(len(self.place))
        for block in self.blocks:
            for slot, d in zip(block.slots, block.table.shape[:-1], strict=True):
                rows = block.table if len(block.slots) == 1 else np.zeros((d, len(block.factors)))
                msg[slot] = self._normalised(rows).ravel()
        return msg

    def sweep(self, count: int) -> FloatArray:
        """Update all messages `count` times; return the change [G] of the last update, infinite without a tolerance."""
        damping, moving = self.settings.damping, self.moving
        with np.errstate(all="ignore"):
            for _ in range(count):
                old = self.msg[moving]
                new = self._updated()[moving]
                if self.floor > -math.inf:
                    new = np.where(np.isneginf(new), new, np.maximum(new, self.floor))
                self.msg = self.msg.copy()
                self.msg[moving] = (1.0 - damping) * new + damping * old if damping else new
            if self.settings.tolerance == 0:
                return np.full(self.flat.num_graphs, np.inf)
            change = np.abs(np.exp(new) - np.exp(old))
        if self.flat.num_graphs == 1:
            return np.array([change.max(initial=0.0)])
        largest = np.zeros(self.flat.num_graphs)
        np.maximum.at(largest, self.flat.graph_of_var[self.flat.var_of_state[self.state[moving]]], change)
        return largest

    def _updated(self) -> FloatArray:
        """Return the messages after one undamped update; slot after slot is absorbed into the tables of a block."""
        msg_vf = self._sums_of_others(*self._totals(self.msg))
        new = self.msg.copy()
        for block in self.blocks:
            arity = len(block.slots)
            if arity < 2:
                continue
            messages = block.messages(msg_vf)
            table = block.table  # the axes before slot j have been reduced to length 1
            for j, slot in enumerate(block.slots):
                out = table
                for later in range(arity - 1, j, -1):
                    out = self._reduced(out + messages[later], later)
                new[slot] = self._normalised(out.reshape(out.shape[j], -1)).ravel()
                if j + 1 < arity:
                    table = self._reduced(table + messages[j], j)
        return new

    def _totals(self, msg: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the sums [X] of the finite messages into each state, and the number [X] of zeros if there are any."""
        if not self.has_zeros:
            return np.bincount(self.state, msg, self.flat.num_states).astype(float), None
        zero = np.isneginf(msg)
        total = np.bincount(self.state, np.where(zero, 0.0, msg), self.flat.num_states)
        return total.astype(float), np.bincount(self.state, zero, self.flat.num_states).astype(float)

    def _sums_of_others(self, total: FloatArray, zeros: FloatArray | None) -> FloatArray:
        """Return variable-to-factor messages [S]: the sums of the messages of all other factors."""
        if zeros is None:
            return total[self.state] - self.msg
        zero = np.isneginf(self.msg)
        others = total[self.state] - np.where(zero, 0.0, self.msg)
        return np.where(zeros[self.state] > zero, -np.inf, others)

    def _reduced(self, values: FloatArray, axis: int) -> FloatArray:
        """Return the maximum or ln sum exp along an axis, which stays with length 1."""
        top = values.max(axis, keepdims=True)
        if self.is_max:
            return top
        return _with_exponentials(values, top, axis)

    def _normalised(self, rows: FloatArray) -> FloatArray:
        """Return messages [d, F] with total (sum) or maximum (max) 1; one without any support stays -inf."""
        return rows - np.maximum(self._reduced(rows, 0), _LOWEST)

    # ---- state ------------------------------------------------------------------------------------------

    def messages(self) -> FloatArray:
        """Return a copy of the messages [S] in flat order."""
        return self._in_flat_order(self.msg)

    def _in_flat_order(self, msg: FloatArray) -> FloatArray:
        flat = np.empty(len(msg))
        flat[self.place] = msg
        return flat

    def take(self, graphs: IntArray) -> BpPart:
        """Return a copy of the messages of some graphs."""
        return BpPart(self.messages()[self.flat.edge_states_of(graphs)], 0)

    def put(self, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs."""
        flat = self.messages()
        flat[self.flat.edge_states_of(graphs)] = part.messages
        self.msg = flat[self.place]

    def rest(self, graphs: IntArray) -> None:
        """Do nothing: a graph costs the same whatever its messages are."""

    # ---- answers ----------------------------------------------------------------------------------------

    def answers(self, with_log_z: bool = True) -> BpAnswers:
        """Return beliefs, ln Z (sum) or bound (max), and states."""
        flat = self.flat
        with np.errstate(all="ignore"):
            total, zeros = self._totals(self.msg)
            log_b = total if zeros is None else np.where(zeros > 0, -np.inf, total)
            first = flat.var_ptr[:-1]
            top = np.maximum.reduceat(log_b, first) if flat.num_vars else np.zeros(0)
            weight = np.exp(log_b - np.maximum(top, _LOWEST)[flat.var_of_state])
            sums = np.add.reduceat(weight, first) if flat.num_vars else top
            best = np.where(log_b >= top[flat.var_of_state], np.arange(len(log_b)), len(log_b))
            states = (np.minimum.reduceat(best, first) if flat.num_vars else first) - first
            p = weight / np.maximum(sums, 1.0)[flat.var_of_state]  # a sum below 1 is 0
            none = np.full(flat.num_graphs, np.nan)
            if self.is_max:
                gone = np.isneginf(log_b)[self.state]
                best_a = self._over_factors(np.where(gone, -np.inf, -self.msg))
                bound = flat.sum_per_graph(flat.graph_of_factor, best_a) + flat.sum_per_graph(flat.graph_of_var, top)
                return BpAnswers(p, states, none, bound)
            log_z_a = self._over_factors(self._sums_of_others(total, zeros))
            log_z_i = top + np.log(np.maximum(sums, 1.0))
        # sum_a ln Z_a + sum_i (1 - d_i) ln Z_i per graph, as in `tensors.bethe_log_z`
        degree = np.bincount(flat.var_of_edge, minlength=flat.num_vars).astype(np.float64)
        no_i, no_a = np.isneginf(log_z_i), np.isneginf(log_z_a)
        log_z = flat.sum_per_graph(flat.graph_of_factor, np.where(no_a, 0.0, log_z_a))
        log_z += flat.sum_per_graph(flat.graph_of_var, (1.0 - degree) * np.where(no_i, 0.0, log_z_i))
        log_z[flat.graph_of_var[no_i]] = -np.inf
        log_z[flat.graph_of_factor[no_a]] = -np.inf
        return BpAnswers(p, states, log_z, none)

    def _over_factors(self, values: FloatArray) -> FloatArray:
        """Return [F] the maximum or ln sum exp of each table plus the values [S] of its slots."""
        found = np.zeros(self.flat.num_factors)
        for block in self.blocks:
            table: Any = block.table
            for message in block.messages(values):
                table = table + message
            found[block.factors] = self._reduced(table.reshape(-1, len(block.factors)), 0)[0]
        return found


def _with_exponentials(values: FloatArray, top: FloatArray, axis: int) -> FloatArray:
    """Return ln sum exp along an axis, given the largest values along it; -inf where all values are."""
    top = np.maximum(top, _LOWEST)
    values = values - top
    np.exp(values, out=values)
    found = np.log(values.sum(axis, keepdims=True))
    found += top
    return found


def _blocks_of(flat: FlatGraph[np.ndarray]) -> Iterator[tuple[FloatArray, IntArray, list[IntArray]]]:
    """Yield the log tables [d1, .., dk, F] of each block, its factors [F], and the flat places [d, F] of its slots."""
    for group in flat.groups:
        count = group.num_factors
        slots = [np.arange(s.start, s.stop).reshape(count, -1).T for s in group.slots]
        yield np.moveaxis(group.table(flat.log_phi), 0, -1), group.factors, slots
    for other in flat.structured:
        yield from _structured_blocks(flat, other)


def _structured_blocks(
    flat: FlatGraph[np.ndarray], group: StructuredGroup
) -> Iterator[tuple[FloatArray, IntArray, list[IntArray]]]:
    rows = group.rows(flat.log_phi[group.entries])
    first_state = group.states.start + ptr_of(group.card)
    for members in by_shape(rows):
        table = kind_class(group.kind).tables(rows.take(members))
        first_edge = group.edge_ptr[members]
        slots = [first_state[first_edge + j] + np.arange(d)[:, None] for j, d in enumerate(table.shape[1:])]
        yield np.moveaxis(table, 0, -1), group.factors[members], slots
