"""Factors over the same variables together exclude states that no single factor excludes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import equifactor as ef
from equifactor.graph.equal_scopes import zeros_of_equal_scopes
from equifactor.graph.possible_states import possible_states


@pytest.mark.parametrize("seed", range(40))
def test_joint_zeros_are_those_of_the_product(seed: int) -> None:
    rng = np.random.default_rng(seed)
    card = rng.integers(2, 4, 4).tolist()
    scopes = [rng.permutation(4)[: rng.integers(2, 4)].tolist() for _ in range(8)]
    graph = ef.FactorGraph(card, [(s, rng.integers(0, 2, [card[i] for i in s])) for s in scopes])
    zero = np.isneginf(graph.log_phi)
    alone, joint = zeros_of_equal_scopes(graph.structure, np.arange(8), zero)
    sets = [tuple(sorted(s)) for s in scopes]
    assert sorted(alone.tolist()) == [a for a, s in enumerate(sets) if sets.count(s) == 1]
    found = {tuple(scope): table for rows, zeros in joint for scope, table in zip(rows.tolist(), zeros, strict=True)}
    assert set(found) == {s for s in sets if sets.count(s) > 1}
    for scope, table in found.items():
        for states in itertools.product(*(range(card[i]) for i in scope)):
            at = dict(zip(scope, states, strict=True))
            is_zero = any(
                np.isneginf(graph.log_table(a)[tuple(at[i] for i in scopes[a])]) for a in range(8) if sets[a] == scope
            )
            assert table[states] == is_zero


def test_a_contradiction_that_no_factor_shows_alone() -> None:
    equal, other = np.eye(3), [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    graph = ef.FactorGraph([3, 3], [([0, 1], equal), ([1, 0], other)])
    assert possible_states(graph.structure, graph.log_phi) is None
    assert ef.solve(graph, "MAR", "bp").status == "zero-probability"


@pytest.mark.parametrize("solver", ["bp", "bp(damping=0.5)", "bp(schedule=residual)", "gibbs", "meanfield", "trw"])
def test_one_solution_tied_by_equalities(solver: str) -> None:
    same = np.eye(3)
    tables = [
        ([2, 0], same), ([1, 0], same), ([1, 2], same),
        ([1, 2], [[1, 0, 1], [1, 0, 1], [1, 1, 0]]),
        ([2, 1], [[1, 1, 1], [1, 1, 0], [0, 1, 1]]),
        ([0, 1], [[1, 0, 0], [0, 1, 1], [0, 1, 1]]),
    ]  # fmt: skip
    result = ef.solve(ef.FactorGraph([3] * 3, tables), "MAR", solver)
    assert result.marginals is not None
    np.testing.assert_allclose(result.marginals.values, [1, 0, 0] * 3)
