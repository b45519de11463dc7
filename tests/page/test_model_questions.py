"""The questions of the page are answered as Python programs answer them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from page_client import HOSTILE, Client

import equifactor as ef
from equifactor import FactorGraph, Status
from equifactor.page.model_session import ModelSession
from equifactor.page.viewer import Page
from equifactor.solvers.elimination.brute import BruteForce
from equifactor.solving.estimate import Estimate

Serve = Callable[[Page], Client]


@pytest.fixture
def client(serve: Serve, network: FactorGraph, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr("equifactor.page.model_questions.MOST_SECONDS", 600.0)  # A crowded machine is slow.
    return serve(ModelSession(network))


def ask(client: Client, what: str, **asked: Any) -> Any:
    status, reply = client.status("POST", "question", {"what": what, **asked})
    assert status == 200, reply
    return reply


def refusal(client: Client, what: Any, **asked: Any) -> str:
    status, reply = client.status("POST", "question", {"what": what, **asked})
    assert status == 400, reply
    return str(reply["error"])


def test_best_assignments(client: Client, network: FactorGraph) -> None:
    reply = ask(client, "best", k=3, evidence={"2": 1})
    found = ef.k_best(network, 3, evidence={HOSTILE: 'wet "very"'})
    assert reply["titles"] == ["rank", "log score", "probability", {"variable": 0}, {"variable": 1}]
    assert [row[1] for row in reply["rows"]] == found.log_scores.tolist()
    assert [row[2] for row in reply["rows"]] == pytest.approx(found.probabilities)
    assert [[cell["state"][1] for cell in row[3:]] for row in reply["rows"]] == found.states[:, :2].tolist()
    assert reply["text"] == found.guarantee
    apart = ask(client, "best", k=3, apart=2, evidence={})
    assert "2 variables" in apart["text"]


def test_best_states_of_some_variables(client: Client, network: FactorGraph) -> None:
    reply = ask(client, "best-sum", query=[0], evidence={"2": 2})
    found = ef.solve(network.condition({HOSTILE: "'soaked"}), "MMAP", query=["rain"])
    assert reply["rows"] == [[{"variable": 0}, {"state": [0, int(found.assignment[0])]}]]
    assert f"{found.log_score:.4f}" in reply["text"]


def test_what_to_observe_next(client: Client, network: FactorGraph) -> None:
    reply = ask(client, "next", target=0, evidence={"2": 1})
    found = ef.most_informative(network, "rain", evidence={HOSTILE: 'wet "very"'})
    assert reply["rows"][0][0] == {"variable": network.variable(found.best)}
    assert reply["rows"][0][1] == pytest.approx(found[found.best])


def test_which_observation_supports_what(client: Client, network: FactorGraph) -> None:
    reply = ask(client, "support", target=0, evidence={"1": 1, "2": 1})
    found = ef.findings(network, "rain", evidence={"sprinkler\u202e": "on", HOSTILE: 'wet "very"'})
    assert [row[0]["variable"] for row in reply["rows"]] == [network.variable(row.variable) for row in found]
    assert [row[3] for row in reply["rows"]] == pytest.approx([row.change for row in found])
    assert f"{found.probability:.4f}" in reply["text"]


def test_which_numbers_matter(client: Client, network: FactorGraph) -> None:
    reply = ask(client, "influence", target=0, evidence={"2": 1})
    found = ef.sensitivity(network, "rain", evidence={HOSTILE: 'wet "very"'}).tornado()
    assert reply["bars"]
    assert [row[0] for row in reply["rows"]] == [row.name for row, _, _ in found]
    assert [row[-2:] for row in reply["rows"]] == [pytest.approx(ends) for _, *ends in found]
    assert reply["middle"] == pytest.approx(ef.solve(network, evidence={HOSTILE: 'wet "very"'}).marginals[0].max())


def test_answers_without_a_value(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = FactorGraph([2, 2], [([0, 1], [[2.0, 1.0], [1.0, 3.0]])])
    monkeypatch.setattr("equifactor.page.model_questions.PAGE_MEMORY", 0.0)
    late = Estimate(status=Status.TIME_LIMIT, assignment=np.array([1, 0]))
    monkeypatch.setattr(BruteForce, "run_one", lambda *_: late)
    small = serve(ModelSession(graph))
    assert "probability" not in ask(small, "best", k=2)["titles"]
    reply = ask(small, "best-sum", query=[0])
    assert reply["text"].startswith("The sum is not known")
    assert reply["rows"] == [[{"variable": 0}, {"state": [0, 1]}]]


def test_wrong_questions_are_refused(client: Client) -> None:
    assert "`what` must be one of best" in refusal(client, "worst")
    assert "`what` must be one of" in refusal(client, ["best"])
    assert "`k` must be a whole number from 1 to 100" in refusal(client, "best", k=0)
    assert "`apart`" in refusal(client, "best", apart="x")
    assert "Choose the variables" in refusal(client, "best-sum")
    assert "no variable" in refusal(client, "best-sum", query=[7])
    assert "Click the variable" in refusal(client, "next")
    assert "no variable" in refusal(client, "next", target="rain")
    assert "is observed" in refusal(client, "next", target=0, evidence={"0": 1})
    assert "does not compute marginals" in refusal(client, "next", target=0, solver="local-search")
    assert "Nothing is observed" in refusal(client, "support", target=0, evidence={})


def test_expensive_questions_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.page.model_questions.MOST_SECONDS", -1.0)
    small = serve(ModelSession(FactorGraph([2, 2], [([0, 1], [[2.0, 1.0], [1.0, 3.0]])])))
    assert "too expensive" in refusal(small, "influence", target=0)
    assert "runs of this solver would take" in refusal(small, "support", target=0, evidence={"1": 0})
