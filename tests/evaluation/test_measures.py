"""Errors, trivial answers and scores of single results."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph, solve
from equifactor.base.errors import FormatError
from equifactor.base.status import PLAIN_TASKS, Status, Task
from equifactor.data import Instance
from equifactor.evaluation import measure
from equifactor.evaluation.conditional_sums import sum_bounds
from equifactor.evaluation.kept_marginals import pack, unpack
from equifactor.evaluation.measures import trivial_assignment, trivial_log_z
from equifactor.evaluation.summary import tables
from equifactor.generators import random_graph
from equifactor.graph.marginals import Marginals
from equifactor.questions.result import Result


def instance(**record: object) -> Instance:
    return Instance("toy", "x", Path("x.uai"), record=record)


def result(graph: FactorGraph, task: Task, **answer: object) -> Result:
    return Result(graph=graph, task=task, solver="none", status=Status.CONVERGED, **answer)  # type: ignore[arg-type]


def uniform(graph: FactorGraph) -> Marginals:
    return unpack(pack(graph, None)).uniform


@pytest.fixture
def graph() -> FactorGraph:
    return FactorGraph([2, 2, 3], [([0], [1.0, 3.0]), ([0, 1], [[2.0, 1.0], [1.0, 4.0]]), ([2, 1], np.ones((3, 2)))])


def test_exact_answers_score_100(graph: FactorGraph) -> None:
    mar, pr, best = (solve(graph, task, "brute") for task in ("MAR", "PR", "MAP"))
    reference = instance(log_z=pr.log_z, map_log_score=best.log_score)
    for answer, exact in ((mar, mar.marginals), (pr, None), (best, None)):
        values = measure(answer, reference, exact)
        assert values["score"] == 100.0
        assert values["error"] == pytest.approx(0.0, abs=1e-12)


def test_trivial_answers_score_0() -> None:
    graph = random_graph(6, 9, arity=(1, 3), card=(2, 3), seed=3)
    exact = solve(graph, "MAR", "brute")
    best = solve(graph, "MAP", "brute")
    reference = instance(log_z=exact.log_z, map_log_score=best.log_score + 1.0)  # type: ignore[operator]
    x = trivial_assignment(graph)
    answers = [
        (result(graph, Task.MAR, marginals=uniform(graph)), exact.marginals),
        (result(graph, Task.PR, log_z=trivial_log_z(graph)), None),
        (result(graph, Task.MAP, assignment=x, log_score=graph.log_score(x)), None),
    ]
    for answer, marginals in answers:
        assert measure(answer, reference, marginals)["score"] == pytest.approx(0.0, abs=1e-9)


def test_trivial_marginals_keep_the_evidence(graph: FactorGraph) -> None:
    p = uniform(graph.condition({1: 0}))
    assert [v.tolist() for v in p] == [[0.5, 0.5], [1.0, 0.0], [pytest.approx(1 / 3)] * 3]


def test_trivial_log_z_by_hand(graph: FactorGraph) -> None:
    # unary: 4 * 2 * 3; means 2 and 1
    assert trivial_log_z(graph) == pytest.approx(math.log(4 * 2 * 3 * 2.0))
    seen = graph.condition({0: 1})  # constant 3; the unary factor (1, 4) of variable 1; variable 2 is free
    assert trivial_log_z(seen) == pytest.approx(math.log(3 * 5 * 3))
    assert trivial_log_z(FactorGraph([2], [([0], [0.0, 0.0])])) == -math.inf


def test_trivial_assignment_is_greedy(graph: FactorGraph) -> None:
    assert trivial_assignment(graph).tolist() == [1, 1, 0]
    assert trivial_assignment(graph.condition({0: 0})).tolist() == [0, 0, 0]


def test_no_answer_scores_0(graph: FactorGraph) -> None:
    exact = solve(graph, "MAR", "brute")
    reference = instance(log_z=exact.log_z, map_log_score=2.0)
    for task in PLAIN_TASKS:
        values = measure(result(graph, task), reference, exact.marginals)
        assert values["score"] == 0.0
        assert values["error"] is None


def test_zero_probability_is_counted_and_infinite(graph: FactorGraph) -> None:
    values = measure(
        result(graph, Task.MAP, assignment=np.zeros(3, int), log_score=-math.inf), instance(map_log_score=2.0)
    )
    assert values["zero_probability"]
    assert values["map_error"] == math.inf
    assert values["score"] == 0.0


def test_better_than_best_known_is_no_error(graph: FactorGraph) -> None:
    values = measure(result(graph, Task.MAP, log_score=2.5, assignment=np.zeros(3, int)), instance(map_log_score=2.0))
    assert values["error"] == values["map_error"] == 0.0


def test_the_sum_of_marginal_map_is_computed_again(tmp_path: Path) -> None:
    graph = random_graph(6, 9, arity=(1, 3), card=(2, 3), seed=3)
    (tmp_path / "x.uai.query").write_text("2 4 1\n")
    best = solve(graph, "MMAP", "brute", query=[4, 1])
    record = {"mmap_log_score": best.log_score, "mmap_trivial_log_score": best.log_score - 4.0}  # type: ignore[operator]
    known = Instance("toy", "x", tmp_path / "x.uai", record=record, query_path=tmp_path / "x.uai.query")
    values = measure(replace(best, log_score=99.0), known)
    assert values["log_score"] == pytest.approx(best.log_score)
    assert (values["score"], values["claimed_log_score"]) == (100.0, 99.0)
    assert " 1 " in tables([{**values, "family": "toy", "solver": "s", "time_limit": 1.0, "status": "x"}], Task.MMAP)
    other = best.assignment.copy()
    other[4] = 1 - other[4]
    worse = measure(replace(best, assignment=other), known)
    value = solve(graph.condition({i: int(other[i]) for i in (4, 1)}), "PR", "brute").log_z
    assert worse["log_score"] == pytest.approx(value)
    assert worse["score"] == pytest.approx(100.0 * max(0.0, 1.0 - (best.log_score - value) / 4.0))  # type: ignore[operator]
    assert measure(result(graph, Task.MMAP), known)["score"] == 0.0
    greedy = measure(best, replace(known, record={"mmap_log_score": best.log_score + 1.0}))  # type: ignore[operator]
    states = trivial_assignment(graph)
    trivial = solve(graph.condition({i: int(states[i]) for i in (4, 1)}), "PR", "brute").log_z
    assert greedy["trivial_error"] == pytest.approx(best.log_score + 1.0 - trivial)  # type: ignore[operator]
    contradicting = graph.condition({4: 1 - int(best.assignment[4])})
    assert sum_bounds(contradicting, [4, 1], best.assignment) == (-math.inf, -math.inf)
    with pytest.raises(FormatError, match=r"x\.uai: marginal MAP needs a query"):
        measure(best, replace(known, query_path=None))


def test_unknown_answers_leave_only_the_facts(graph: FactorGraph) -> None:
    for task, answer in ((Task.MAR, {}), (Task.PR, {"log_z": 1.0}), (Task.MAP, {})):
        values = measure(result(graph, task, **answer), instance())
        assert (values["score"], values["reference"]) == (None, None)
        assert "error" not in values


def test_an_unusable_reference_is_a_reason_and_no_score(graph: FactorGraph, tmp_path: Path) -> None:
    found = result(graph, Task.MAR, marginals=uniform(graph))
    (tmp_path / "x.MAR").write_text("MAR\n1 2 0.5 0.5\n")
    other = measure(found, Instance("toy", "x", Path("x.uai"), marginals_path=tmp_path / "x.MAR"))
    gone = measure(found, Instance("toy", "x", Path("x.uai"), marginals_path=tmp_path / "gone.MAR"))
    number = measure(result(graph, Task.PR, log_z=1.0), instance(log_z=math.nan))
    assert [row["score"] for row in (other, gone, number)] == [None] * 3
    assert "different models" in other["reference"]
    assert "gone.MAR" in gone["reference"]
    assert number["reference"] == "none: the index has nan instead of a number"


def test_ln_z_of_minus_infinity_is_right_or_infinitely_wrong(graph: FactorGraph) -> None:
    known = instance(log_z=-math.inf)
    assert measure(result(graph, Task.PR, log_z=-math.inf), known)["score"] == 100.0
    assert measure(result(graph, Task.PR, log_z=1.0), known)["score"] == 0.0
