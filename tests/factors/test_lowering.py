"""What lowering makes of factors: small tables, few auxiliary variables."""

from __future__ import annotations

import numpy as np

from equifactor import AtMost, Clause, FactorGraph, NoisyOr, Parity, SparseTable, lower, solve


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
