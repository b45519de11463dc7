# mypy: ignore-errors
"""Arithmetic on `LANES` neighbouring doubles at once, for kernels that work on that many rows side by side.

Every function reads or writes the lanes `array[i : i + LANES]` of one-dimensional, contiguous arrays of doubles.
"""

from equifactor.kernels.jit import inlined
from equifactor.kernels.vectors import vector_operations

LANES = 16  # Rows of evidence that are computed side by side: two vectors of eight doubles, or four of four.
_OPS = vector_operations("float64", LANES)
_load, _store, _filled, _dot = _OPS.load, _OPS.store, _OPS.filled, _OPS.dot
_add, _multiply, _divide = _OPS.add, _OPS.multiply, _OPS.divide
_minimum, _maximum, _where_positive = _OPS.minimum, _OPS.maximum, _OPS.where_positive


@inlined
def fill_lanes(to, i, value):
    """Set all of `to` to one number."""
    _store(to, i, _filled(value))


@inlined
def scale_lanes(to, i, given, j, factor):
    """Set `to` to `given` times one number."""
    _store(to, i, _multiply(_load(given, j), _filled(factor)))


@inlined
def multiply_lanes(to, i, given, j):
    """Multiply `to` by `given`."""
    _store(to, i, _multiply(_load(to, i), _load(given, j)))


@inlined
def add_lanes(to, i, given, j):
    """Add `given` to `to`."""
    _store(to, i, _add(_load(to, i), _load(given, j)))


@inlined
def widen_lanes(top, i, low, k, given, j):
    """Raise `top` to `given` where that is larger, and lower `low` to `given` where that is smaller and positive."""
    value, least = _load(given, j), _load(low, k)
    _store(top, i, _maximum(value, _load(top, i)))
    _store(low, k, _where_positive(value, _minimum(value, least), least))


@inlined
def share_lanes(to, i, given, j):
    """Set `to` to `given` divided by `to`, or by 1 where `to` is zero."""
    total = _load(to, i)
    _store(to, i, _divide(_load(given, j), _where_positive(total, total, _filled(1.0))))


@inlined
def dot_lanes(a, i, b, j):
    """Return the sum of a b over the lanes."""
    return _dot(_load(a, i), _load(b, j))
