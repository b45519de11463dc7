"""The result of lowering factors: small tables, few auxiliary variables."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from equifactor import AtMost, Clause, Count, FactorGraph, ModelError, NoisyOr, Parity, Potts, SparseTable, solve
from equifactor.factors import count
from equifactor.factors.lowering import LoweredBuilder
from equifactor.factors.sparse import sparse_boxes
from equifactor.solvers import lower


def test_a_chain_of_tables_for_long_factors() -> None:
    for factor in (Parity(), Clause(), AtMost(1), NoisyOr(0.1, [0.5] * 39)):
        lowered = lower(FactorGraph([2] * 40, [(range(40), factor)]))
        assert lowered.num_auxiliary == 39
        assert lowered.graph.structure.num_entries < 40 * 3 * 2 * 3
        assert lowered.graph.structure.arity.max() == 3


def test_sparse_tables_become_tables_where_these_are_no_larger() -> None:
    pair = SparseTable(np.column_stack([np.arange(50)] * 2), np.zeros(50))
    assert lower(FactorGraph([50, 50], [([0, 1], pair)])).num_auxiliary == 0
    full = SparseTable(np.indices([3] * 5).reshape(5, -1).T[:100], np.arange(100.0))
    assert lower(FactorGraph([3] * 5, [(range(5), full)])).num_auxiliary == 0
    few = SparseTable(np.arange(20)[:, None] * np.ones(5, int), np.zeros(20))
    lowered = lower(FactorGraph([20] * 5, [(range(5), few)]))
    assert lowered.num_auxiliary == 1
    assert lowered.graph.structure.num_entries == 20 + 5 * 20 * 20


def test_answers_are_over_the_original_variables() -> None:
    g = FactorGraph({f"x{i}": 2 for i in range(30)}, [(range(30), Parity(odd=True)), (range(20), AtMost(1))])
    found = solve(g, "MAR", "exact")
    assert len(found.marginals) == 30
    assert len(solve(g, "MAP", "exact").assignment) == 30
    assert lower(g).graph.structure.variable_names[:30] == g.structure.variable_names


def test_impossible_evidence_is_found_through_tables() -> None:
    g = FactorGraph([2] * 30, [(range(30), AtMost(1)), ([5, 6], [[1, 1], [1, 1]])]).condition({3: 1, 4: 1})
    for task in ("PR", "MAR", "MAP"):
        assert solve(g, task, "exact").status == "zero-probability"


def test_what_is_too_large_is_refused_before_it_is_made() -> None:
    k = 20_000
    listed = np.arange(3000)[:, None] * np.ones(100, int)
    graphs = [
        FactorGraph([2] * k, [(range(k), Count(np.arange(k + 1.0)))]),
        FactorGraph([10**5] * 2, [([0, 1], Potts(1.0))]),
        FactorGraph([3000] * 100, [(range(100), SparseTable(listed, np.zeros(3000)))]),
    ]
    for graph, size in zip(graphs, ("42.3", "33.2", "29.7"), strict=True):
        tracemalloc.start()
        with pytest.raises(
            ModelError, match=rf"at least 2\^{size} entries, and at most 2\^28 are allowed. Choose a solver"
        ):
            lower(graph)
        assert tracemalloc.get_traced_memory()[1] < 2**26
        tracemalloc.stop()


def test_sizes_are_foretold_to_the_entry() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        k = int(rng.integers(7, 20))
        values = np.where(np.arange(k + 1) < rng.integers(0, k + 2), rng.normal(size=k + 1), 1.0)
        graph = FactorGraph([2] * k, [(range(k), Count(values, rng.integers(0, 2, k)))])
        rows = graph.structure.rows(graph.log_phi)
        foretold = count._chain_entries(rows.arity, count._caps(rows)).sum()
        assert lower(graph).graph.structure.num_entries == foretold


def test_boxes_hold_what_is_not_listed() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        cards = rng.integers(1, 4, int(rng.integers(1, 6)))
        listed = np.unique(rng.integers(0, cards, (int(rng.integers(0, 12)), len(cards))), axis=0)
        boxes = sparse_boxes._boxes(LoweredBuilder(2**20), listed, cards)
        states = np.indices(cards).reshape(len(cards), -1).T
        inside = np.all([allowed[:, states[:, j]] for j, allowed in enumerate(boxes)], axis=0).sum(axis=0)
        is_listed = (states[:, None] == listed).all(axis=2).any(axis=1)
        np.testing.assert_array_equal(inside, ~is_listed)


def test_many_configurations_take_no_loop_over_boxes(lines_run) -> None:
    rng = np.random.default_rng(0)
    listed = np.unique(rng.integers(0, 4, (20_000, 10)), axis=0)
    graph = FactorGraph([4] * 10, [(range(10), SparseTable(listed, rng.normal(size=len(listed)), 0.5))])
    rows = graph.structure.rows(graph.log_phi)
    assert lines_run(lambda: sparse_boxes.add_selectors(LoweredBuilder(2**28), rows)) < len(listed)
