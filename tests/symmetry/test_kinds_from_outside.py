"""A kind of factor that symmetry knows nothing about: it is compared by its dense tables, or raises an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.graph.kinds import KINDS, kind_class
from equifactor.symmetry import (
    Relabelling,
    canonical_form,
    equivariance_error,
    graph_hash,
    isomorphism,
    relabel,
)


@pytest.fixture
def weighted() -> Iterator[Any]:
    """Yield a registered kind whose log score is the sum of the weights of all variables that are not in state 0."""

    @ef.factors.register_kind
    @dataclass(frozen=True)
    class Weighted(ef.factors.StructuredFactor):
        weights: tuple[float, ...]

        kind = "weighted"

        def row(self, card: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
            return np.array(self.weights), np.zeros(0, np.int64)

        @classmethod
        def of_row(cls, card: tuple[int, ...], log_values: np.ndarray, words: np.ndarray) -> Any:
            return cls(tuple(log_values.tolist()))

        @classmethod
        def log_scores(cls, rows: Any, states: np.ndarray) -> np.ndarray:
            return np.add.reduceat((states > 0) * rows.log_values, rows.scope_ptr[:-1], axis=1)

    yield Weighted
    del KINDS["weighted"]
    kind_class.cache_clear()


def graph_of(weighted: Any, weights: tuple[float, ...]) -> ef.FactorGraph:
    card = [2, 3, 2, 2]
    factors = [([i], np.arange(1.0, d + 1)) for i, d in enumerate(card)]
    return ef.FactorGraph(card, [*factors, ([3, 0, 1], weighted(weights)), ([1, 2], np.ones((3, 2)))])


def test_it_is_relabelled_and_compared_by_its_tables(weighted: Any) -> None:
    graph = graph_of(weighted, (0.1, 0.2, 0.3))
    tables = [(graph.structure.scope(a).tolist(), graph.log_table(a)) for a in range(graph.num_factors)]
    dense = ef.FactorGraph(graph.card, tables, log=True)
    other = graph_of(weighted, (0.1, 0.3, 0.2))
    for seed in range(5):
        r = Relabelling.random(graph, seed=seed)
        moved = relabel(graph, r)
        x = np.random.default_rng(seed).integers(graph.card)
        assert moved.log_score(r.assignment(x)) == pytest.approx(graph.log_score(x))
        for same in (moved, dense, relabel(dense, r)):
            found = isomorphism(graph, same)
            assert found is not None
            if same is not moved:
                assert relabel(dense, found) == same
            assert graph_hash(graph) == graph_hash(same)
            assert canonical_form(graph) == canonical_form(same)
        assert isomorphism(other, moved) is None
    assert graph_hash(other) != graph_hash(graph)
    assert max(equivariance_error("brute", graph).values()) < 1e-9


def test_a_table_that_is_too_large_is_an_error(weighted: Any) -> None:
    graph = ef.FactorGraph([2] * 18, [(list(range(18)), weighted((0.5,) * 18))])
    words = r"Factor 0 is a weighted over 18 variables with a dense table of 2\^18 entries\. .* up to 2\^16"
    for compare in (graph_hash, canonical_form, lambda g: isomorphism(g, g)):
        with pytest.raises(ef.ModelError, match=words):
            compare(graph)
