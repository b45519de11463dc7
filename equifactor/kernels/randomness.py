"""Random numbers inside kernels: a generator per run, whose state [1] the caller owns (xorshift64*, see [Vigna16]).

Numba's own generator is one per thread: two solvers at work at once would disturb each other's draws.
"""

import numpy as np

from equifactor.kernels import inlined
from equifactor.kernels.fastmath import log_

_UNIT = 1.0 / 2**53
_TINY = 1e-300


@inlined
def random_unit(rng):
    """Uniform on [0, 1); advances the state."""
    s = rng[0]
    s ^= s >> np.uint64(12)
    s ^= s << np.uint64(25)
    s ^= s >> np.uint64(27)
    rng[0] = s
    return np.float64((s * np.uint64(2685821657736338717)) >> np.uint64(11)) * _UNIT


@inlined
def random_below(rng, n):
    """Uniform whole number from 0 to n - 1."""
    return np.int64(random_unit(rng) * n)


@inlined
def random_gumbel(rng):
    """Standard Gumbel noise: the argmax of logits with it added is a draw from their softmax."""
    return -log_(max(-log_(max(random_unit(rng), _TINY)), _TINY))
