"""`auto` on graphs with structured factors: exact in dense tables if they fit, otherwise on the factors themselves."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import AtMost, Clause, FactorGraph, NoisyOr, Parity, SparseTable, Status, Task, solve
from equifactor.base.budget import Refusal
from equifactor.base.clock import Clock
from equifactor.solvers.auto.native_search import native_best
from equifactor.solvers.auto.table_forms import completed, table_forms
from equifactor.solving.solver import SolveContext

pytestmark = pytest.mark.slow  # kernels on kinds take long to compile

RNG = np.random.default_rng(0)


def with_fields(num_vars: int, factors: list) -> FactorGraph:
    fields = [([i], RNG.normal(size=2)) for i in range(num_vars)]
    return FactorGraph([2] * num_vars, [*factors, *fields], log=True)


CHAIN = with_fields(
    30, [(range(20), Parity()), (range(10, 30), Clause()), (range(0, 30, 3), AtMost(2)), ([0, 29], np.eye(2))]
)
WIDE = with_fields(40, [(RNG.permutation(40)[:24].tolist(), NoisyOr(0.1, RNG.random(23).tolist())) for _ in range(12)])
SPARSE = with_fields(
    10, [(range(10), SparseTable(np.eye(10, dtype=int), RNG.normal(size=10), 0.0)), (range(10), Parity())]
)


@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_exact_in_tables_where_that_fits(task: str) -> None:
    want, got = solve(CHAIN, task, "exact"), solve(CHAIN, task)
    assert got.status is want.status
    assert got.stats["chosen"].startswith("exact")
    assert "auxiliary variables" in got.message
    number = "log_score" if task == "MAP" else "log_z"
    assert getattr(got, number) == getattr(want, number)


def test_a_batch_is_planned_once_and_answers_are_over_the_originals() -> None:
    graphs = [CHAIN, CHAIN.with_potentials(0.5 * CHAIN.log_phi, log=True), WIDE]
    for graph, got in zip(graphs, solve(graphs, "MAR", "auto(memory_limit=0.001, seconds=2)"), strict=True):
        assert len(got.marginals) == graph.num_vars
        assert got.answered


@pytest.mark.slow
@pytest.mark.parametrize("task", ["MAR", pytest.param("PR", marks=pytest.mark.slow)])
def test_messages_through_the_factors_as_they_are_come_first(task: str) -> None:
    got = solve(WIDE, task, "auto(memory_limit=0, seconds=1)")
    assert got.stats["ladder"][0].startswith("bp ")
    assert got.answered


@pytest.mark.slow
def test_ln_z_between_bounds() -> None:
    got = solve(CHAIN, "PR", "auto(memory_limit=0, seconds=2)")
    assert got.lower_bound <= solve(CHAIN, "PR", "exact").log_z + 1e-9
    assert solve(CHAIN, "PR", "exact").log_z <= got.upper_bound + 1e-9


@pytest.mark.slow  # compiles the kernels of mplp, or of trw and meanfield, for all kinds
def test_best_assignment_where_tables_are_refused() -> None:
    """The maximum of a noisy-or over 24 variables needs its whole table."""
    assert isinstance(table_forms([WIDE], Task.MAP, Clock())[0], Refusal)
    got = solve(WIDE, "MAP", "auto(seconds=0.5)")
    assert got.answered
    assert got.log_score <= got.upper_bound
    assert "as they are" in got.message


@pytest.mark.slow  # compiles the kernels of mplp, or of trw and meanfield, for all kinds
def test_sums_where_tables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.factors.lowered_graph._MAX_ENTRIES", 100)
    got = solve(WIDE, "PR")
    assert got.status is Status.CONVERGED
    assert "at most 2^" in got.message


@pytest.mark.slow  # compiles the kernels of mplp, or of trw and meanfield, for all kinds
def test_the_search_on_tables_begins_with_what_is_known() -> None:
    want = solve(CHAIN, "MAP", "exact").log_score
    got = solve(CHAIN, "MAP", "auto(memory_limit=0, seconds=2)")
    assert got.log_score == pytest.approx(want)
    assert got.upper_bound >= want - 1e-9


@pytest.mark.parametrize("graph", [CHAIN, SPARSE], ids=["chain", "sparse"])
def test_auxiliary_variables_follow(graph: FactorGraph) -> None:
    (form,) = table_forms([graph], Task.MAP, Clock())
    assert not isinstance(form, Refusal)
    best = solve(graph, "MAP", "exact")
    whole = completed(form, best.assignment, SolveContext())
    assert whole is not None
    assert form.graph.log_score(whole) == pytest.approx(best.log_score)
    impossible = best.assignment.copy()
    impossible[1] = 1 - impossible[1]  # The parity is broken.
    assert completed(form, impossible, SolveContext()) is None


@pytest.mark.slow  # compiles the kernels of mplp, or of trw and meanfield, for all kinds
def test_native_search_alone() -> None:
    got = native_best(CHAIN, 1.0, 1e-7, SolveContext())
    want = solve(CHAIN, "MAP", "exact").log_score
    assert got.lower_bound is None or got.lower_bound <= want + 1e-9
    assert got.upper_bound >= want - 1e-9


def test_impossible_models() -> None:
    graph = with_fields(30, [(range(20), Parity()), (range(20), Parity(odd=True)), (range(5, 30), Clause())])
    for task in ("MAR", "PR", "MAP"):
        assert solve(graph, task).status is Status.ZERO_PROBABILITY
