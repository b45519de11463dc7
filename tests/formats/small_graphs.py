"""Random small graphs of every shape, for round trips through a format."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from equifactor import FactorGraph


@st.composite
def small_graphs(draw: Any, value: st.SearchStrategy[float], log: bool = False) -> FactorGraph:
    """Draw up to four variables with one to three states, and up to four factors with entries from `value`."""
    card = draw(st.lists(st.integers(1, 3), max_size=4))
    factors = []
    for _ in range(draw(st.integers(0, 4))):
        scope = draw(st.permutations(range(len(card))))[: draw(st.integers(0, 3))]
        size = int(np.prod([card[i] for i in scope]))
        factors.append((scope, draw(st.lists(value, min_size=size, max_size=size))))
    return FactorGraph(card, factors, log=log)
