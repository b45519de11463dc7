"""Structured factors as dense tables for files."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, ModelError, Parity, Potts
from equifactor.factors import dense_graph
from equifactor.factors.dense_graph import with_tables
from equifactor.graph import dense_rows


def test_what_the_format_knows_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_rows, "_BLOCK", 30)  # blocks of a factor or two
    factors = [([0, 1], Parity()), ([1, 2, 0], Clause()), ([2], [1, 2]), ([3, 4], Potts(0.5)), ([2, 1], Parity())]
    g = FactorGraph([2, 2, 2, 4, 4], factors, name="mixed").condition({})
    h = with_tables(g, "a file", keep=[Clause.number])
    assert h.structure.kinds.kind.tolist() == [0, Clause.number, 0, 0, 0]
    everything = with_tables(g, "a file")
    assert everything.structure.kinds is None
    assert everything.name == "mixed"
    for a in range(5):
        np.testing.assert_array_equal(everything.log_table(a), g.log_table(a))
    assert with_tables(everything, "a file") is everything
    assert with_tables(h, "a file", keep=[Clause.number]) is h


def test_too_many_entries_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_graph, "MAX_LOG2_ENTRIES", 4)
    g = FactorGraph([2] * 3, [(range(3), Parity())] * 3)
    with pytest.raises(
        ModelError, match=r"The 3 structured factors would need dense tables with 2\^4.6 entries in total. A file holds"
    ):
        with_tables(g, "a file")
