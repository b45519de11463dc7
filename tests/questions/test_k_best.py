"""The k best assignments against enumeration: ties, zeros, structured factors, and models without a plan that fits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from enumeration import graphs

import equifactor as ef
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError
from equifactor.generators import ising_grid, random_graph
from equifactor.questions.division import Division
from equifactor.solvers.elimination import best_rows
from equifactor.solving.registry import parse_solver
from equifactor.solving.solver import SolveContext

GRAPHS = graphs()


def all_assignments(graph: ef.FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return all possible assignments and their scores, the best first."""
    every = np.indices(tuple(graph.card)).reshape(graph.num_vars, -1).T
    scores = graph.log_score(every)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > -np.inf]
    return every[order], scores[order]


def check(graph: ef.FactorGraph, k: int, **options: str) -> None:
    """Compare the k best of a graph with enumeration."""
    _, scores = all_assignments(graph)
    best = ef.k_best(graph, k, **options)  # type: ignore[arg-type]
    assert best.status is (ef.Status.OPTIMAL if len(scores) else ef.Status.ZERO_PROBABILITY)
    assert best.proven == len(best) == min(k, len(scores))
    np.testing.assert_allclose(best.log_scores, scores[:k], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(graph.log_score(best.states), best.log_scores)
    assert len(np.unique(best.states, axis=0)) == len(best)
    if best.ties_counted and len(scores):
        last = scores[len(best) - 1]
        assert best.ties == (scores[k:] >= last - 1e-9 * max(1.0, abs(last))).sum()


@pytest.mark.parametrize("name", GRAPHS)
def test_it_equals_enumeration(name: str) -> None:
    for k in (1, 3, 40, 20_000):
        check(GRAPHS[name], k)


@pytest.mark.parametrize("plain", [True, False])
def test_random_graphs_with_ties_and_zeros(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_rows, "plain_is_better", lambda *_: plain)
    monkeypatch.setattr(best_rows, "uses_kernels", lambda _: not plain)
    rng = np.random.default_rng(1)
    for seed in range(60):
        graph = random_graph(6, 7, arity=(1, 3), card=(1, 3), zeros=rng.choice([0.0, 0.3, 0.6]), seed=seed)
        if seed % 2:
            graph = ef.FactorGraph.trusted(graph.structure, np.round(graph.log_phi))
        check(graph, int(rng.choice([1, 4, 30])))


def test_ties_beyond_a_limit_are_counted_from_below() -> None:
    best = ef.k_best(ef.FactorGraph([2] * 20), 5)
    assert (len(best), best.ties_counted) == (5, False)
    assert best.ties >= 1000
    assert "at least" in best.guarantee
    few = ef.k_best(ef.FactorGraph([2] * 4), 5)
    assert (few.ties, few.ties_counted) == (11, True)


@pytest.mark.parametrize("name", ["loop", "hard zeros", "kinds and evidence", "some evidence", "one-state variables"])
def test_division_equals_enumeration(name: str) -> None:
    check(GRAPHS[name], 6, solver="branch")


@pytest.mark.parametrize("solver", ["auto", "branch"])
@pytest.mark.parametrize("name", ["loop", "kinds", "ragged cardinalities"])
def test_each_is_the_best_at_a_distance(name: str, solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.questions.k_best._FIRST_ROWS", 8)
    graph = GRAPHS[name]
    every, scores = all_assignments(graph)
    best = ef.k_best(graph, 3, apart=3, solver=solver)
    assert best.proven == len(best) == 3
    for n in range(3):
        far = np.all([(every != best.states[m]).sum(1) >= 3 for m in range(n)] or [scores > -np.inf], axis=0)
        assert best.log_scores[n] == pytest.approx(scores[far].max())


def test_no_assignment_is_far_enough() -> None:
    best = ef.k_best(ef.FactorGraph([2, 2], [([0, 1], [[4, 3], [2, 1]])]), 4, apart=2)
    assert best.states.tolist() == [[0, 0], [1, 1]]
    assert best.status is ef.Status.OPTIMAL


def test_a_deadline_leaves_a_list_without_proof() -> None:
    grid = ising_grid(16, 16, seed=4)
    best = ef.k_best(grid, 3, solver="branch", time_limit=0.2)
    assert best.proven < 3
    assert not best.status.solved
    refused = ef.k_best(grid, 3, solver="exact(memory_limit=0.00001)")
    assert refused.status is ef.Status.TOO_LARGE
    assert "No assignment was found" in str(refused)


def test_parts_are_not_prepared_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    division = Division(ising_grid(4, 4, seed=4), parse_solver("branch"), SolveContext(clock=Clock(None), seed=0))
    monkeypatch.setattr(Clock, "stopped", True)
    monkeypatch.setattr(ef.FactorGraph, "condition", lambda *_: pytest.fail("a part is prepared"))
    assert division.next_best() is not None
    assert division.upper_bound > -np.inf


def test_names_frames_and_tables() -> None:
    pytest.importorskip("pandas")
    graph = ef.FactorGraph({"rain": ["no", "yes"], "grass": ["dry", "wet"]}, [(["rain", "grass"], [[9, 1], [1, 5]])])
    best = ef.k_best(graph, 3)
    assert best[1] == {"rain": "yes", "grass": "wet"}
    assert best[1:] == [best[1], best[2]]
    frame = best.to_frame()
    assert list(frame.columns) == ["rank", "log_score", "probability", "rain", "grass"]
    assert frame["probability"].tolist() == pytest.approx([9 / 16, 5 / 16, 1 / 16])
    assert "0.562500  no    dry" in str(best)
    assert "<table" in best._repr_html_()
    assert json.loads(json.dumps(best.to_dict()))["assignments"] == [[0, 0], [1, 1], [0, 1]]


def test_arguments_are_checked() -> None:
    graph = ef.FactorGraph([2])
    for wrong in (0, -1, 1.5, True, "3"):
        with pytest.raises(OptionError, match="at least 1"):
            ef.k_best(graph, wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="apart"):
        ef.k_best(graph, 1, apart=0)
    with pytest.raises(ModelError, match="one FactorGraph"):
        ef.k_best([graph], 1)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="cannot do MAP"):
        ef.k_best(graph, 1, solver="mini-buckets")
