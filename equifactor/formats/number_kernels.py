# mypy: ignore-errors
"""Kernels that convert text to numbers, byte by byte.

A decimal `m * 10^e` is converted exactly, bit for bit as Python's `float` does. If m < 2^53 and |e| <= 22, both
factors are exact doubles and one rounding suffices. Otherwise the kernel computes a product of two double-doubles
and accepts it if both ends of its error interval round to the same double. Digits after the 18th only widen that
interval. All other tokens (too close to call, huge exponents, `inf`, not a number) are *odd tokens*, which are left to
Python. The kernel records where they are.

text [N] bytes as uint8; pos, start and stop are offsets into it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from equifactor.kernels.jit import kernel

# The status of a scan: everything was read, the list of odd tokens is full, or a token is wrong.
DONE, FULL, BAD = 0, 1, 2

_SATURATED = 2**62  # The value of every larger integer: larger than any count that fits into memory.
_MAX_DIGITS = 18  # The number of decimal digits that always fit into int64.
# The largest power of ten at which no term of the double-double product can overflow or underflow, with a wide margin.
_MAX_POWER = 250
_EXACT = np.array([10.0**k for k in range(23)])  # The powers of ten that are exact doubles.
# The powers of ten as double-doubles: the nearest double, and the rest.
_HIGH = np.array([float(Fraction(10) ** k) for k in range(-_MAX_POWER, _MAX_POWER + 1)])
_LOW = np.array(
    [float(Fraction(10) ** k - Fraction(_HIGH[k + _MAX_POWER])) for k in range(-_MAX_POWER, _MAX_POWER + 1)]
)
_SPLIT = 2.0**27 + 1.0  # Dekker's factor, which splits a double of 53 bits into two halves.
_ERROR = 2.0**-98  # A generous bound on the relative error of the double-double product.


@kernel
def _is_space(c):
    return c == 32 or 9 <= c <= 13


@kernel
def _skip_space(text, pos):
    while pos < len(text) and _is_space(text[pos]):
        pos += 1
    return pos


@kernel
def _skip_token(text, pos):
    while pos < len(text) and not _is_space(text[pos]):
        pos += 1
    return pos


@kernel
def _integer(text, pos):
    """Read the integer that starts at pos: (ok, value, end of the token)."""
    negative = False
    if pos < len(text) and (text[pos] == 45 or text[pos] == 43):
        negative = text[pos] == 45
        pos += 1
    first = pos
    value = 0
    while pos < len(text) and 48 <= text[pos] <= 57:
        value = min(value * 10 + (text[pos] - 48), _SATURATED) if value < _SATURATED // 10 else _SATURATED
        pos += 1
    ok = pos > first and (pos == len(text) or _is_space(text[pos]))
    return ok, -value if negative else value, pos


@kernel
def _times_power(m, power):
    """Return (whether the rounding is certain, the rounded product m * 10^power), for 0 < m <= 10^18."""
    if m < 2**53 and -22 <= power <= 22:
        return True, m * _EXACT[power] if power >= 0 else m / _EXACT[-power]
    if not -_MAX_POWER <= power <= _MAX_POWER:
        return False, 0.0
    m_high = float(m)
    m_low = float(m - np.int64(m_high))
    high, low = _HIGH[power + _MAX_POWER], _LOW[power + _MAX_POWER]
    product = m_high * high
    # Dekker: halves of 26 bits multiply without rounding, which yields the rounding error of the product.
    t = _SPLIT * m_high
    a = t - (t - m_high)
    b = m_high - a
    t = _SPLIT * high
    c = t - (t - high)
    d = high - c
    rest = ((a * c - product) + a * d + b * c) + b * d
    rest += m_high * low + m_low * high
    error = product * _ERROR
    value = product + (rest - error)
    return value == product + (rest + error), value


@kernel
def _decimal(text, pos):
    """Read the decimal number that starts at pos: (ok, value, end). A token that is not ok is left to Python."""
    size = len(text)
    negative = False
    if pos < size and (text[pos] == 45 or text[pos] == 43):
        negative = text[pos] == 45
        pos += 1
    m = 0  # the first digits as an integer; the value is m * 10^power, or up to (m + 1) * 10^power if digits were cut
    digits = 0
    power = 0
    seen, cut, after_point = False, False, False
    while pos < size:
        c = text[pos]
        if 48 <= c <= 57:
            if digits < _MAX_DIGITS:
                m = m * 10 + (c - 48)
                digits += m > 0
                power -= after_point
            else:
                cut |= c != 48
                power += not after_point
            seen = True
        elif c == 46 and not after_point:
            after_point = True
        else:
            break
        pos += 1
    if seen and pos < size and (text[pos] == 101 or text[pos] == 69):
        ok, exponent, pos = _integer(text, pos + 1)
        if not ok or not -9999 <= exponent <= 9999:
            return False, 0.0, pos
        power += exponent
    if not seen or (pos < size and not _is_space(text[pos])):
        return False, 0.0, pos
    sure, value = (True, 0.0) if m == 0 else _times_power(m, power)
    if cut:
        sure_above, above = _times_power(m + 1, power)
        sure = sure and sure_above and value == above
    return sure, -value if negative else value, pos


@kernel
def scan_integers(text, pos, out):
    """Read len(out) integers: (status, end, number of integers read)."""
    for n in range(len(out)):
        ok, value, end = _integer(text, _skip_space(text, pos))
        if not ok:
            return BAD, pos, n
        out[n] = value
        pos = end
    return DONE, pos, len(out)


@kernel
def scan_lengths(text, pos, ptr):
    """Read only the lengths of rows `k v1 .. vk`: ptr [R+1] becomes the running sum of the lengths.

    Returns (status, end, row, column) with the row and column of the wrong token; column -1 is the length itself.
    """
    ptr[0] = 0
    for row in range(len(ptr) - 1):
        ok, length, end = _integer(text, _skip_space(text, pos))
        if not ok or length < 0:
            return BAD, pos, row, -1
        ptr[row + 1] = ptr[row] + length
        pos = end
        for column in range(length):
            pos = _skip_space(text, pos)
            if pos == len(text):
                return BAD, pos, row, column
            pos = _skip_token(text, pos)
    return DONE, pos, len(ptr) - 1, -1


@kernel
def scan_rows(text, pos, ptr, values):
    """Read the values of rows whose lengths are known: (status, end, row, column)."""
    for row in range(len(ptr) - 1):
        pos = _skip_token(text, _skip_space(text, pos))
        for k in range(ptr[row], ptr[row + 1]):
            ok, value, end = _integer(text, _skip_space(text, pos))
            if not ok:
                return BAD, pos, row, k - ptr[row]
            values[k] = value
            pos = end
    return DONE, pos, len(ptr) - 1, -1


@kernel
def scan_tables(text, pos, row, column, ptr, out, odd):
    """Read tables `n x1 .. xn` from (row, column) on. Column -1 is the count n, which must agree with ptr.

    Tokens that need Python go to odd [K, 3] as (entry, start, stop).
    Returns (status, end, row, column, number of odd tokens).
    """
    num_odd = 0
    while row < len(ptr) - 1:
        size = ptr[row + 1] - ptr[row]
        if column < 0:
            ok, announced, end = _integer(text, _skip_space(text, pos))
            if not ok or announced != size:
                return BAD, pos, row, column, num_odd
            pos = end
            column = 0
        while column < size:
            start = _skip_space(text, pos)
            if start == len(text):
                return BAD, pos, row, column, num_odd
            if start + 1 < len(text) and 48 <= text[start] <= 57 and _is_space(text[start + 1]):
                ok, value, end = True, float(text[start] - 48), start + 1  # tables of 0 and 1 are common
            else:
                ok, value, end = _decimal(text, start)
            if ok:
                out[ptr[row] + column] = value
            else:
                if num_odd == len(odd):
                    return FULL, pos, row, column, num_odd
                end = _skip_token(text, start)
                odd[num_odd, 0] = ptr[row] + column
                odd[num_odd, 1] = start
                odd[num_odd, 2] = end
                num_odd += 1
            pos = end
            column += 1
        row += 1
        column = -1
    return DONE, pos, row, column, num_odd
