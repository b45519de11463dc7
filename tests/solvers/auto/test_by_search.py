"""When `auto` searches, and what it reports of a search."""

import numpy as np
import pytest

import equifactor as ef
from equifactor import Clause, FactorGraph, Status
from equifactor.base.clock import Clock
from equifactor.base.status import Task
from equifactor.solvers.auto import by_search, chooser
from equifactor.solvers.auto.by_search import is_full_of_zeros
from equifactor.solvers.auto.crude_bounds import with_bounds
from equifactor.solvers.auto.ladder_answers import LadderAnswer
from equifactor.solvers.auto.sum_ladder import LadderLimits, SumLadder
from equifactor.solvers.auto.table_forms import table_forms
from equifactor.solvers.messages.bp import BeliefPropagation
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import SolveContext


def full_of_zeros(graph: FactorGraph) -> bool:
    return is_full_of_zeros(graph, table_forms([graph], Task.PR, Clock())[0])


def test_models_of_zeros_are_searched_and_others_are_not() -> None:
    assert full_of_zeros(ef.generators.random_ksat(20, 3.0, seed=1))
    assert full_of_zeros(FactorGraph([2] * 3, [([0, 1], np.eye(2)), ([1, 2], np.eye(2))]))
    assert not full_of_zeros(ef.generators.ising_grid(4, 4, seed=1))
    assert not full_of_zeros(FactorGraph([2] * 3, [([0], [1.0, 0.0]), ([1, 2], np.ones((2, 2)))]))
    assert not full_of_zeros(FactorGraph([2, 2]))


@pytest.mark.parametrize("task", ["PR", "MAR"])
def test_what_exact_refuses_is_searched(task: str) -> None:
    graph = ef.generators.random_ksat(40, 2.5, seed=3)
    got = ef.solve(graph, task, "auto(memory_limit=1e-6)")
    want = ef.solve(graph, task, "search-sum")
    assert got.status is Status.EXACT
    assert got.stats["chosen"] == "search-sum"
    assert got.message.startswith("auto chose search-sum: ")
    assert got.log_z == pytest.approx(want.log_z, abs=1e-9)  # elimination takes over from a slow search


def test_a_long_elimination_is_preceded_by_a_search(monkeypatch) -> None:
    monkeypatch.setattr(chooser, "_LONG_EXACT", 0.0)
    monkeypatch.setattr(by_search, "_TRIAL_SHARE", 1e6)
    got = ef.solve(ef.generators.random_ksat(40, 2.5, seed=3), "PR")
    assert got.stats["chosen"] == "search-sum"


def test_formulas_without_solutions_get_no_estimate() -> None:
    pairs = [
        ([a, b, c], Clause([a & 1 == x, b & 1 == y, c & 1 == z]))
        for a, b, c in [(0, 1, 2)]
        for x in (0, 1)
        for y in (0, 1)
        for z in (0, 1)
    ]
    graph = FactorGraph([2] * 30, [*pairs, *[([i, i + 1], np.eye(2) + 0.5) for i in range(29)]])
    got = ef.solve(graph, "PR", "auto(memory_limit=0)")
    assert got.status is Status.ZERO_PROBABILITY
    assert got.log_z == -np.inf


def test_the_bounds_of_a_search_that_was_cut_short_hold_for_the_estimate() -> None:
    estimate = Estimate(status=Status.TIME_LIMIT, log_z=9.0, lower_bound=-1.0)
    cut = Estimate(status=Status.TIME_LIMIT, lower_bound=-np.inf, upper_bound=5.0)
    found = with_bounds(estimate, cut)
    assert (found.log_z, found.lower_bound, found.upper_bound) == (5.0, -1.0, 5.0)
    assert with_bounds(estimate, None) is estimate


def test_a_ladder_does_not_miss_the_bounds_of_a_search() -> None:
    graph, clock = ef.generators.random_ksat(12, 2.0, seed=0), Clock(1e-9)
    form = table_forms([graph], Task.PR, Clock())[0]
    first = LadderAnswer(BeliefPropagation(), Estimate(status=Status.CONVERGED, log_z=3.0), 0.0)
    cut = Estimate(status=Status.TIME_LIMIT, lower_bound=2.0, upper_bound=5.0)
    ladder = SumLadder(graph, form, Task.PR, SolveContext(clock=clock), LadderLimits(1e-6, 1), [first], searched=cut)
    found = ladder.run()
    assert (found.log_z, found.lower_bound, found.upper_bound, found.log_z_error) == (3.0, 2.0, 5.0, None)
    assert "lower bound" not in found.message
