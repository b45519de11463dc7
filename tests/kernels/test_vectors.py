"""The vector operations: every width and float type computes what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from equifactor.kernels.vectors import vector_operations


@pytest.mark.parametrize(("element", "width"), [("float64", 4), ("float32", 16), ("float64", 8)])
def test_operations(element: str, width: int) -> None:
    ops = vector_operations(element, width)
    assert ops is vector_operations(element, width)
    load, store, filled, dot = ops.load, ops.store, ops.filled, ops.dot
    names = ("add", "subtract", "multiply", "divide", "minimum", "maximum", "flip")
    add, subtract, multiply, divide, minimum, maximum, flip = (getattr(ops, name) for name in names)
    size, where_positive, signs, of_signs = ops.size, ops.where_positive, ops.signs, ops.of_signs

    @njit
    def run(a, b, out, one):
        x, y = load(a, 1), load(b, 0)
        store(out[0], 0, add(x, y))
        store(out[1], 0, subtract(x, y))
        store(out[2], 0, multiply(x, y))
        store(out[3], 0, divide(x, y))
        store(out[4], 0, minimum(x, y))
        store(out[5], 0, maximum(x, y))
        store(out[6], 0, flip(x, y))
        store(out[7], 0, size(x))
        store(out[8], 0, where_positive(x, y, filled(one)))
        store(out[9], 0, flip(filled(one), of_signs(signs(x))))
        return dot(x, y)

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, width + 1)).astype(element)
    out = np.zeros((10, width), element)
    total = run(a, b, out, out.dtype.type(1))
    x, y = a[1:], b[:width]
    flipped = x * np.where(y < 0, -1, 1)
    wanted = [x + y, x - y, x * y, x / y, np.minimum(x, y), np.maximum(x, y), flipped, np.abs(x)]
    wanted += [np.where(x > 0, y, 1), np.where(x < 0, -1, 1)]
    np.testing.assert_allclose(out, np.array(wanted, element), rtol=1e-6)
    assert total == pytest.approx(float(x @ y), rel=1e-4)
