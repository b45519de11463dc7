"""The whole numbers that stand for messages, and the update of a message as a table of whole numbers.

A message to a binary variable is one log ratio, ln m(1)/m(0). Through a table of positive entries it lies between two
numbers of that table. Messages are therefore stored as multiples of a quantum: 16 bits divide the largest possible
message into 32,767 steps. Sums of whole numbers do not depend on their order, so any number of threads and processes,
and a GPU, find the same beliefs bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
        bound: log odds of variables are clamped to this many quanta; their messages do not change beyond it.
        lookup: [T, 2, L + 1] the message through each table, to its second and to its first variable, by the log ratio
            of the other variable.
    """

    quantum: float
    bits: int
    shift: int
    half: int
    bound: int
    lookup: IntArray

    @classmethod
    def of(cls, tables: FloatArray, bits: Literal[16, 32]) -> MessageScale:
        """Return the scale of tables [T, 2, 2] with positive entries."""
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

    def priors(self, probabilities: FloatArray) -> IntArray:
        """Return the log odds of probabilities of state 1 in quanta."""
        with np.errstate(divide="ignore"):
            p = probabilities.astype(np.float64)
            odds = np.log(p) - np.log1p(-p)
        steps = np.clip(odds / self.quantum, -OBSERVED + 1.0, OBSERVED - 1.0)
        return np.where(np.isinf(odds), np.copysign(OBSERVED, odds), np.rint(steps)).astype(np.int32)


def read_tables(tables: object) -> FloatArray:
    """Return tables [T, 2, 2]; raise `ModelError` unless there are some and their entries are positive numbers."""
    try:
        read = np.asarray(tables, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"A table must be 2 rows of 2 positive numbers, found {brief(tables)}.") from None
    read = read[None] if read.ndim == 2 else read
    if read.ndim != 3 or read.shape[1:] != (2, 2) or not len(read):
        raise ModelError(
            f"Tables must have the shape (2, 2), or (T, 2, 2) for T tables, found {read.shape}. All variables of a "
            "large model are binary."
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
