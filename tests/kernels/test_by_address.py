"""Kernels that are called by their address."""

from __future__ import annotations

import numpy as np
import pytest


def test_a_call_by_address_and_one_without() -> None:
    """A missing address raises an exception; a jump to it would end the whole program."""
    from numba import njit, types

    from equifactor.kernels.by_address import Separate

    twice = Separate(njit(lambda x, n: x[n] * 2.0), types.float64(types.Array(types.float64, 1, "C"), types.int64))
    call = twice.call
    caller = njit(lambda address, x: call(address, (x, 1)))
    assert caller(twice.address(), np.arange(3.0)) == 2.0
    with pytest.raises(RuntimeError, match="without its address"):
        caller(0, np.arange(3.0))
