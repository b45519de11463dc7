"""Asking a result for an answer that it does not have raises an explanation."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

import equifactor as ef

GRAPH = ef.FactorGraph(
    {"smoke": 2, "fire": 2}, [(["smoke"], [1.0, 0.0]), (["smoke", "fire"], [[2.0, 1.0], [1.0, 2.0]])]
)


@pytest.mark.parametrize(
    ("task", "field", "text"),
    [
        ("MAP", "marginals", 'This run answered MAP, so it has no marginals. Ask for task="MAR".'),
        ("MAP", "log_z", 'This run answered MAP, so it has no ln Z. Ask for task="PR".'),
        ("PR", "marginals", 'This run answered PR, so it has no marginals. Ask for task="MAR".'),
        ("MAR", "assignment", 'This run answered MAR, so it has no assignment. Ask for task="MAP".'),
        ("MAR", "log_score", 'This run answered MAR, so it has no log score. Ask for task="MAP".'),
    ],
)
def test_another_task_is_named(task: str, field: str, text: str) -> None:
    result = ef.solve(GRAPH, task, "exact")
    for same in (result, pickle.loads(pickle.dumps(result)), copy.copy(result)):
        with pytest.raises(ef.SolveError) as error:
            getattr(same, field)
        assert str(error.value) == text
        assert not hasattr(same, field)
        assert result.answered
        assert result.to_dict()[field] is None
        assert f"{field}=None" in repr(result)


def test_impossible_evidence_is_named() -> None:
    result = ef.solve(GRAPH, evidence={"smoke": 1})
    with pytest.raises(ef.SolveError, match=r"no marginals\. The status is zero-probability: .* Check the evidence"):
        result.marginals["fire"]
    with pytest.raises(ef.SolveError, match="zero-probability"):
        result.marginal("fire")
    with pytest.raises(ef.SolveError, match=r'was for MAR, so it has no assignment\. Ask for task="MAP"'):
        result.states  # noqa: B018 (reading it is the test)
    assert not result.answered
    impossible = ef.solve(GRAPH, "PR", evidence={"smoke": 1})
    assert not impossible.unjudged  # Zero is proven, so ln Z has no error.
    assert "not known" not in f"{impossible} {impossible.message}"


def test_a_model_that_is_too_large_says_so() -> None:
    result = ef.solve(ef.generators.ising_grid(12, 12, seed=0), "PR", "brute")
    with pytest.raises(ef.SolveError, match=r"no ln Z\. The status is too-large: "):
        result.log_z + 1.0
    late = ef.solve(ef.generators.ising_grid(12, 12, seed=0), "MAP", "exact", time_limit=0.0)
    with pytest.raises(ef.SolveError, match="time-limit: Time ran out before the solver found the most probable"):
        late.states  # noqa: B018 (reading it is the test)


def test_an_answer_that_the_solver_does_not_give() -> None:
    result = ef.Result(
        graph=GRAPH, task=ef.Task.MAR, solver="gibbs", status=ef.Status.CONVERGED, marginals=_marginals()
    )
    with pytest.raises(ef.SolveError, match=r'gibbs gives no ln Z with task MAR\. Use task="PR" or another solver\.'):
        result.log_z  # noqa: B018 (reading it is the test)


def test_bounds_and_errors_that_are_unknown_are_none() -> None:
    result = ef.solve(GRAPH, "MAR", "brute")
    assert result.standard_errors is None
    assert result.log_z_error is None
    assert result.iterations is None


def test_many_answers_explain_themselves_too() -> None:
    best = ef.solve(GRAPH, "MAP", evidence=[{"smoke": 0}, {"smoke": 1}])
    with pytest.raises(ef.SolveError, match=r'answered MAP, so it has no marginals\. Ask for task="MAR"'):
        best.marginals["fire"]
    assert best[0].assignment.tolist() == [0, 0]
    with pytest.raises(ef.SolveError, match=r"no assignment\. The status is zero-probability"):
        best[1].assignment  # noqa: B018 (reading it is the test)
    many = ef.solve(GRAPH, evidence=[{"smoke": 0}, {"smoke": 1}])
    with pytest.raises(ef.SolveError, match=r"no marginals\. The status is zero-probability"):
        many[1].marginals["fire"]
    assert many[1].log_z == float("-inf")
    assert "marginals=None" in repr(many[1])


def _marginals() -> Any:
    return ef.solve(GRAPH, "MAR", "brute").marginals


@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_a_result_without_some_answers_is_copied_with_other_fields(task: str) -> None:
    result = ef.solve(GRAPH, task, "exact")
    other = dataclasses.replace(result, message="changed")
    assert other.message == "changed"
    assert other.to_dict() == {**result.to_dict(), "message": "changed"}
    assert dataclasses.asdict(result)["log_score"] == getattr(result, "log_score", None)
    with pytest.raises(ef.SolveError, match="so it has no"):
        other.marginals if task == "MAP" else other.assignment  # noqa: B018 (reading it is the test)
