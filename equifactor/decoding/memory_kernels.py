# mypy: ignore-errors
"""The network of `learned_memory` for one bit of one lane, on the CPU."""

import numpy as np

from equifactor.decoding.learned_memory import FEATURES, HIGH, LOW, SLOPE, SOFT
from equifactor.kernels.fastmath import get
from equifactor.kernels.jit import inlined

_SOFT, _SLOPE, _LOW, _HIGH = np.float32(SOFT), np.float32(SLOPE), np.float32(LOW), np.float32(HIGH)
_ONE = np.float32(1.0)
_WIDE = len(FEATURES) + 2


@inlined
def chosen_memory(weights, seen, draw, leg):
    """Return gamma of a bit; `seen` holds its channel, posterior, effective prior and share of unmet checks."""
    channel, posterior, prior, unmet = seen
    side = np.float32(-1.0) if channel < 0 else _ONE
    a = abs(channel) / (_SOFT + abs(channel))
    b = side * posterior / (_SOFT + abs(posterior))
    c = side * prior / (_SOFT + abs(prior))
    d, g = unmet, _ONE / np.float32(leg)
    e = draw * g
    flat = weights.ravel()
    rows = len(weights) - 1
    gamma = _line(flat, rows * _WIDE, a, b, c, d, e, draw, g)
    for h in range(rows):
        hidden = _line(flat, h * _WIDE, a, b, c, d, e, draw, g)
        gamma += get(flat, h * _WIDE + _WIDE - 1) * (hidden if hidden > 0 else _SLOPE * hidden)
    return min(max(gamma, _LOW), _HIGH)


@inlined
def _line(flat, at, a, b, c, d, e, f, g):
    """Return w . x + b for the row of weights at a place."""
    return (
        get(flat, at) * a + get(flat, at + 1) * b + get(flat, at + 2) * c + get(flat, at + 3) * d
        + get(flat, at + 4) * e + get(flat, at + 5) * f + get(flat, at + 6) * g + get(flat, at + 7)
    )  # fmt: skip
