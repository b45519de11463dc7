"""Networks of causes and effects."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, NoisyOr, solve
from equifactor.base.errors import OptionError
from equifactor.generators import noisy_or_network


def test_it_is_a_bayesian_network() -> None:
    g = noisy_or_network(6, 5, parents=(1, 4), leak=0.05, seed=2)
    assert solve(g, "PR", "exact").log_z == pytest.approx(0.0, abs=1e-12)
    for e in range(5):
        scope, factor = g.structure.scope(6 + e), g.factor(6 + e)
        assert isinstance(factor, NoisyOr)
        assert scope[0] == 6 + e
        assert all(i < 6 for i in scope[1:])
        assert factor.leak == pytest.approx(0.05)
        assert 1 <= len(factor.inhibitors) <= 4


def test_evidence_is_a_sample_and_leaves_the_network_as_it_is() -> None:
    plain, seen = (noisy_or_network(8, 10, observed=share, seed=4) for share in (0.0, 0.5))
    assert len(seen.evidence) == 5
    assert all(i >= 8 for i in seen.evidence)
    assert plain.condition(seen.evidence) == seen
    assert -30 < solve(seen, "PR", "exact").log_z < 0
    everything = noisy_or_network(8, 10, observed=1.0, leak=0.0, seed=4)
    assert np.isfinite(solve(everything, "PR", "exact").log_z)


def test_one_many_and_prefix() -> None:
    many = noisy_or_network(5, 4, parents=2, count=3, seed=5)
    assert many[0] == noisy_or_network(5, 4, parents=2, seed=5)
    assert many[:2] == noisy_or_network(5, 4, parents=2, count=2, seed=5)
    assert isinstance(noisy_or_network(5, 0, parents=2), FactorGraph)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"num_causes": 0}, "num_causes must be a whole number of at least 1, found 0"),
        ({"parents": 6}, "parents must be at most 5, the number of causes; found 6"),
        ({"parents": (3, 2)}, "parents must be a pair (low, high) with low <= high"),
        ({"prior": 0.6}, "prior must be a number of at least 0 and at most 0.5, found 0.6"),
        ({"leak": -0.1}, "leak must be a number of at least 0 and at most 1, found -0.1"),
        ({"observed": 2}, "observed must be a number of at least 0 and at most 1, found 2"),
        ({"num_effects": 10**9}, "at most 2^30"),
    ],
)
def test_refuses(options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        noisy_or_network(**{"num_causes": 5, "num_effects": 3, "parents": 2, **options})
    assert fragment in str(error.value)
