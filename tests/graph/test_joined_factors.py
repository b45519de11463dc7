"""Joining factors keeps every score, and leaves one factor for each set of variables."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor.generators import ising_grid, random_graph
from equifactor.graph.joined_factors import join_factors


@pytest.mark.parametrize("seed", range(6))
def test_scores_stay(seed: int) -> None:
    graph = random_graph(6, 20, arity=(0, 3), card=(1, 3), zeros=0.2 * (seed % 2), seed=seed)
    joined = join_factors(graph)
    every = np.indices(tuple(graph.card)).reshape(6, -1).T
    np.testing.assert_allclose(joined.log_score(every), graph.log_score(every), rtol=1e-12, atol=1e-12)
    scopes = [tuple(joined.structure.scope(a)) for a in range(joined.num_factors)]
    assert len(set(scopes)) == len(scopes)
    assert all(list(scope) == sorted(scope) for scope in scopes)
    inner = {i for scope in scopes if len(scope) > 1 for i in scope}
    assert not any(len(scope) == 1 and scope[0] in inner for scope in scopes)


def test_fields_of_a_grid_go_into_its_couplings() -> None:
    assert join_factors(ising_grid(3, 3, seed=1)).num_factors == 12


def test_graphs_without_factors_or_with_constants_alone() -> None:
    assert join_factors(ef.FactorGraph([2, 3])).num_factors == 0
    constant = join_factors(ef.FactorGraph([2], [([], 2.0), ([], 3.0)]))
    assert constant.num_factors == 1
    assert constant.log_score(np.zeros(1, int)) == pytest.approx(np.log(6.0))
