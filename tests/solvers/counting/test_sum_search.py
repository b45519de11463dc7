"""Sums by search against enumeration, and the search itself when it is cut short or short of room."""

import numpy as np
import pytest

import equifactor as ef
from equifactor import AtMost, Clause, Count, Exactly, FactorGraph, Parity, Status
from equifactor.base.clock import Clock
from equifactor.graph.structured_factor import StructuredFactor
from equifactor.solvers.counting import search_state, sum_search
from equifactor.solvers.counting.formula import formula_of
from equifactor.solvers.counting.search_state import SumSearch
from equifactor.solvers.counting.simplify import simplified


def constraint_graph(rng: np.random.Generator) -> FactorGraph:
    """Return clauses, parities, counts and tables with zeros and equal entries over up to 5,000 joint states."""
    card = np.full(rng.integers(2, 13), 2) if rng.random() < 0.6 else rng.integers(1, 4, rng.integers(2, 9))
    binary = np.flatnonzero(card == 2)
    factors: list = []
    for i in np.flatnonzero(rng.random(len(card)) < 0.5).tolist():
        factors.append(([i], rng.random(card[i]) * (rng.random(card[i]) > 0.05)))
    for kind in rng.choice(
        ["clause", "parity", "count", "table"], rng.integers(1, 3 * len(card)), p=[0.5, 0.1, 0.1, 0.3]
    ):
        among = np.arange(len(card)) if kind == "table" else binary
        scope = rng.permutation(among)[: rng.integers(2, 6)].tolist()
        if kind == "table":
            table = rng.choice([0, 0, 1, 1, 1, 0.5, 2.0, 0.3], tuple(card[scope[:3]]))
            factors.append((scope[:3], table if table.any() else table + 1.0))
        elif len(scope) < 2:
            continue
        elif kind == "clause":
            weight = None if rng.random() < 0.8 else float(rng.normal())
            factors.append((scope, Clause(rng.random(len(scope)) < 0.5, weight)))
        elif kind == "parity":
            factors.append((scope, Parity(odd=bool(rng.random() < 0.5))))
        else:
            factors.append((scope, rng.choice([Exactly(1), AtMost(1)])))
    return FactorGraph(card, factors)


def check(graph: FactorGraph, seed: int) -> bool:
    """Check ln Z and marginals against enumeration; return whether an assignment is possible."""
    want = ef.solve(graph, "MAR", "brute")
    for task in ("PR", "MAR"):
        got = ef.solve(graph, task, "search-sum")
        assert got.status == want.status, seed
        if want.status is Status.EXACT:
            assert got.log_z == pytest.approx(want.log_z, rel=1e-12, abs=1e-12), seed
            assert got.lower_bound == got.upper_bound == got.log_z
            if task == "MAR":
                np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-12)
    return want.status is Status.EXACT


def test_random_models_of_constraints() -> None:
    possible = [check(constraint_graph(np.random.default_rng(seed)), seed) for seed in range(50)]
    assert 10 < sum(possible) < 45


def hard_formula(seed: int) -> FactorGraph:
    """Return 40 variables and 150 clauses of three literals with weights: about 2,000 decisions."""
    rng = np.random.default_rng(seed)
    clauses = [(rng.permutation(40)[:3].tolist(), Clause(rng.random(3) < 0.5)) for _ in range(150)]
    return FactorGraph([2] * 40, [*clauses, *[([i], rng.random(2) + 0.1) for i in range(40)]])


def begun(graph: FactorGraph, *, record: bool = False, memory: float = 1e9) -> SumSearch:
    formula = formula_of(graph)
    assert formula is not None
    return SumSearch(formula, np.zeros(formula.num_vars), record=record, memory=memory)


def finish(search: SumSearch) -> float:
    while not search.done:
        search.work()
    return search.log_sum


