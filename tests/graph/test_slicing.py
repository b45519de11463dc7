from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.generators import random_graph
from equifactor.graph import slicing
from equifactor.graph.slicing import slice_tables


@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_equals_numpy_indexing_factor_by_factor(seed: int, share: float) -> None:
    graph = random_graph(7, 10, arity=(0, 4), card=(1, 4), zeros=0.1, seed=seed)
    rng = np.random.default_rng(seed)
    observed = np.where(rng.random(7) < share, rng.integers(graph.card), -1)

    structure, log_phi = slice_tables(graph.structure, graph.log_phi, observed)

    assert structure.num_factors == graph.num_factors
    np.testing.assert_array_equal(structure.card, graph.card)
    for a in range(graph.num_factors):
        scope = graph.structure.scope(a)
        index = tuple(slice(None) if observed[i] < 0 else int(observed[i]) for i in scope)
        start, stop = structure.table_ptr[a : a + 2]
        np.testing.assert_array_equal(structure.scope(a), [i for i in scope if observed[i] < 0])
        np.testing.assert_array_equal(log_phi[start:stop].reshape(structure.shape(a)), graph.log_table(a)[index])


def test_no_factors() -> None:
    graph = random_graph(3, 0)
    structure, log_phi = slice_tables(graph.structure, graph.log_phi, np.array([0, -1, 1]))
    assert structure.num_factors == 0
    assert len(log_phi) == 0


def test_few_factors_of_a_large_model_are_sliced_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = random_graph(9, 40, arity=(1, 4), card=(1, 4), zeros=0.1, count=20, seed=3)
    for n, graph in enumerate(graphs):
        observed = np.full(graph.num_vars, -1)
        seen = [n % 9, (n + 4) % 9][: 1 + n % 2]
        observed[seen] = graph.card[seen] - 1
        want, tables = slice_tables(graph.structure, graph.log_phi, observed)
        monkeypatch.setattr(slicing, "_MOST_ENTRIES", 0)
        got, values = slice_tables(graph.structure, graph.log_phi, observed)
        monkeypatch.undo()
        assert got.same_as(want)
        np.testing.assert_array_equal(values, tables)
