"""Types that annotations share; the shapes of arrays are in comments and docstrings."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

Semiring = Literal["sum", "max"]  # whether tables are summed over or maximised
