"""What kernels need to know of structured factors: one record, which Python passes as a plain tuple."""

from __future__ import annotations

from typing import NamedTuple

from equifactor.base.typing import IntArray


class KindRows(NamedTuple):
    """The structured factors of a compiled batch, in flat order."""

    kind: IntArray  # [F]
    word_ptr: IntArray  # [F+1]
    words: IntArray
    places: IntArray  # beside the words of label pairs, see `label_kernels`
    boxes: tuple[IntArray, ...]  # the fields of `SparseBoxes`
    num_tables: int  # Factors before this one are dense tables.
    first_slot: int  # Slots before this one belong to dense tables.
    first_state: int  # Edge states before this one belong to dense tables.
    messages_at: int  # The address of `structured_messages` for the semiring in use, 0 if no messages are needed.
    maximum_at: int  # The address of `structured_maximum`, 0 for sums.


# The places of the fields, for kernels that take the plain tuple.
KIND, WORD_PTR, WORDS, PLACES, BOXES, NUM_TABLES, FIRST_SLOT, FIRST_STATE, MESSAGES_AT, MAXIMUM_AT = range(10)
