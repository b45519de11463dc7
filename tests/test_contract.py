"""The contract every registered solver keeps, on shared graphs, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, OptionError, Result, Status, Task, solve
from equifactor.base.status import PLAIN_TASKS
from equifactor.solvers import Solver, parse_solver, solver_names
from equifactor.solving.registry import solver_class
from equifactor.testing import contract_graphs

GRAPHS = contract_graphs()


def spec_of(name: str, task: Task) -> str:
    """Return the text form of a solver; untrained if the package has no weights for the task."""
    try:
        parse_solver(name).check_task(task)
    except OptionError:
        return f"{name}(untrained)"
    return name


def missing(name: str, task: Task) -> str:
    """Return the reason why a solver cannot run here, such as a missing package."""
    return "" if "untrained" in spec_of(name, task) else solver_class(name).missing() or ""


CASES = [
    pytest.param(spec_of(name, task), task, marks=pytest.mark.skipif(bool(reason), reason=reason))
    for name in solver_names()
    for task in solver_class(name).tasks
    for reason in [missing(name, task)]
]


@pytest.fixture(scope="module")
def oracle() -> dict[tuple[str, Task], Result]:
    return {(name, task): solve(g, task, "brute") for name, g in GRAPHS.items() for task in PLAIN_TASKS}


def is_forest(graph: FactorGraph) -> bool:
    """Return whether the bipartite graph has no cycle: edges = nodes - components, counted by union-find."""
    parent = list(range(graph.num_vars + graph.num_factors))

    def root(n: int) -> int:
        while parent[n] != n:
            n = parent[n]
        return n

    for a in range(graph.num_factors):
        for i in graph.structure.scope(a).tolist():
            u, v = root(i), root(graph.num_vars + a)
            if u == v:
                return False
            parent[u] = v
    return True


def check_sound(graph: FactorGraph, task: Task, got: Result, want: Result) -> None:
    """Check the properties of every answer, however approximate."""
    assert got.task is task
    assert str(parse_solver(got.solver)) == got.solver
    if want.status is Status.ZERO_PROBABILITY:
        assert got.status is Status.ZERO_PROBABILITY or got.status not in (Status.EXACT, Status.OPTIMAL)
        return
    assert got.status not in (Status.ZERO_PROBABILITY, Status.NON_FINITE)
    assert got.answered == (got.status is not Status.TOO_LARGE)
    if hasattr(got, "marginals"):
        assert np.array_equal(np.diff(got.marginals.ptr), graph.card)
        assert np.all((got.marginals.values >= 0) & (got.marginals.values <= 1 + 1e-12))
        for i, p in enumerate(got.marginals):
            assert p.sum() == pytest.approx(1.0, abs=1e-6)
            if i in graph.evidence:
                assert p[graph.evidence[i]] == 1.0
    if hasattr(got, "assignment"):
        assert got.assignment.shape == (graph.num_vars,)
        assert all(got.assignment[i] == s for i, s in graph.evidence.items())
        assert got.log_score == graph.log_score(got.assignment)
    truth = want.log_score if task is Task.MAP else want.log_z
    assert truth is not None
    slack = 1e-9 * max(1.0, abs(truth))
    for value in (getattr(got, "log_z", None), got.lower_bound, got.upper_bound):
        assert value is None or not math.isnan(value)
    assert got.lower_bound is None or got.lower_bound <= truth + slack
    assert got.upper_bound is None or got.upper_bound >= truth - slack


def solve_or_skip(graph: FactorGraph, task: Task, solver: str | Solver, **options) -> Result:
    """Solve; skip the test if the solver takes some graphs only and refuses this graph."""
    try:
        return solve(graph, task, solver, **options)
    except ModelError as error:
        if not parse_solver(solver).takes:
            raise
        pytest.skip(str(error))


def check_exact(task: Task, got: Result, want: Result, tolerance: float) -> None:
    if task is Task.MAP:
        assert got.log_score == pytest.approx(want.log_score, rel=tolerance, abs=tolerance)
        return
    assert got.log_z == pytest.approx(want.log_z, rel=tolerance, abs=tolerance)
    if task is Task.MAR:
        np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=tolerance)


@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize(("name", "task"), CASES, ids=lambda v: str(v))
def test_solver_keeps_the_contract(name: str, task: Task, graph_name: str, oracle) -> None:
    graph, want = GRAPHS[graph_name], oracle[graph_name, task]
    check_contract(name, task, graph, want)


def check_contract(solver: str, task: Task, graph: FactorGraph, want: Result) -> None:
    """Check that answers are sound on every graph, and exact if the solver reports it."""
    got = solve_or_skip(graph, task, solver)
    check_sound(graph, task, got, want)
    if want.status is Status.ZERO_PROBABILITY:
        return
    exact_on = parse_solver(solver).exact_on
    if got.status in (Status.EXACT, Status.OPTIMAL) or exact_on == "all":
        check_exact(task, got, want, 1e-9)
    elif exact_on == "trees" and is_forest(graph):
        assert got.status is Status.CONVERGED
        check_exact(task, got, want, 1e-6)


@pytest.mark.parametrize(("name", "task"), CASES, ids=lambda v: str(v))
def test_batch_of_different_graphs_equals_one_by_one(name: str, task: Task) -> None:
    check_batch(parse_solver(name), task)


def check_batch(solver: Solver, task: Task) -> None:
    """Check that a batch gives the same answers as its graphs one by one."""
    graphs = [g for g in GRAPHS.values() if takes(solver, task, g)]
    for graph, got in zip(graphs, solve(graphs, task, solver), strict=True):
        if got.status is Status.CONVERGED or got.status in (Status.EXACT, Status.OPTIMAL):
            alone = solve(graph, task, solver)
            assert alone.status.solved
            if task is Task.MAR:
                np.testing.assert_allclose(got.marginals.values, alone.marginals.values, atol=1e-5)
            if task is Task.MAP:
                assert got.log_score == pytest.approx(alone.log_score)


def takes(solver: Solver, task: Task, graph: FactorGraph) -> bool:
    """Return whether a solver that takes some graphs only takes this graph."""
    try:
        return not solver.takes or bool(solve(graph, task, solver))
    except ModelError:
        return False


@pytest.mark.parametrize(("name", "task"), CASES, ids=lambda v: str(v))
def test_no_time_at_all_still_comes_back_with_a_status(name: str, task: Task) -> None:
    got = solve(GRAPHS["loop"], task, name, time_limit=0.0)
    assert got.status in (Status.TIME_LIMIT, Status.EXACT, Status.OPTIMAL, Status.CONVERGED)
    if hasattr(got, "log_score"):
        best = solve(GRAPHS["loop"], task, "brute").log_score
        assert got.log_score <= best + 1e-9


@pytest.mark.parametrize(("name", "task"), CASES, ids=lambda v: str(v))
def test_float32_is_close(name: str, task: Task) -> None:
    for graph_name in ("loop", "tree", "hard zeros"):
        double = solve_or_skip(GRAPHS[graph_name], task, name)
        single = solve(GRAPHS[graph_name], task, name, dtype="float32")
        assert hasattr(single, "log_z") == hasattr(double, "log_z")
        if hasattr(double, "marginals") and double.status.solved:
            np.testing.assert_allclose(single.marginals.values, double.marginals.values, atol=2e-3)


@pytest.mark.parametrize("name", solver_names())
def test_solver_describes_itself(name: str) -> None:
    cls = solver_class(name)
    assert cls.name == name
    assert cls.summary().endswith(".")
    assert len(cls.summary()) < 110
    assert cls.tasks
    assert str(parse_solver(name)) == name


@pytest.mark.parametrize("name", [n for n in solver_names() if solver_class(n).maximises_query])
def test_marginal_map_agrees_with_brute_force(name: str) -> None:
    for graph in GRAPHS.values():
        query = list(range(0, graph.num_vars, 2))
        got, want = solve(graph, "MMAP", name, query=query), solve(graph, "MMAP", "brute", query=query)
        assert got.status is Status.OPTIMAL
        assert got.log_score == pytest.approx(want.log_score, rel=1e-9, abs=1e-9)
