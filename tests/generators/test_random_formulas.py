"""Random satisfiability problems."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import Clause, solve
from equifactor.base.errors import OptionError
from equifactor.generators import random_ksat


def test_clauses_of_k_different_variables() -> None:
    g = random_ksat(50, 4.2, k=5, seed=3)
    assert (g.num_factors, g.name) == (210, "5sat-50-210-seed3-0")
    assert set(g.structure.arity.tolist()) == {5}
    assert g.structure.kinds.kind.tolist() == [Clause.number] * 210
    share = g.structure.kinds.words.mean()
    assert 0.4 < share < 0.6
    assert random_ksat(50, num_clauses=7).num_factors == 7
    assert random_ksat(50, 0.0).num_factors == 0


def test_ln_z_counts_solutions_and_weights_count_violations() -> None:
    hard = random_ksat(8, 3.0, seed=1)
    soft = random_ksat(8, 3.0, weight=2.0, seed=1)
    states = np.indices([2] * 8).reshape(8, -1).T
    violated = -soft.log_score(states) / 2.0
    np.testing.assert_allclose(violated, np.round(violated))
    np.testing.assert_array_equal(np.isfinite(hard.log_score(states)), violated == 0)
    assert np.exp(solve(hard, "PR", "exact").log_z) == pytest.approx(np.count_nonzero(violated == 0))


def test_one_many_and_prefix() -> None:
    many = random_ksat(20, 2.0, count=3, seed=5)
    assert many[0] == random_ksat(20, 2.0, seed=5)
    assert many[:2] == random_ksat(20, 2.0, count=2, seed=5)
    assert many[0] != many[1]


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"num_vars": 1}, "num_vars must be a whole number of at least 2, found 1"),
        ({"k": 1}, "k must be a whole number of at least 2, found 1"),
        ({"k": 9}, "k must be at most 5, the number of variables; found 9"),
        ({"ratio": -1.0}, "ratio must be a number of at least 0, found -1.0"),
        ({"num_clauses": 1.5}, "num_clauses must be a whole number of at least 0, found 1.5"),
        ({"weight": float("nan")}, "weight must be a number of at least 0, found nan"),
        ({"num_clauses": 10**10}, "at most 2^30"),
    ],
)
def test_refuses(options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        random_ksat(**{"num_vars": 5, **options})
    assert fragment in str(error.value)
