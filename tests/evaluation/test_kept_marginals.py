"""Round trips of marginals through the text in a row."""

from __future__ import annotations

import numpy as np

from equifactor import FactorGraph, solve
from equifactor.evaluation.kept_marginals import pack, unpack
from equifactor.generators import random_graph


def test_every_digit_is_kept() -> None:
    graph = random_graph(30, 40, arity=(1, 3), card=(1, 4), zeros=0.1, seed=2).condition({3: 0})
    found = solve(graph, "MAR", "exact").marginals
    assert found is not None
    kept = unpack(pack(graph, found))
    assert kept.found is not None
    assert np.array_equal(kept.found.values, found.values)
    assert np.array_equal(kept.found.ptr, found.ptr)


def test_no_answer_and_no_variables() -> None:
    kept = unpack(pack(FactorGraph([2, 3], []), None))
    assert kept.found is None
    assert [v.tolist() for v in kept.uniform] == [[0.5, 0.5], [1 / 3] * 3]
    assert len(unpack(pack(FactorGraph([], []), None)).uniform) == 0
