"""The fast path of belief propagation on binary pairs."""

import numpy as np
import pytest

from equifactor.generators import ising_grid
from equifactor.solvers import compile
from equifactor.solvers.messages import binary_engine
from equifactor.solvers.messages.binary_engine import BinaryEngine
from equifactor.solvers.messages.bp_engine import BpSettings


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_threads_find_the_same_bits(semiring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_engine, "SHARED_FACTORS", 1)
    flat = compile(ising_grid(24, 24, seed=1, count=2))  # more than two chunks of factors for three threads
    settings = BpSettings(semiring, "parallel", 0.3, 1e-6, 0)
    one, three = BinaryEngine(flat, settings), BinaryEngine(flat, settings, threads=3)
    for count in (1, 7):
        np.testing.assert_array_equal(one.sweep(count), three.sweep(count))
        np.testing.assert_array_equal(one.messages(), three.messages())
