"""`zero-probability` is a proof: many models of constraints, all solvers, and an enumeration that knows the truth."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, OptionError, Result, Status, Task, solve
from equifactor.base.status import PLAIN_TASKS
from equifactor.solvers import parse_solver
from equifactor.solvers.auto import chooser
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import SOLVERS, solver_class
from equifactor.solving.solver import SolveContext

EQUAL = np.eye(3)
# Only the states 0, 0, 0 agree, with score 0; messages around these loops run away.
RUNAWAY = FactorGraph(
    [3, 3, 3],
    [
        ([2, 0], EQUAL),
        ([1, 0], EQUAL),
        ([1, 2], EQUAL),
        ([1, 2], [[1, 0, 1], [1, 0, 1], [1, 1, 0]]),
        ([2, 1], [[1, 1, 1], [1, 1, 0], [0, 1, 1]]),
        ([0, 1], [[1, 0, 0], [0, 1, 1], [0, 1, 1]]),
    ],
)

# Three variables of two states cannot all differ, although every state has support in every factor.
DIFFER = 1.0 - np.eye(2)
NO_SOLUTION = FactorGraph([2, 2, 2], [([0, 1], DIFFER), ([1, 2], DIFFER), ([2, 0], DIFFER)])

OPTIONS = {
    "auto": ["", "(memory_limit=0, seconds=0.05)"],
    "bp": [
        "",
        "(damping=0.5)",
        "(damping=0.9, iterations=500, tolerance=0)",
        "(schedule=sequential)",
        "(schedule=random, damping=0.3)",
        "(schedule=residual)",
        "(schedule=residual, damping=0.5)",
        "(engine=torch)",
        "(engine=torch, damping=0.5)",
        "(decode=sequential)",
        "(decode=sequential, damping=0.5)",
        "(iterations=0)",
        "(iterations=3, damping=0.5)",
    ],
    "beam": ["", "(width=2)"],
    "branch": ["", "(sweeps=1, entries=1)"],
    "fe-nbp": ["", "(iterations=60)", "(untrained, damping=0.0, iterations=60)"],
    "fe-net": ["", "(iterations=60)", "(untrained)"],
    "gibbs": ["(burn_in=20, samples=50)", "(chains=2, burn_in=5, samples=20)"],
    "local-search": ["", "(iterations=50)"],
    "meanfield": ["", "(iterations=3, starts=1)"],
    "mplp": ["", "(iterations=5)"],
    "srmp": ["", "(cycles)", "(iterations=5)"],
    "trw": ["", "(iterations=1000)", "(iterations=3)"],
}


def specs() -> list[tuple[str, Task]]:
    """Return every registered solver with every task and some options; untrained if the package has no weights."""
    found = []
    for name, task in itertools.product(SOLVERS, Task):
        for options in OPTIONS.get(name, [""]):
            spec = name + options
            if task not in solver_class(name).tasks:
                continue
            if task not in _possible_tasks(spec):
                spec = f"{name}(untrained)"
            if solver_class(name).missing() and "untrained" not in spec:
                continue
            found.append((spec, task))
    return list(dict.fromkeys(found))


def _marks(spec: str, task: Task) -> list[pytest.MarkDecorator]:
    """Mark the residual schedule for the maximum, which only this file compiles, in half a minute."""
    return [pytest.mark.slow] if "residual" in spec and task is Task.MAP else []


def _possible_tasks(spec: str) -> list[Task]:
    try:
        return parse_solver(spec).possible_tasks()
    except OptionError:
        return []


SPECS = specs()
# As a batch; a batch in single precision; one graph; one graph with its impossible states.
WAYS = ["batch", "float32", "single", "raw"]


class Case(NamedTuple):
    """A model and its best log score by enumeration."""

    graph: FactorGraph
    best: float  # the best log score, -inf where no assignment is possible


def constraint_model(rng: np.random.Generator) -> FactorGraph:
    """Return tables of zeros and ones over scopes of one to four variables, with or without planted solutions."""
    num_vars = int(rng.integers(1, 7))
    card = rng.integers(2, 5, num_vars) if rng.random() < 0.5 else np.full(num_vars, rng.integers(2, 5))
    planted = [rng.integers(0, card) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    density = rng.uniform(0.3, 0.9)
    kinds = rng.choice(["random", "equal", "permutation"], size=rng.integers(1, 14), p=rng.dirichlet([2, 1, 1]))
    factors = []
    for kind in kinds:
        scope = rng.permutation(num_vars)[: rng.integers(1, 5)]
        at = np.indices(card[scope])
        if kind == "random" or len(scope) == 1:
            table = (rng.random(card[scope]) < density).astype(float)
        else:
            shift = rng.integers(0, 4, len(scope)) if kind == "permutation" else np.zeros(len(scope), int)
            same = (at + shift.reshape(-1, *[1] * len(scope))) % card[scope].min()
            table = np.all(same == same[:1], axis=0).astype(float)
        for states in planted:
            table[tuple(states[scope])] = 1.0
        if not table.any() and rng.random() < 0.9:
            table.flat[rng.integers(table.size)] = 1.0
        factors.append((scope.tolist(), table))
    if rng.random() < 0.3:
        power = rng.choice([0.01, 1.0, 30.0, 300.0])
        factors = [(scope, table * 10.0 ** rng.uniform(-power, power, table.shape)) for scope, table in factors]
    return FactorGraph(card, factors)


def best_score(graph: FactorGraph) -> float:
    """Return the best log score by enumeration, in plain sums of logs."""
    joint = np.zeros(tuple(graph.card))
    for a in range(graph.num_factors):
        scope = graph.structure.scope(a)
        order = np.argsort(scope)
        shape = [d if i in scope else 1 for i, d in enumerate(graph.card)]
        joint = joint + graph.log_table(a).transpose(order).reshape(shape)
    return float(joint.max())


def check_result(case: Case, task: Task, spec: str, got: Result | Estimate) -> None:
    """Check the properties of every answer."""
    graph, best = case
    if got.status is Status.ZERO_PROBABILITY:
        assert best == -math.inf, "said to be impossible, but there is a solution"
    if best == -math.inf:
        assert got.status not in (Status.EXACT, Status.OPTIMAL)
    if best > -math.inf and getattr(got, "log_z", None) is not None and not spec.startswith("meanfield"):
        assert got.log_z > -math.inf, "ln Z says impossible, but there is a solution"
    for value in (getattr(got, "log_z", None), got.lower_bound, got.upper_bound):
        assert value is None or not math.isnan(value)
    if getattr(got, "marginals", None) is not None:
        assert np.array_equal(np.diff(got.marginals.ptr), graph.card)
        sums = np.add.reduceat(got.marginals.values, got.marginals.ptr[:-1])
        assert np.all(got.marginals.values >= 0)
        np.testing.assert_allclose(sums, 1.0, atol=1e-5)
    if getattr(got, "assignment", None) is not None:
        assert got.assignment.shape == (graph.num_vars,)
        assert np.all((got.assignment >= 0) & (got.assignment < graph.card))
        score = graph.log_score(got.assignment)
        assert score <= best or score <= best + 1e-9 * max(1.0, abs(best))
        if isinstance(got, Result):
            assert got.log_score == score
    if task is Task.MAP and got.upper_bound is not None and best > -math.inf:
        assert got.upper_bound >= best - 1e-6 * max(1.0, abs(best))


def check_solver(cases: list[Case], task: Task, spec: str, seed: int, how: str) -> None:
    """Check one solver in one of the `WAYS`."""
    solver = parse_solver(spec)
    if "schedule" in spec and how == "float32":  # The engine in single precision has one schedule.
        return
    if solver.takes:
        cases = [case for case in cases if len(set(case.graph.card)) == 1 and case.graph.card[0] == 2]
    cases = cases if how in ("batch", "float32") else cases[:1]
    if not cases:
        return
    graphs = [case.graph for case in cases]
    try:
        if how == "raw":
            found = solver.run(graphs, task, SolveContext(seed=seed))
        else:
            found = solve(graphs, task, solver, seed=seed, dtype="float32" if how == "float32" else "float64")
    except ModelError:
        if solver.takes:
            return
        raise
    for case, got in zip(cases, found, strict=True):
        check_result(case, task, spec, got)


def fuzz(seeds: range, per_batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check batches of ten random models, with a few solvers for each batch."""
    monkeypatch.setattr(chooser, "_FEW_STATES", 64)  # Otherwise `auto` would enumerate them all.
    for seed in seeds:
        rng = np.random.default_rng(seed)
        cases = [Case(g, best_score(g)) for g in (constraint_model(rng) for _ in range(10))]
        for n in rng.permutation(len(SPECS))[:per_batch].tolist():
            spec, task = SPECS[n]
            how = str(rng.choice(WAYS))
            try:
                check_solver(cases, task, spec, seed, how)
            except Exception as error:
                raise AssertionError(f"seed {seed}, {spec} for {task}, {how}: {error!r}") from error


