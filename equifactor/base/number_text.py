"""Numbers as text. Python's `int` and `float` also read `1_000`, digits of other scripts, and thousands of digits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

SATURATED = 2**62  # Stands for every larger size: more entries than any memory holds.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")  # Up to 18 digits always fit into 64 bits.
# Possessive repeats: a text of 10^5 digits and a letter must not take quadratic time.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def whole_number(text: str) -> int | None:
    """Return the whole number that a text holds; None if the text is not a whole number of at most 18 digits.

    Examples:
        >>> whole_number("12"), whole_number("1_2"), whole_number("²"), whole_number("9" * 5000)
        (12, None, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None


def finite_number(text: str) -> float | None:
    """Return the finite decimal number that a text holds; None for any other text, such as `nan`, `inf` and `1_1`.

    Examples:
        >>> finite_number("1.5e3"), finite_number(" 1"), finite_number("1_1"), finite_number("1e999")
        (1500.0, None, None, None)
    """
    if not _DECIMAL.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def count_text(count: int) -> str:
    """Format a count for an error: all digits below 10^15, else its order of magnitude."""
    if count < 10**15:
        return str(count)
    return "more than 10^18" if count == SATURATED else f"about 10^{math.log10(count):.0f}"


def table_size(shape: Iterable[int]) -> int:
    """Return the product of these sizes, or `SATURATED` if it is larger: a product of 10^6 sizes takes seconds."""
    size = 1
    for d in shape:
        size *= d
        if size >= SATURATED:
            return SATURATED
    return size
