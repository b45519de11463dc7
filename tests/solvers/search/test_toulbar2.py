"""The adapter of toulbar2; most of it needs the package."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from equifactor import FactorGraph, OptionError, Status, solve
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.search.toulbar2 import Costs, Toulbar2


def needs_package(test):
    skip = pytest.mark.skipif(find_spec("pytoulbar2") is None, reason="pytoulbar2 is not installed")
    return pytest.mark.peers(skip(test))


def test_without_the_package_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pytoulbar2", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "equifactor[toulbar2]" in (Toulbar2.missing() or "")
    with pytest.raises(OptionError, match=r"equifactor\[toulbar2\]"):
        solve(ising_grid(2, 2), "MAP", "toulbar2")


@pytest.mark.parametrize("magnitude", [1e-6, 1.0, 1e6])
def test_costs_keep_the_scores(magnitude: float):
    rng = np.random.default_rng(1)
    graph = FactorGraph([3, 2], [([0, 1], magnitude * rng.normal(size=(3, 2))), ([], 2.0)], log=True)
    costs = Costs.of(graph)
    scores = [costs.score(c) for c in costs.tables[0]]
    want = [graph.log_score([x, y]) for x in range(3) for y in range(2)]
    np.testing.assert_allclose(scores, want, atol=2 * costs.slack + 1e-12, rtol=1e-12)
    assert costs.slack <= 1e-8 * max(1.0, magnitude)


@needs_package
@pytest.mark.parametrize("seed", range(10))
def test_against_brute_force(seed: int):
    graph = random_graph(8, 14, arity=(1, 4), card=(2, 4), zeros=0.2, seed=seed)
    got, want = solve(graph, "MAP", "toulbar2"), solve(graph, "MAP", "brute")
    assert got.status is want.status
    if want.status is Status.OPTIMAL:
        assert got.log_score == pytest.approx(want.log_score, abs=1e-9)
        assert got.upper_bound >= got.lower_bound
        assert got.gap < 1e-7


@needs_package
def test_against_elimination_on_a_grid():
    graph = ising_grid(10, 10, seed=3)
    assert solve(graph, "MAP", "toulbar2").log_score == pytest.approx(solve(graph, "MAP", "exact").log_score)


@needs_package
def test_the_deadline_gives_the_best_so_far_and_bounds():
    graph = ising_grid(40, 40, wrap=True, seed=1)
    result = solve(graph, "MAP", "toulbar2", time_limit=1.0)
    assert result.status is Status.TIME_LIMIT
    assert result.upper_bound > graph.log_score(np.zeros(graph.num_vars, int))
    if result.lower_bound is not None:  # On a busy machine, toulbar2 may find no assignment within one second.
        assert result.upper_bound > result.lower_bound
    assert solve(ising_grid(3, 3), "MAP", "toulbar2").status is Status.OPTIMAL  # nothing is left over


@needs_package
def test_proven_answers_have_tight_bounds_after_a_search_that_was_stopped():
    solve(ising_grid(40, 40, wrap=True, seed=1), "MAP", "toulbar2", time_limit=0.02)
    for seed in (0, 2, 5, 6):
        graph = random_graph(8, 14, arity=(1, 4), card=(2, 4), zeros=0.2, seed=seed)
        assert solve(graph, "MAP", "toulbar2").gap < 1e-7


@needs_package
def test_no_solution_is_zero_probability():
    differ = 1.0 - np.eye(3)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    graph = FactorGraph([3] * 4, [(pair, differ) for pair in pairs])
    assert solve(graph, "MAP", "toulbar2").status is Status.ZERO_PROBABILITY


@needs_package
def test_it_writes_nothing(capfd: pytest.CaptureFixture[str]):
    solve(ising_grid(12, 12, seed=2), "MAP", "toulbar2", time_limit=1.0)
    assert capfd.readouterr() == ("", "")
