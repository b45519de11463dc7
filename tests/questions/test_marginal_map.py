"""Marginal MAP: every solver against enumeration, sums that do not fit, bounds, files and the command."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from enumeration import graphs

import equifactor as ef
from equifactor.base.clock import Clock
from equifactor.base.errors import FormatError, ModelError, OptionError
from equifactor.formats.results import format_mmap, read_query
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.auto import marginal_search, query_branching, query_portfolio
from equifactor.solvers.auto.chooser import Auto
from equifactor.solvers.auto.query_branching import QueryBranching
from equifactor.solvers.auto.query_starts import further_starts
from equifactor.solvers.elimination import partial_sums
from equifactor.solvers.elimination.marginal_map import QueryProblem, query_problem
from equifactor.solvers.elimination.mixed_elimination import plan_mixed
from equifactor.solvers.elimination.orders import Order, best_order
from equifactor.solving.solver import SolveContext

GRAPHS = graphs()
SOLVERS = ("brute", "exact", "auto")


def best_sum(graph: ef.FactorGraph, query: list[int]) -> float:
    """Return the log of the largest sum over all variables that are not in the query."""
    every = np.indices(tuple(graph.card)).reshape(graph.num_vars, -1).T
    scores = graph.log_score(every)
    top = scores.max()
    if top == -np.inf:
        return -math.inf
    sums = np.exp(scores - top).reshape(tuple(graph.card))
    return float(top + np.log(sums.sum(axis=tuple(i for i in range(graph.num_vars) if i not in query)).max()))


def check(graph: ef.FactorGraph, query: list[int], solver: str) -> ef.Result:
    """Compare a marginal MAP with enumeration; its value is computed again from the answer."""
    result = ef.solve(graph, "MMAP", solver, query=query)
    best = best_sum(graph, query)
    if best == -math.inf:
        assert result.status is ef.Status.ZERO_PROBABILITY
        return result
    assert result.status is ef.Status.OPTIMAL
    assert result.lower_bound == result.log_score == pytest.approx(best, rel=1e-9, abs=1e-9)
    chosen = {i: int(result.assignment[i]) for i in query}
    assert ef.solve(graph.condition(chosen), "PR", "brute").log_z == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert set(np.flatnonzero(result.assignment >= 0)) == {*query, *graph.evidence}
    return result


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_it_equals_enumeration(name: str, solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.solvers.auto.chooser._FEW_STATES", 1)
    graph = GRAPHS[name]
    rng = np.random.default_rng(graph.num_vars)
    for size in (0, 1, 3):
        check(graph, rng.permutation(graph.num_vars)[:size].tolist(), solver)


@pytest.mark.parametrize("plain", [True, False])
def test_random_graphs_with_plain_sums_and_kernels(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_sums, "plain_is_better", lambda *_: plain)
    monkeypatch.setattr(partial_sums, "uses_kernels", lambda _: not plain)
    rng = np.random.default_rng(1)
    for seed in range(30):
        graph = random_graph(6, 7, arity=(1, 3), card=(1, 3), zeros=0.4 * (seed % 2), seed=seed)
        check(graph, rng.permutation(6)[: rng.integers(0, 7)].tolist(), "exact")


def test_a_search_between_bounds_where_sums_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_portfolio, "_SUM_BITS", 2.0)
    monkeypatch.setattr(query_portfolio, "_MOST_STEPS", 40)
    monkeypatch.setattr(query_portfolio, "_BOUND_SHARE", 0.02)
    monkeypatch.setattr(QueryBranching, "where_it_fits", lambda *_: None)
    monkeypatch.setattr("equifactor.solvers.auto.chooser._FEW_STATES", 1)
    for seed in range(1):
        graph = ising_grid(4, 4, seed=seed)
        query = [1, 4, 6, 9, 11, 14]
        result = ef.solve(graph, "MMAP", query=query, time_limit=20.0)
        best = best_sum(graph, query)
        assert result.stats["chosen"] == "sums, then block search"
        assert result.log_score == pytest.approx(best, abs=1e-9)
        assert result.upper_bound >= best - 1e-9
        assert result.lower_bound == result.log_score


def test_a_search_ends_when_its_bounds_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.solvers.auto.chooser._FEW_STATES", 1)
    monkeypatch.setattr(query_portfolio, "_SUM_BITS", 2.0)
    graph = ising_grid(4, 4, seed=0)
    monkeypatch.setattr(QueryBranching, "where_it_fits", lambda *_: None)
    nothing = ef.solve(graph, "MMAP", query=[], time_limit=1.0)
    assert nothing.status is ef.Status.OPTIMAL
    assert nothing.log_score == pytest.approx(ef.solve(graph, "PR").log_z)
    monkeypatch.setattr(query_portfolio, "upper_bound", lambda *_: best_sum(graph, [5, 10]))
    assert ef.solve(graph, "MMAP", query=[5, 10], time_limit=4.0).status is ef.Status.OPTIMAL


@pytest.mark.parametrize("bits", [5.0, 7.0])
def test_a_search_over_the_query_proves_the_best_answer(bits: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.solvers.auto.chooser._FEW_STATES", 1)
    monkeypatch.setattr(query_portfolio, "_SUM_BITS", 0.0)
    monkeypatch.setattr(query_portfolio, "_SEARCH_BITS", 0.0)
    monkeypatch.setattr(query_branching, "_BITS", bits)
    for seed in range(12):
        graph = ising_grid(4, 4, seed=seed) if seed % 2 else random_graph(8, 9, arity=(1, 3), zeros=0.2, seed=seed)
        query = np.random.default_rng(seed).permutation(8)[: 3 + seed % 3].tolist()
        check(graph, query, "auto")


def test_bounds_of_a_search_over_the_query_hold_at_every_node() -> None:
    nodes = 0
    for seed in range(40):
        graph = random_graph(9, 12, arity=(1, 3), card=(1, 3), zeros=0.3 * (seed % 2), seed=seed)
        query = np.random.default_rng(seed).permutation(9)[:5]
        is_query = np.isin(np.arange(9), query)
        order = best_order(graph.structure)
        assert isinstance(order, Order)
        root = plan_mixed(graph.structure, order.variables, is_query, 3.0 + seed % 3, 1e9)
        search, best = QueryBranching(graph, is_query, root, Clock(60.0), 1e-9), best_sum(graph, query.tolist())
        while not search.finished:
            search.step()
            assert not search.nodes or search.bound >= best - 1e-9
        assert search.score == pytest.approx(best, abs=1e-9)
        nodes += search.nodes
    assert nodes > 80


def test_a_search_over_the_query_stops_with_its_clock() -> None:
    graph = ising_grid(4, 4, seed=2)
    is_query = np.arange(16) % 3 == 0
    order = best_order(graph.structure)
    assert isinstance(order, Order)
    root = plan_mixed(graph.structure, order.variables, is_query, 4.0, 1e9)
    search = QueryBranching(graph, is_query, root, Clock(0.0), 1e-7)
    search.step()
    assert not search.finished
    assert search.bound == math.inf
    late = QueryBranching(graph, is_query, root, Clock(60.0), 1e-7)
    late.step()
    before = late.bound
    late.clock = Clock(0.0)
    late.step()
    assert late.bound == before


def test_ascents_begin_at_the_best_start_and_try_the_others_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_portfolio, "_PATIENCE", 0.0)
    problem = query_problem(ising_grid(4, 4, seed=3), np.array([0, 3, 5, 10, 15]), 2.0, Clock())
    assert isinstance(problem, QueryProblem)
    count = problem.graph.num_vars
    starts = [np.full(count, x) for x in (0, 1)]
    search = marginal_search.BlockAscent(problem.graph, problem.is_query, starts[0], SolveContext())
    values = [search.value_of(start) for start in starts]
    assert search.score == values[0] != values[1]
    monkeypatch.setattr(search, "step", lambda: False)
    ascents = query_portfolio._Ascents(search, iter(starts[1:]), iter([np.arange(count) % 2]))
    ascents.step()
    assert ascents.score == search.score == max(values)
    ascents.step()
    assert search.score == min(values)
    assert ascents.score == max(values)
    ascents.step()
    assert search.states.tolist() == (np.arange(count) % 2).tolist()
    ascents.step()
    assert search.score == ascents.score >= max(values)


def test_further_starts_are_assignments() -> None:
    graph = ising_grid(4, 4, seed=3)
    found = list(further_starts(graph, Auto(), SolveContext(clock=Clock(10.0))))
    assert len(found) == 4
    assert all(np.all((states >= 0) & (states < graph.card)) for states in found)


def test_a_step_never_lowers_the_sum() -> None:
    graph = ising_grid(4, 4, seed=3)
    problem = query_problem(graph, np.array([0, 3, 5, 10, 15]), 2.0, Clock())
    assert isinstance(problem, QueryProblem)
    start = np.zeros(problem.graph.num_vars, np.int64)
    search = marginal_search.BlockAscent(problem.graph, problem.is_query, start, SolveContext())
    assert search.possible
    before = search.score
    for _ in range(5):
        search.step()
        assert search.score >= before
        before = search.score
    assert search.score == pytest.approx(best_sum(graph, [0, 3, 5, 10, 15]), abs=1e-9)


def test_the_upper_bound_holds_with_any_query(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        graph = random_graph(8, 12, arity=(1, 3), card=(2, 3), zeros=0.2 * (seed % 2), seed=seed)
        query = np.random.default_rng(seed).permutation(8)[: seed + 1]
        problem = query_problem(graph, query, 1.0, Clock())
        if isinstance(problem, bool):
            continue
        assert problem is not None
        context = SolveContext(clock=Clock(0.1))
        upper = query_portfolio.upper_bound(problem, context)
        assert upper >= best_sum(graph, query.tolist()) - 1e-9


def test_sums_that_exceed_the_memory_limit_are_refused_by_exact() -> None:
    refused = ef.solve(ising_grid(12, 12, seed=1), "MMAP", "exact(memory_limit=0.000001)", query=range(0, 144, 9))
    assert refused.status is ef.Status.TOO_LARGE
    assert "Raise memory_limit" in refused.message
    assert not refused.answered


def test_names_and_missing_answers() -> None:
    pytest.importorskip("pandas")
    graph = ef.FactorGraph({"a": ["x", "y"], "b": 2}, [(["a", "b"], [[3, 0], [2, 2]])])
    result = ef.solve(graph, "MMAP", query=["a"])
    assert result.states == {"a": "y"}
    assert result.state("a") == "y"
    assert result.to_frame().to_dict("list") == {"variable": ["a"], "state": ["y"]}
    assert result.log_score == pytest.approx(math.log(4))
    assert ef.solve(graph, "MAP").states == {"a": "x", "b": 0}
    with pytest.raises(ef.SolveError, match="no joint"):
        result.joint("a", "b")


def test_the_query_is_checked() -> None:
    graph = ef.FactorGraph([2, 2])
    with pytest.raises(OptionError, match="MMAP needs query"):
        ef.solve(graph, "MMAP")
    with pytest.raises(OptionError, match="goes with the task MMAP"):
        ef.solve(graph, "MAP", query=[0])
    with pytest.raises(OptionError, match="twice"):
        ef.solve(graph, "MMAP", query=[0, 0])
    with pytest.raises(OptionError, match="must be a list"):
        ef.solve(graph, "MMAP", query="0")  # type: ignore[arg-type]
    with pytest.raises(ModelError):
        ef.solve(graph, "MMAP", query=[5])
    with pytest.raises(OptionError, match="brute, exact and auto do MMAP"):
        ef.solve(graph, "MMAP", "bp", query=[0])
    with pytest.raises(OptionError, match="one set of evidence"):
        ef.solve(graph, "MMAP", query=[0], evidence=[{0: 1}, {}])
    with pytest.raises(OptionError, match="needs a query"):
        ef.plan(graph, task="MMAP")
    with pytest.raises(OptionError, match="needs a query"):
        ef.compare(graph, ["exact"], task="MMAP")


def test_files_of_the_competition(tmp_path: Path) -> None:
    graph = ef.FactorGraph([2, 2, 3])
    path = tmp_path / "m.uai.query"
    path.write_text("2 2 0\n")
    assert read_query(path, graph) == [2, 0]
    assert format_mmap([1, -1, 2], [2, 0]) == "MMAP\n2 2 2 0 1\n"
    for wrong in ("", "3 0 1", "1 x", "2 1 1"):
        path.write_text(wrong)
        with pytest.raises(FormatError, match=r"m\.uai\.query"):
            read_query(path, graph)
