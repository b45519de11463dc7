"""The whole numbers that stand for messages, and the update of a message as a table of whole numbers.

A message to a variable with K states is K - 1 log ratios, ln m(s)/m(0). Through a table of positive entries each lies
between two numbers of that table. Messages are therefore stored as multiples of a quantum: 16 bits divide the largest
possible message into 32,767 steps. Sums of whole numbers do not depend on their order, so any number of threads and
processes, and a GPU, find the same beliefs bit for bit.

With two states a message is a function of one number, and `lookup` is that function. With more states the logarithms
of sums are computed in units of quantum / 2^fine, two terms at a time: ln(e^a + e^b) = max(a, b) + lookup(|a - b|).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.errors import ModelError, OptionError, brief

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

# Intervals of the table of an update, by the bits of a message. Between two entries the update is a straight line,
# whose error is less than a quantum. With 16 bits the table fits into the first cache.
_INTERVALS = {16: 2**12, 32: 2**16}
_LARGEST = {16: 2**15 - 1, 32: 2**23}  # The largest message in quanta: float32 resolves 2^23 steps as well.
_LEAST_RATIO = 1e-3  # Nats. Tables with smaller log ratios still get quanta of at least 1/32767 of this.
_LARGEST_SPAN = 2**29  # Quanta on either side of 0 in the table of an update: sums of two numbers fit into 32 bits.
_LARGEST_SHIFT = 15  # Of intervals of ln(1 + e^-x): a product within an interval then fits into 32 bits.
_FINEST = 6  # At most 64 units in a quantum: rounding K terms then changes a message by less than a quantum.
_SPARE = 64  # Quanta that rounding may add to the largest message with more than two states.
MOST_STATES = 16  # The unrolled kernel of a GPU has 2 K^2 logarithms of sums.
_DAMPING_UNIT = 2**10  # Damping is a multiple of 1/1024.
OBSERVED = 2**31 - 1  # The prior of an observed variable, in quanta: its log odds are infinite.


@dataclass(frozen=True)
class MessageScale:
    """How messages through some tables are stored and updated.

    Attributes:
        quantum: the nats of one step.
        bits: the bits of a stored message, 16 or 32.
        shift: an interval of `lookup` is 2^shift quanta wide.
        half: the quanta on either side of 0 that `lookup` covers.
        bound: log odds of variables are clamped to this many quanta; their messages do not change beyond it. With more
            than two states, log weights relative to the largest.
        lookup: [T, 2, L + 1] the message through each table, to its second and to its first variable, by the log ratio
            of the other variable. With more than two states [L + 1] ln(1 + e^-x) in fine units.
        states: K.
        fine: a quantum has 2^fine fine units, with more than two states.
        logs: [T, 2, K, K] the log entries of each table in fine units, with more than two states. The third axis is the
            state of the variable that sends.
    """

    quantum: float
    bits: int
    shift: int
    half: int
    bound: int
    lookup: IntArray
    states: int = 2
    fine: int = 0
    logs: IntArray = field(default_factory=lambda: np.zeros(0, np.int32))

    @classmethod
    def of(cls, tables: FloatArray, bits: Literal[16, 32]) -> MessageScale:
        """Return the scale of tables [T, K, K] with positive entries."""
        return cls._of_two(tables, bits) if tables.shape[1] == 2 else cls._of_more(tables, bits)

    @classmethod
    def _of_more(cls, tables: FloatArray, bits: Literal[16, 32]) -> MessageScale:
        ways = np.log(np.stack((tables, tables.transpose(0, 2, 1)), axis=1))
        ways -= ways.max(axis=(2, 3), keepdims=True)
        ends = ways - ways[..., :1]  # The messages if the sender is certainly in one state.
        reach = max(float(np.abs(ends).max()), _LEAST_RATIO)
        intervals, quantum = _INTERVALS[bits], reach / (_LARGEST[bits] - _SPARE)
        # Beyond this difference ln(1 + e^-x) is less than half a unit.
        span = math.log(4.0 * 2**_FINEST / quantum)
        most, bound = min(intervals << _LARGEST_SHIFT, _LARGEST_SPAN), span + 2.0 * reach + float(np.ptp(ways))
        quantum = max(quantum, span / most)
        fine = min(_FINEST, int(math.log2(quantum * min(most / span, 2 * _LARGEST_SPAN / (bound + 2.0 * reach)))))
        unit = quantum / 2**fine
        shift = max(0, math.ceil(math.log2(span / unit / intervals)))
        lookup = np.rint(np.log1p(np.exp(-np.arange(intervals + 1) * (unit * 2.0**shift))) / unit).astype(np.int32)
        logs = np.rint(ways / unit).astype(np.int32)
        half = (intervals << shift) // 2
        return cls(
            quantum, bits, shift, half, math.ceil(bound / quantum) + 2 * _SPARE, lookup, tables.shape[1], fine, logs
        )

    @classmethod
    def _of_two(cls, tables: FloatArray, bits: Literal[16, 32]) -> MessageScale:
        # Both directions [2T, 2, 2]: the first axis of a matrix is the state of the variable that sends.
        ways = np.log(np.stack((tables, tables.transpose(0, 2, 1)), axis=1)).reshape(-1, 2, 2)
        ends = ways[:, :, 1] - ways[:, :, 0]  # The messages if the sender is certainly in state 0 or 1.
        reach = max(float(np.abs(ends).max()), _LEAST_RATIO)
        intervals, quantum = _INTERVALS[bits], reach / _LARGEST[bits]
        # Beyond this log ratio of the sender, the message is within half a quantum of its end.
        tails = np.abs(np.stack((ways[:, 0] - ways[:, 1], ways[:, 1] - ways[:, 0]))).max()
        span = math.log(4.0 / quantum) + float(tails)
        quantum = max(quantum, span / (_LARGEST_SPAN // 2))
        shift = max(0, math.ceil(math.log2(2.0 * span / quantum / intervals)))
        half = (intervals << shift) // 2
        ratio = (np.arange(intervals + 1) - intervals // 2) * (quantum * 2.0**shift)
        to_0 = np.logaddexp(ways[:, 0, 0, None], ways[:, 1, 0, None] + ratio)
        to_1 = np.logaddexp(ways[:, 0, 1, None], ways[:, 1, 1, None] + ratio)
        lookup = np.rint((to_1 - to_0) / quantum).astype(np.int32).reshape(len(tables), 2, -1)
        bound = half + int(np.abs(lookup).max()) + 1
        return cls(quantum, bits, shift, half, bound, lookup)

    @property
    def dtype(self) -> type[np.signedinteger]:
        """The type of a stored message."""
        return np.int16 if self.bits == 16 else np.int32

    @property
    def held(self) -> int:
        """The number of whole numbers that stand for the beliefs of a variable."""
        return 1 if self.states == 2 else self.states

    def start(self, priors: IntArray) -> IntArray:
        """Return the priors, clamped as the sums of priors and messages are."""
        return np.clip(priors, -self.bound, self.bound)

    def nats(self, priors: IntArray) -> FloatArray:
        """Return priors in nats, infinite where they are certain, as float32."""
        found = np.empty(priors.shape, np.float32)
        np.multiply(priors, self.quantum, out=found, casting="unsafe")
        known = np.abs(priors) == OBSERVED
        found[known] = np.copysign(np.inf, found[known])
        return found  # type: ignore[return-value]

    def priors(self, probabilities: FloatArray) -> IntArray:
        """Return the log odds of probabilities [n] of state 1 in quanta, or the log weights of probabilities [n, K]."""
        with np.errstate(divide="ignore"):
            p = probabilities.astype(np.float64)
            odds = np.log(p) - (np.log1p(-p) if self.states == 2 else np.log(p.max(axis=1, keepdims=True)))
        steps = np.clip(odds / self.quantum, -OBSERVED + 1.0, OBSERVED - 1.0)
        return np.where(np.isinf(odds), np.copysign(OBSERVED, odds), np.rint(steps)).astype(np.int32)


def read_tables(tables: object) -> FloatArray:
    """Return tables [T, K, K]; raise `ModelError` unless there are some and their entries are positive numbers."""
    try:
        read = np.asarray(tables, np.float64)
    except Exception:  # a foreign object may raise any error when numpy asks it for numbers
        raise ModelError(f"A table must be rows of positive numbers, found {brief(tables)}.") from None
    read = read[None] if read.ndim == 2 else read
    if read.ndim != 3 or read.shape[1] != read.shape[2] or not len(read) or not 2 <= read.shape[1] <= MOST_STATES:
        raise ModelError(
            f"Tables must have the shape (K, K), or (T, K, K) for T tables, with K from 2 to {MOST_STATES} states, "
            f"found {read.shape}. All variables of a large model have the same number of states."
        )
    if not (np.isfinite(read).all() and (read > 0.0).all()):
        raise ModelError(
            "Every entry of a table must be a positive finite number. A large model cannot store the infinite "
            "messages that a zero sends. Use a small entry instead, or equifactor.solve."
        )
    return read


def damping_steps(damping: float) -> int:
    """Return damping as a multiple of 1/1024."""
    if not 0.0 <= damping < 1.0:
        raise OptionError(f"damping must be at least 0 and below 1, found {damping:g}.")
    return min(round(damping * _DAMPING_UNIT), _DAMPING_UNIT - 1)
