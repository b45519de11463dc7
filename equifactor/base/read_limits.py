"""The limit on how far readers expand a file.

A few bytes can ask for any amount of memory: a table that is zero except for one entry, a block that repeats 10^12
times, a compressed run of zeros. What a file lists itself is never refused by this limit.
"""

from __future__ import annotations

import math
import os

from equifactor.base.errors import OptionError, brief

VARIABLE = "EQUIFACTOR_READ_LIMIT"  # The environment variable that sets the limit, in GiB.
# GiB that a file may expand to beyond what it lists: 16.8 million float64. Readers need up to four times this memory
# for a moment. Chosen by hand.
_DEFAULT = 0.125
_BYTES_PER_NUMBER = 8  # Bytes of a float64 or an int64.
_BYTES_PER_WORD = 2  # Bytes of text that a number takes at least: a digit and a separator.


def read_limit() -> int:
    """Return the bytes that a file may expand to beyond what it lists."""
    text = os.environ.get(VARIABLE, "")
    try:
        limit = float(text) if text else _DEFAULT
    except ValueError:
        limit = math.nan
    if not 0.0 <= limit <= 2.0**20:
        raise OptionError(f"The environment variable {VARIABLE} must be a number of GiB, found {brief(text)}.")
    return int(limit * 2**30)


def unchecked_text() -> int:
    """Return the bytes of decompressed text up to which it may have any ratio to the size of its file.

    Readers need up to 80 times the memory of a text: an XML element of four bytes is an object of 350 bytes.
    """
    return read_limit() // 16


def most_numbers(num_bytes: int) -> int:
    """Return how many numbers a file of `num_bytes` bytes of text may expand to: those that it lists, and some more."""
    return num_bytes // _BYTES_PER_WORD + read_limit() // _BYTES_PER_NUMBER


def limit_text() -> str:
    """Return the sentences that end an error about the limit: how large it is and how to raise it."""
    return (
        f"A file may expand to at most {read_limit() / 2**30:.3g} GiB beyond what it lists. Set the environment "
        f"variable {VARIABLE} to a larger number of GiB if the file is meant to be this large."
    )
