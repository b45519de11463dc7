"""What the residual schedule keeps besides messages: who hears of a change, and who is next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.pointers import ptr_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.typing import FloatArray, IntArray

    Queue = tuple[IntArray, IntArray, FloatArray, IntArray, IntArray]


def new_queue(num_vars: int, num_factors: int, var_of_edge: NDArray[np.integer], factor_of_edge: IntArray) -> Queue:
    """Of the factors on the edges given, each with priority 0; other factors never come to the top.

    Returns:
        around_ptr [V+1] and around: factor numbers around each variable; key, item, place: see `kernels.queue`.
    """
    degree = np.bincount(var_of_edge, minlength=num_vars)
    around = factor_of_edge[np.argsort(var_of_edge, kind="stable")]
    waits = np.zeros(num_factors, bool)
    waits[factor_of_edge] = True
    item = np.argsort(~waits, kind="stable")
    place = np.empty(num_factors, np.int64)
    place[item] = np.arange(num_factors)
    key = np.full(num_factors + 3, -np.inf)
    key[: np.count_nonzero(waits)] = 0.0
    return ptr_of(degree), around, key, item, place