def test_bounds_close_while_the_search_goes_on() -> None:
    graph = hard_formula(1)
    truth = finish(begun(graph))
    search, bounds = begun(graph), []
    while not search.done:
        search._work = 200
        search.work()
        bounds.append(search.bounds())
    low, high = np.array(bounds).T
    assert len(bounds) > 20
    assert np.all(low <= truth + 1e-9)
    assert np.all(high >= truth - 1e-9)
    assert low[-1] == high[-1] == pytest.approx(truth)
    assert np.isfinite(low[:-1]).any()
    assert high[len(high) // 2] < high[0]


def test_a_small_cache_and_few_learned_clauses_change_no_answer(monkeypatch) -> None:
    graph = hard_formula(2)
    want = finish(begun(graph))
    monkeypatch.setattr(search_state, "_FIRST_CACHE", 16)
    assert finish(begun(graph, memory=3000.0)) == pytest.approx(want)
    monkeypatch.setattr(search_state, "_MOST_LEARNED", 8)
    monkeypatch.setattr(search_state, "_FIRST_ARENA", 16)
    search = begun(graph, record=True)
    assert finish(search) == pytest.approx(want)
    assert search.circuit().log_sum_and_shares()[0] == pytest.approx(want)


def test_a_circuit_that_does_not_fit_is_reported(monkeypatch) -> None:
    monkeypatch.setattr(search_state, "_FIRST_ARENA", 16)
    got = ef.solve(hard_formula(2), "MAR", "search-sum(memory_limit=1e-6)")
    assert got.status is Status.TOO_LARGE
    assert "Raise memory_limit" in got.message


def test_a_formula_without_solutions_is_recognised() -> None:
    pigeons, holes = 6, 5
    place = np.arange(pigeons * holes).reshape(pigeons, holes)
    factors: list = [(row.tolist(), Clause()) for row in place]
    factors += [
        ([int(place[a, h]), int(place[b, h])], Clause([False] * 2))
        for h in range(holes)
        for a in range(6)
        for b in range(a)
    ]
    assert ef.solve(FactorGraph([2] * place.size, factors), "PR", "search-sum").status is Status.ZERO_PROBABILITY


def test_equal_entries_and_merged_clauses_make_a_small_formula() -> None:
    table = np.ones((2, 2, 2))
    table[1] = 0.25  # the other two variables do not matter
    formula = formula_of(FactorGraph([2, 2, 2], [([0, 1, 2], table)]))
    assert formula is not None
    assert formula.clauses == [frozenset({1, 6})]  # variable 0 implies the variable of the value 1/4
    np.testing.assert_allclose(np.exp(formula.log_weights[6:]), [0.25, 0.75])


def test_tables_without_structure_are_refused_where_the_formula_would_be_huge() -> None:
    rng = np.random.default_rng(1)
    graph = FactorGraph([2] * 20, [(list(range(18)), rng.random([2] * 18))])
    got = ef.solve(graph, "PR", "search-sum")
    assert got.status is Status.TOO_LARGE
    assert "clauses" in got.message


def test_elimination_takes_over_where_the_search_is_slower(monkeypatch) -> None:
    monkeypatch.setattr(sum_search._SumRun, "_elimination_seconds", lambda self: -1.0)
    graph = FactorGraph(
        [2] * 6 + [3, 3], [([6, 7], np.eye(3) + 0.5), *_clauses_of(6, 9, seed=4), ([5, 6], [[1, 0, 2], [3, 1, 1]])]
    )
    want = ef.solve(graph, "MAR", "brute")
    for task in ("MAR", "PR"):
        got = ef.solve(graph, task, "search-sum")
        assert got.stats["decisions"] == 0
        assert got.log_z == pytest.approx(want.log_z)
    np.testing.assert_allclose(ef.solve(graph, "MAR", "search-sum").marginals.values, want.marginals.values, atol=1e-12)


def _clauses_of(num_vars: int, count: int, seed: int) -> list:
    rng = np.random.default_rng(seed)
    return [(rng.permutation(num_vars)[:3].tolist(), Clause(rng.random(3) < 0.5)) for _ in range(count)]


def simplified_form(num_vars: int, factors: list, *, eliminate: bool):
    formula = formula_of(FactorGraph([2] * num_vars, factors))
    assert formula is not None
    return simplified(formula, Clock(), eliminate=eliminate)


def test_equal_variables_become_one_with_the_weights_of_both() -> None:
    equal = [([0, 1], np.eye(2)), ([1, 2], np.eye(2)[::-1])]
    form = simplified_form(3, [*equal, ([0], [1, 2]), ([1], [1, 3]), ([2], [5, 1])], eliminate=False)
    assert (form.num_vars, form.clauses) == (1, [])
    np.testing.assert_allclose(np.exp(form.log_weights), [30, 1])
    assert form.state_literal.tolist() == [1, 0, 1, 0, 0, 1]


def test_a_variable_that_the_others_define_is_eliminated() -> None:
    gate = [([0, 1, 2, 3], Clause([False, True, True, True])), *[([0, k], Clause([True, False])) for k in (1, 2, 3)]]
    form = simplified_form(4, gate, eliminate=True)
    assert (form.num_vars, form.clauses) == (3, [])
    assert simplified_form(4, gate, eliminate=False).num_vars == 4
    assert simplified_form(4, [*gate, ([0], [1.0, 2.0])], eliminate=True).num_vars == 4  # it has weights
    assert simplified_form(4, gate[:3], eliminate=True).num_vars == 4  # variable 3 does not decide it


def test_clauses_lose_what_smaller_ones_imply() -> None:
    factors = [
        ([0, 1], Clause()),
        ([0, 1, 2], Clause()),
        ([0, 2, 3], Clause([False, True, True])),
        ([1, 2, 3], Clause([True] * 3)),
    ]
    form = simplified_form(4, factors, eliminate=False)
    assert {tuple(sorted(c)) for c in form.clauses} == {(0, 2), (1, 4, 6), (2, 4, 6)}
    factors = [([0, 1], Clause()), ([0, 1, 2], Clause([False, True, True])), ([0, 1], Clause([False, True]))]
    assert simplified_form(3, factors, eliminate=False).clauses == [frozenset({2})]


def test_a_wide_formula_can_be_given_up() -> None:
    got = ef.solve(hard_formula(2), "PR", "search-sum(width=5)")
    assert got.status is Status.TOO_LARGE
    assert "Raise width" in got.message


def test_clauses_of_many_states_are_counted_before_they_are_made(lines_run) -> None:
    """Variables of 60 states have 1,770 clauses each, which no short limit allows."""
    graph = ef.generators.potts_grid(4, 4, states=60, seed=0)
    assert formula_of(graph, Clock(1e-3)) is None
    assert lines_run(lambda: formula_of(graph, Clock(1e-3))) < 2000


@pytest.mark.parametrize("factor", [AtMost(9), Count([0.5] * 10)])
def test_counts_that_exclude_nothing(factor: StructuredFactor) -> None:
    # Written as tables, the factor has auxiliary variables of one state.
    graph = FactorGraph([2] * 9, [(range(9), factor), ([0, 1], [[1, 2], [3, 4]])])
    want = ef.solve(graph, "MAR", "exact")
    got = ef.solve(graph, "MAR", "search-sum")
    assert got.log_z == pytest.approx(want.log_z)
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-12)
    assert ef.compile_circuit(graph).log_z([{}]) == pytest.approx([want.log_z])


def test_a_formula_that_is_late_is_not_finished(driven_time, lines_run) -> None:
    rng = np.random.default_rng(0)
    tables = [([n, n + 1], rng.uniform(size=(3, 3))) for n in range(200)]
    graph = FactorGraph([3] * 201, tables)
    whole = lines_run(lambda: formula_of(graph))
    driven_time.tick = 0.01
    found = []
    assert lines_run(lambda: found.append(formula_of(graph, Clock(0.08)))) < 0.7 * whole
    assert found == [None]


@pytest.mark.parametrize("memory", [1e5, 1e9])
def test_the_search_does_not_depend_on_the_time(memory: float, driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_state, "_FIRST_CACHE", 64)
    formula = formula_of(ef.generators.potts_grid(4, 4, states=3, seed=2))
    found = []
    for tick in (0.0, 1.0):  # An idle machine and a slow one: calls are longer or shorter.
        driven_time.tick = tick
        search = SumSearch(formula, np.zeros(formula.num_vars), record=False, memory=memory)
        while not search.done:
            search.work()
        found.append((search.log_sum, search.stats))
    assert found[0] == found[1]
