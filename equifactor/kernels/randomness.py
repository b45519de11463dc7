# mypy: ignore-errors
"""Random numbers inside kernels: a generator per run, whose state [1] the caller owns (xorshift64*, see [Vigna16]).

Numba has one generator per thread, so two solvers that take turns in a thread would change each other's draws.
"""

import numpy as np

from equifactor.kernels.jit import inlined

_UNIT = 1.0 / 2**53  # The distance of neighbouring numbers that `random_unit` returns.
_BELL = 3.0**0.5 / 65536.0  # a sum of four uniforms on [0, 1) has variance 1/3


@inlined
def random_bits(rng):
    """Return 64 random bits and advance the state."""
    s = rng[0]
    s ^= s >> np.uint64(12)
    s ^= s << np.uint64(25)
    s ^= s >> np.uint64(27)
    rng[0] = s
    return s * np.uint64(2685821657736338717)


@inlined
def random_unit(rng):
    """Return a uniform number in [0, 1)."""
    return np.float64(np.int64(random_bits(rng) >> np.uint64(11))) * _UNIT


@inlined
def random_below(rng, n):
    """Return a uniform whole number from 0 to n - 1."""
    return np.int64(random_unit(rng) * n)


@inlined
def random_bell(rng):
    """Return noise of mean 0 and variance 1 that is nearly normal: four 16-bit parts of one draw, summed."""
    s = random_bits(rng)
    low = np.uint64(0xFFFF)
    parts = (s & low) + ((s >> np.uint64(16)) & low) + ((s >> np.uint64(32)) & low) + (s >> np.uint64(48))
    return (np.float64(np.int64(parts)) - 131070.0) * _BELL