@pytest.mark.parametrize(("spec", "task"), [pytest.param(*s, id=f"{s[0]}-{s[1]}", marks=_marks(*s)) for s in SPECS])
@pytest.mark.parametrize("how", ["batch", "raw"])
def test_every_solver_knows_that_a_model_with_one_solution_is_possible(spec: str, task: Task, how: str) -> None:
    check_solver([Case(RUNAWAY, 0.0), Case(NO_SOLUTION, -math.inf), Case(RUNAWAY, 0.0)], task, spec, 0, how)


@pytest.mark.parametrize(("spec", "task"), [s for s in SPECS if solver_class(s[0].split("(")[0]).exact_on == "all"])
def test_exact_solvers_prove_that_there_is_none(spec: str, task: Task) -> None:
    found = solve([RUNAWAY, NO_SOLUTION, RUNAWAY], task, spec)
    best = Status.OPTIMAL if task is Task.MAP else Status.EXACT
    assert [result.status for result in found] == [best, Status.ZERO_PROBABILITY, best]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spec", ["bp", "bp(damping=0.5)", "bp(schedule=sequential)", "bp(engine=torch)"])
def test_a_table_of_zeros_gives_no_numbers_that_are_none(spec: str) -> None:
    graph = FactorGraph([2, 2], [([0, 1], np.zeros((2, 2))), ([0], [1.0, 2.0])])
    for task in PLAIN_TASKS:
        check_solver([Case(graph, -math.inf)], task, spec, 0, "raw")


def test_zero_probability_is_never_said_of_a_possible_model(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz(range(8), 4, monkeypatch)  # 80 models


@pytest.mark.slow
def test_zero_probability_is_never_said_of_20_000_possible_models(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz(range(1000, 3000), 6, monkeypatch)


@pytest.mark.parametrize(("spec", "task"), SPECS, ids=str)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_sums_of_logs_that_overflow_prove_nothing(spec: str, task: Task) -> None:
    large = np.full((2, 2), -1e308)
    equal = [[0.0, -math.inf], [-math.inf, 0.0]]
    graph = FactorGraph([2, 2, 2], [([0, 1], large), ([0, 1], large), ([1, 2], equal)], log=True)
    if parse_solver(spec).takes:
        pytest.skip("it does not take every graph")
    assert solve(graph, task, spec).status is not Status.ZERO_PROBABILITY
