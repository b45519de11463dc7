"""The page gets the same answers about a model as Python programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from page_client import HOSTILE, Client

import equifactor as ef
import equifactor.solving.registry
from equifactor import FactorGraph, Status, Task
from equifactor.graph.marginals import Marginals
from equifactor.page.model_session import ModelSession
from equifactor.page.viewer import Page
from equifactor.solvers import Estimate, GraphSolver, SolveContext

Serve = Callable[[Page], Client]


@pytest.fixture
def client(serve: Serve, network: FactorGraph) -> Client:
    return serve(ModelSession(network, evidence={0: 1}))


def test_session(client: Client) -> None:
    session = client.get("session")
    assert session["mode"] == "model"
    assert session["evidence"] == {"0": 1}
    assert session["solver"] == "exact" == session["solvers"][0]
    assert not session["readonly"]
    assert not session["back"]
    assert "3 variables" in session["summary"]


def test_graph(client: Client, network: FactorGraph) -> None:
    graph = client.get("graph")
    assert graph["directed"]
    assert graph["layout"] == "layers"
    assert graph["variables"]["names"] == ["rain", "sprinkler\u202e", HOSTILE]
    assert graph["variables"]["states"] == [["no", "yes"], ["off", "on"], ["dry", 'wet "very"', "'soaked"]]
    assert graph["factors"]["ptr"] == [0, 1, 3, 6]
    assert graph["factors"]["scope"] == [0, 0, 1, 1, 0, 2]
    assert graph["factors"]["children"] == [0, 1, 2]
    assert graph["factors"]["entries"] == [2, 4, 12]
    assert graph["factors"]["names"][2] == f"P({HOSTILE} | sprinkler\u202e, rain)"
    y = graph["variables"]["y"]
    assert y[0] < y[1] < y[2]  # parents are above their children


@pytest.mark.parametrize("solver", ["exact", "bp(damping=0.5)", "bp", "trw", "meanfield"])
@pytest.mark.parametrize("evidence", [{}, {"2": 1}, {"0": 0, "2": 2}])
def test_answers_are_those_of_solve(
    client: Client, network: FactorGraph, solver: str, evidence: dict[str, int]
) -> None:
    given = network.condition({int(i): network.structure.states_of(int(i))[x] for i, x in evidence.items()})
    expected = ef.solve(given, "MAR", solver)
    for _ in range(2):  # found, and from memory
        reply = client.post("solve", solver=solver, evidence=evidence, seconds=600)
        assert reply["solver"] == solver
        assert reply["status"] == expected.status
        assert reply["iterations"] == expected.iterations
        assert reply["log_z"] == reply["log_evidence"] == expected.log_z
        np.testing.assert_array_equal(np.concatenate(reply["marginals"]), expected.marginals.values)


def test_the_most_probable_assignment(client: Client, network: FactorGraph) -> None:
    expected = ef.solve(network.condition({2: "'soaked"}), "MAP", "exact")
    reply = client.post("map", solver="exact", evidence={"2": 2})
    assert reply["states"] == expected.assignment.tolist()
    assert reply["score"] == expected.log_score
    assert reply["status"] == "optimal"
    assert client.refused("map", solver="trw") == "trw cannot do MAP. It does MAR, PR."


def test_a_solver_of_map_alone_has_an_answer_without_marginals(client: Client) -> None:
    reply = client.post("solve", solver="mplp")
    assert (reply["answered"], reply["marginals"], reply["log_z"]) == (True, None, None)
    assert reply["message"].startswith("This solver answers MAP only, so there are no marginals.")
    assert reply["status"] == client.post("map", solver="mplp")["status"]


def test_impossible_evidence(client: Client) -> None:
    reply = client.post("solve", solver="exact", evidence={"0": 0, "1": 0, "2": 1})
    assert reply["status"] == "zero-probability"
    assert reply["log_z"] == "-inf"
    assert reply["marginals"] is None
    assert "probability zero" in client.refused("map", solver="exact", evidence={"0": 0, "1": 0, "2": 1})
    assert client.post("trace", solver="bp", evidence={"0": 0, "1": 0, "2": 1})["iterations"] == 0


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"solver": "frob"}, "There is no solver 'frob'"),
        ({"solver": "bp(damping=2)"}, "damping"),
        ({"solver": 3}, "the solver must be a string"),
        ({"evidence": {"9": 0}}, "The model has no variable '9'. It has 3 variables (0-2)."),
        ({"evidence": {"rain": 0}}, "The model has no variable 'rain'"),
        ({"evidence": {"0": 2}}, "variable rain has 2 states (0-1), but the evidence gives state 2"),
        ({"evidence": {"0": True}}, "gives state True"),
        ({"evidence": {"0": 0.5}}, "gives state 0.5"),
        ({"evidence": [0]}, "evidence must be a JSON object"),
        ({"seconds": -1}, "`seconds` must be a number of at least 0"),
        ({"seconds": "x"}, "`seconds` must be a number of at least 0"),
    ],
)
def test_wrong_questions(client: Client, asked: dict[str, object], sentence: str) -> None:
    assert sentence in client.refused("solve", **asked)


def test_factors(client: Client, network: FactorGraph) -> None:
    factor = client.get("factor?index=2")
    assert factor["shape"] == [2, 2, 3]
    assert factor["scope"] == [1, 0, 2]
    log_table = network.log_table(2).ravel().tolist()
    assert factor["values"] == ["-inf" if math.isinf(v) else v for v in log_table]
    assert factor["text"].endswith("given its parents over 3 variables, 12 entries, 2 of them zero.")
    for index in ("3", "-1", "x", ""):
        status, reply = client.status("GET", f"factor?index={index}")
        assert status == 400
        assert reply["error"].endswith("It has 3 factors (0-2).")


def test_factors_of_other_kinds(serve: Serve) -> None:
    graph = FactorGraph([2] * 30, [(range(30), ef.Parity()), ([0, 1, 2], ef.Clause([1, 0, 1])), ([0], [1.0, 2.0])])
    client = serve(ModelSession(graph))
    shown = client.get("graph")
    assert shown["factors"]["kinds"] == ["parity", "clause", "table"]
    assert not shown["directed"]
    parity, clause = client.get("factor?index=0"), client.get("factor?index=1")
    assert parity["values"] is None
    assert parity["text"].endswith("over 30 variables.")
    assert len(clause["values"]) == 8
    expected = ef.solve(graph.condition({3: 1}), "MAR", "exact")
    reply = client.post("solve", solver="exact", evidence={"3": 1})
    np.testing.assert_array_equal(np.concatenate(reply["marginals"]), expected.marginals.values)
    assert reply["log_evidence"] is None


def test_plan(client: Client, network: FactorGraph) -> None:
    expected = ef.plan(network)
    reply = client.post("plan", evidence={})
    assert reply["order"] == list(expected.order)
    assert reply["induced"] == [len(c) for c in expected.clusters]
    assert (reply["width"], reply["memory"], reply["fits"]) == (expected.width, expected.memory, True)
    assert len(client.post("plan", evidence={"0": 0})["order"]) < len(expected.order)


def test_where_exact_does_not_fit_another_solver_comes_first(serve: Serve) -> None:
    client = serve(ModelSession(ef.generators.ising_grid(40, 40, seed=0)))
    session = client.get("session")
    assert session["solver"] == "bp(damping=0.5)"
    assert "exact" not in session["solvers"]
    plan = client.post("plan")
    assert not plan["fits"]
    assert plan["text"].startswith("Elimination of ")
    assert plan["text"].endswith("Exact inference does not fit 4 GiB.")
    assert plan["order"] == []
    graph = client.get("graph")
    assert (graph["layout"], graph["grid"]) == ("grid", [40, 40])
    assert graph["variables"]["states"] == {"common": ["0", "1"]}


def test_iterations(client: Client, network: FactorGraph) -> None:
    asked = {"solver": "bp", "evidence": {"2": 1}}
    trace = client.post("trace", **asked, iterations=50)
    expected = ef.solve(network.condition({2: 'wet "very"'}), "MAR", "bp")
    assert trace["iterations"] == expected.iterations == len(trace["beliefs"]) == len(trace["moving"])
    assert trace["status"] == "converged"
    assert trace["cycle"] is None
    last = client.post("trace/at", **asked, iterations=50, t=trace["iterations"] - 1)["marginals"]
    np.testing.assert_allclose(np.concatenate(last), expected.marginals.values, atol=1e-6)
    assert trace["beliefs"][-1] == [round(max(p), 3) for p in last]
    assert {"factor", "variable", "change"} == trace["moving"][0][0].keys()
    assert "no iteration 99" in client.refused("trace/at", **asked, t=99)
    assert "no iterations to show" in client.refused("trace", solver="exact")
    assert "from 1 to 10000" in client.refused("trace", solver="bp", iterations=0)


def test_symmetries(client: Client) -> None:
    reply = client.get("symmetries")
    assert reply["complete"]
    assert sorted([*reply["variables"], *reply["factors"]]) == list(range(6))


def test_names_that_are_no_unicode(serve: Serve) -> None:
    graph = FactorGraph({"a\udcff": ["\ud800", "b"], "\x00\n": 2}, [([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
    client = serve(ModelSession(graph))
    assert client.get("graph")["variables"]["names"] == ["a\udcff", "\x00\n"]
    assert client.post("solve", evidence={"1": 1})["status"] == "exact"


def test_solvers_of_the_user_are_offered(network: FactorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(equifactor.solving.registry._REGISTRY, "mine", ef.solvers.parse_solver("bp").__class__)
    assert "mine" in ModelSession(network).solvers
    assert ModelSession(network, solver="bp(damping=0.3)").solvers[0] == "bp(damping=0.3)"


@dataclass(frozen=True, kw_only=True)
class Late(GraphSolver):
    """A solver that ends at its time limit, with marginals if an option asks for them."""

    name = "late"
    marginals: bool = False

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        p = Marginals(np.full(graph.structure.state_ptr[-1], 0.5), graph.structure.state_ptr)
        return Estimate(status=Status.TIME_LIMIT, marginals=p if self.marginals else None)


def test_no_answer_is_not_called_the_best_so_far(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(equifactor.solving.registry._REGISTRY, "late", Late)
    nothing = client.post("solve", solver="late", seconds=3)
    assert (nothing["answered"], nothing["marginals"], nothing["log_z"]) == (False, None, None)
    assert nothing["message"].startswith("Time ran out before the solver found marginals.")
    some = client.post("solve", solver="late(marginals=true)")
    assert "best answer so far" in some["message"]
    assert some["message"].endswith("There is no estimate of ln Z.")


def test_an_unfinished_plan_is_marked_as_a_bound(client: Client, serve: Serve) -> None:
    assert client.post("plan")["finished"]
    assert not serve(ModelSession(ef.generators.ising_grid(40, 40, seed=0))).post("plan")["finished"]


def test_a_trace_ends_as_the_solver_does(serve: Serve) -> None:
    graph = ef.generators.ising_grid(4, 4, seed=1)
    client = serve(ModelSession(graph))
    for solver in ("bp(damping=0.5)", "bp", "bp(iterations=7)", "meanfield"):
        expected = ef.solve(graph, "MAR", solver)
        trace = client.post("trace", solver=solver, iterations=2000)
        assert (trace["status"], trace["complete"]) == (expected.status, True)
    full = ef.solve(graph, "MAR", "bp(damping=0.5)")
    exactly = client.post("trace", solver="bp(damping=0.5)", iterations=full.iterations)
    assert (exactly["status"], exactly["complete"]) == ("converged", True)
    fewer = client.post("trace", solver="bp(damping=0.5)", iterations=full.iterations - 1)
    assert (fewer["status"], fewer["complete"]) == ("iteration-limit", False)
