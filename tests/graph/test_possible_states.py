"""The search for states that zeros exclude."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.generators import random_graph
from equifactor.graph.possible_states import possible_states


@pytest.mark.parametrize("seed", range(10))
def test_nothing_without_support_is_left(seed: int) -> None:
    graph = random_graph(60, 90, card=(2, 4), arity=(1, 3), zeros=0.3, seed=seed)
    left = [set(range(d)) for d in graph.card]
    tables = [(graph.structure.scope(a).tolist(), np.argwhere(np.isfinite(graph.log_table(a)))) for a in range(90)]
    before = -1
    while before != (before := sum(map(len, left))):  # by plain loops, until nothing changes
        for scope, entries in tables:
            allowed = [e for e in entries.tolist() if all(x in left[i] for i, x in zip(scope, e, strict=True))]
            for j, i in enumerate(scope):
                left[i] &= {e[j] for e in allowed}
    found = possible_states(graph.structure, graph.log_phi)
    if not all(left):
        assert found is None
        return
    assert found is not None
    parts = np.split(found, graph.structure.state_ptr[1:-1])
    assert [set(np.flatnonzero(part).tolist()) for part in parts] == left
