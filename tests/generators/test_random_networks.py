"""Random Bayesian networks with evidence."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import solve
from equifactor.base.errors import OptionError
from equifactor.generators import random_network
from equifactor.learning.training.data_sources import read_source


@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_it_is_a_bayesian_network(zeros: float) -> None:
    g = random_network(15, parents=(0, 3), card=(2, 4), window=5, sharpness=3.0, zeros=zeros, observed=0.0, seed=3)
    assert solve(g, "PR", "exact").log_z == pytest.approx(0.0, abs=1e-12)
    for i in range(15):
        *parents, child = g.structure.scope(i)
        assert child == i
        assert all(i - 5 <= parent < i for parent in parents)
        assert len(set(parents)) == len(parents) <= 3
        assert np.exp(g.log_table(i)).sum(axis=-1) == pytest.approx(1.0)
    assert np.isneginf(g.log_phi).any() == (zeros > 0)


def test_every_parent_in_reach_is_drawn() -> None:
    found = {tuple(sorted(g.structure.scope(3))) for g in random_network(4, parents=2, count=60, observed=0.0)}
    assert found == {(0, 1, 3), (0, 2, 3), (1, 2, 3)}


def test_evidence_is_a_sample_and_leaves_the_network_as_it_is() -> None:
    plain, seen = (random_network(12, zeros=0.5, observed=share, seed=4) for share in (0.0, 0.5))
    assert len(seen.evidence) == 6
    assert plain.condition(seen.evidence) == seen
    assert np.isfinite(solve(random_network(12, zeros=0.8, observed=1.0, seed=4), "PR", "exact").log_z)


def test_the_frequency_of_evidence_is_its_probability() -> None:
    graphs = random_network(2, parents=1, observed=1.0, structures=1, sharpness=0.0, zeros=0.0, count=400)
    states = np.array([list(g.evidence.values()) for g in graphs])
    assert states.mean() == pytest.approx(0.5, abs=0.08)


def test_one_many_prefix_and_shared_structures() -> None:
    many = random_network(9, count=4, structures=2, seed=5)
    assert many[0] == random_network(9, structures=2, seed=5)
    assert many[:2] == random_network(9, count=2, structures=2, seed=5)
    scopes = [g.structure.scope_vars.tolist() for g in many]
    assert scopes[0] == scopes[2] != scopes[1] == scopes[3]


def test_names_with_a_dash_are_training_data() -> None:
    assert len(read_source("noisy-or(num_causes=4, num_effects=3, parents=2, n=3)").graphs) == 3
    assert len(read_source("network(num_vars=6, parents=1-2, n=2)").graphs) == 2


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"num_vars": 0}, "num_vars must be a whole number of at least 1, found 0"),
        ({"window": 0}, "window must be a whole number of at least 1, found 0"),
        ({"zeros": 1.5}, "zeros must be a number of at least 0 and at most 1, found 1.5"),
        ({"card": (3, 2)}, "card must be a pair (low, high) with low <= high"),
        ({"num_vars": 10**10}, "at most 2^30"),
    ],
)
def test_refuses(options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        random_network(**{"num_vars": 5, **options})
    assert fragment in str(error.value)
