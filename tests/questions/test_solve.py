from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import math
import pickle
import re
import signal
import time
from dataclasses import dataclass
from types import FunctionType

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, OptionError, Result, SolveError, Status, solve
from equifactor.base.clock import Clock, Compiling, TimeIsUp
from equifactor.base.status import PLAIN_TASKS, Task
from equifactor.generators import ising_grid, random_graph
from equifactor.graph.marginals import Marginals
from equifactor.kernels.compile_costs import check_time
from equifactor.questions.unread_result import UnreadResult
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import GraphSolver, IterativeSolver


@pytest.fixture
def pair() -> FactorGraph:
    return FactorGraph(
        {"rain": ["no", "yes"], "grass": ["dry", "wet"]},
        [(["rain"], [0.8, 0.2]), (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]])],
        name="lawn",
    )


def test_answers_by_name(pair: FactorGraph) -> None:
    result = solve(pair, "MAR", evidence={"grass": "wet"})
    np.testing.assert_allclose(result.marginal("rain"), np.array([0.08, 0.19]) / 0.27)
    np.testing.assert_array_equal(result.marginal("grass"), [0.0, 1.0])
    assert result.log_z == pytest.approx(math.log(0.27))
    best = solve(pair, "map", "brute")
    assert (best.state("rain"), best.state("grass")) == ("no", "dry")
    assert best.gap == 0.0
    assert best.log_score == pytest.approx(math.log(0.72))
    assert "lawn" in repr(pair)


def test_soft_evidence_multiplies(pair: FactorGraph) -> None:
    hard = solve(pair, "PR", "brute", evidence={"grass": "wet"}).log_z
    soft = solve(pair, "PR", "brute", evidence={"grass": [0.0, 1.0]}).log_z
    assert soft == pytest.approx(hard)


def test_mpe_is_map(pair: FactorGraph) -> None:
    assert solve(pair, "MPE", "brute").task is Task.MAP


@pytest.mark.parametrize(
    ("kwargs", "fragment"),
    [
        ({"task": "MAX"}, r"no task 'MAX'\. The tasks are MAR \(marginals\), PR"),
        ({"task": "MMAPS"}, r"no task 'MMAPS'\. The tasks are .*variables\)\.$"),
        ({"task": "bp"}, r"no task 'bp'\. .* bp is a solver: write solver='bp', or --solver"),
        ({"task": "bp(damping=0.5)"}, r"write solver='bp\(damping=0\.5\)'"),
        ({"task": {0: 1}}, r"no task \{0: 1\}\. .* is evidence: write evidence=\{0: 1\}"),
        ({"time_limit": -1}, "time limit"),
        ({"time_limit": float("nan")}, "time limit"),
        ({"time_limit": "1"}, "The time limit must be a number of seconds of at least 0, found '1'"),
        ({"seed": 1.5}, "The seed must be a whole number of at least 0, found 1.5"),
        ({"seed": -1}, "The seed must be a whole number of at least 0, found -1"),
        ({"device": None}, "The device must be a name such as cpu or cuda, found None"),
        ({"dtype": "float16"}, "float32 or float64"),
        ({"solver": "bp", "device": "cuda:77"}, "cuda:77"),
        ({"solver": "bp", "device": "tpu9"}, "no device 'tpu9'"),
    ],
)
def test_wrong_arguments(pair: FactorGraph, kwargs, fragment: str) -> None:
    with pytest.raises(OptionError, match=fragment):
        solve(pair, **kwargs)


@pytest.mark.parametrize("graph", [None, 5, "model.uai", {"a": 1}])
def test_what_is_no_graph(graph: object) -> None:
    with pytest.raises(ModelError, match="Expected a FactorGraph or several"):
        solve(graph, "MAR", "brute")  # type: ignore[call-overload]


@pytest.mark.parametrize("solver", ["bp", "mplp", "srmp", "local-search", "beam", "best-first", "fe-nbp"])
def test_map_without_support_says_so(solver: str) -> None:
    # Any two of these tables are possible together, so belief propagation sees nothing wrong.
    equal, differ = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    impossible = FactorGraph([2, 2, 2], [([0, 1], equal), ([1, 2], equal), ([0, 2], differ)])
    result = solve(impossible, "MAP", solver)
    assert result.log_score == -math.inf
    assert result.lower_bound in (None, -math.inf)
    assert not result.status.solved
    assert "The assignment has probability zero" in result.message
    with pytest.raises(SolveError, match="probability zero"):
        solve(impossible, "MAP", solver, strict=True)


def test_results_are_compared_by_identity_and_shown_everywhere(pair: FactorGraph) -> None:
    result, again = solve(pair, "MAP", "brute"), solve(pair, "MAP", "brute")
    assert result == result
    assert result != again  # and no error from comparing arrays
    assert len({result, again}) == 2
    assert "status</th>" in result._repr_html_()
    assert pickle.loads(pickle.dumps(result)).log_score == result.log_score
    with pytest.raises(SolveError, match="answered MAP, so it has no marginals"):
        result.marginal("rain")


def test_json_is_finite_and_complete(pair: FactorGraph) -> None:
    keys = {
        "model", "task", "solver", "status", "log_z", "log_score", "lower_bound", "upper_bound", "assignment",
        "marginals", "iterations", "seconds", "version",
    }  # fmt: skip
    impossible = FactorGraph([2], [([0], [1.0, 0.0]), ([0], [0.0, 1.0])])
    for graph in (pair, impossible):
        for task in PLAIN_TASKS:
            for solver in ("brute", "bp", "exact"):
                row = solve(graph, task, solver).to_dict()
                assert keys <= set(row)
                json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("solver", ["bp", "bp(iterations=2)", "trw", "meanfield", "mini-buckets", "exact", "auto"])
def test_ln_z_has_an_error_or_bounds_or_the_text_says_that_it_has_neither(solver: str) -> None:
    result = solve(ising_grid(4, 4, seed=0), "PR", solver)
    known = result.log_z_error, result.lower_bound, result.upper_bound
    judged = any(value is not None for value in known)
    assert judged is not solver.startswith("bp")
    assert ("error of ln Z not known" in str(result)) is not judged
    assert ("The error of ln Z is not known." in result.to_dict()["message"]) is not judged


def test_zero_probability_is_a_status_with_a_sentence() -> None:
    contradiction = FactorGraph([2, 2], [([0], [1, 0]), ([0, 1], [[0, 0], [1, 1]])])
    for solver in ("brute", "exact", "bp", "auto"):
        for task in PLAIN_TASKS:
            result = solve(contradiction, task, solver)
            assert result.status is Status.ZERO_PROBABILITY
            assert "probability zero" in (result.message or result.status.advice)
            assert result.log_z == -math.inf
    with pytest.raises(SolveError, match="probability zero"):
        solve(contradiction, "PR", "brute", strict=True)


def test_strict_raises_on_no_convergence() -> None:
    rng = np.random.default_rng(1)
    triangle = FactorGraph([2] * 3, [(s, np.exp(3 * rng.normal(size=(2, 2)))) for s in ([0, 1], [1, 2], [2, 0])])
    assert solve(triangle, "MAR", "bp(iterations=1)").status is Status.ITERATION_LIMIT
    with pytest.raises(SolveError, match="did not converge within its limit"):
        solve(triangle, "MAR", "bp(iterations=1)", strict=True)


def test_brute_refuses_with_the_size() -> None:
    result = solve(FactorGraph([2] * 23), "PR", "brute")
    assert result.status is Status.TOO_LARGE
    assert "2^23" in result.message
    assert not result.answered
    huge = solve(FactorGraph([3] * 5000), "PR", "brute")
    assert huge.status is Status.TOO_LARGE


@dataclass(frozen=True, kw_only=True)
class Bad(GraphSolver):
    """A solver that returns NaN, as a method with a defect might."""

    name = "bad"

    def run_one(self, graph, task, context):
        return Estimate(
            status=Status.CONVERGED,
            log_z=math.nan,
            marginals=Marginals(np.array([np.nan, 1.0]), np.array([0, 2])),
        )


def test_nan_never_reaches_the_user() -> None:
    result = solve(FactorGraph([2]), "MAR", Bad())
    assert result.status is Status.NON_FINITE
    assert not hasattr(result, "log_z")
    assert not hasattr(result, "marginals")


@dataclass(frozen=True, kw_only=True)
class BadForOne(GraphSolver):
    """A solver that returns NaN only for graphs of three states in a batch."""

    name = "bad-for-one"

    def run_one(self, graph, task, context):
        d = int(graph.card[0])
        p = np.full(d, np.nan if d == 3 else 1 / d)
        return Estimate(status=Status.CONVERGED, log_z=0.0, marginals=Marginals(p, np.array([0, d])))


def test_nan_in_a_batch_costs_the_others_nothing() -> None:
    results = solve([FactorGraph([d]) for d in (2, 3, 4)], "MAR", BadForOne())
    assert [r.status for r in results] == [Status.CONVERGED, Status.NON_FINITE, Status.CONVERGED]
    assert [not hasattr(r, "marginals") for r in results] == [False, True, False]
    assert [r.log_z for r in results] == [0.0] * 3


def test_an_estimate_from_a_dictionary_is_the_same_estimate() -> None:
    fields = {"status": Status.EXACT, "log_z": 1.5, "stats": {"width": 2}}
    quick, slow = Estimate.of(fields), Estimate(**fields)
    for field in dataclasses.fields(Estimate):
        assert getattr(quick, field.name) == getattr(slow, field.name)
    assert repr(quick) == repr(slow)
    assert dataclasses.replace(quick, log_z=2.0).stats == {"width": 2}
    assert pickle.loads(pickle.dumps(quick)).log_z == 1.5
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.log_z = 2.0  # type: ignore[misc]


@pytest.mark.parametrize("solver", ["exact", "auto"])
def test_results_of_a_large_batch_are_made_when_they_are_read(solver: str) -> None:
    graphs = ising_grid(4, 4, seed=0, count=70)
    results, alone = solve(graphs, "MAR", solver), solve(graphs[7], "MAR", solver)
    assert all(isinstance(result, Result) for result in results)
    assert {type(result) for result in results} == {UnreadResult}
    for one in (results[7], pickle.loads(pickle.dumps(results[7])), copy.copy(solve(graphs, "MAR", solver)[7])):
        np.testing.assert_allclose(one.marginals.values, alone.marginals.values, atol=1e-12)
        assert (one.status, one.message, one.graph.log_phi[0]) == (alone.status, alone.message, graphs[7].log_phi[0])
        assert one.log_z == pytest.approx(alone.log_z, abs=1e-12)
        assert type(one) is Result
    assert repr(results[8]).startswith("Result(status=<Status.EXACT: 'exact'>, ")
    assert not hasattr(results[9], "assignment")
    with pytest.raises(dataclasses.FrozenInstanceError):
        results[10].log_z = 2.0  # type: ignore[misc]


def test_a_batch_gives_what_each_graph_gives_alone() -> None:
    graphs = [
        *ising_grid(3, 3, seed=0, count=3),
        ising_grid(3, 3, seed=5).condition({4: 1}),
        *(random_graph(6, 9, arity=(1, 3), card=(2, 4), zeros=0.1, seed=n) for n in range(4)),
    ]
    for task in PLAIN_TASKS:
        batch = solve(graphs, task, "bp(damping=0.5, iterations=20, tolerance=0)")
        assert isinstance(batch, list)
        for graph, one in zip(graphs, batch, strict=True):
            alone = solve(graph, task, "bp(damping=0.5, iterations=20, tolerance=0)")
            assert one.graph is graph
            assert (one.status, one.iterations, one.task) == (alone.status, alone.iterations, task)
            for name in ("log_z", "log_score"):
                assert getattr(one, name, None) == pytest.approx(getattr(alone, name, None))
            if hasattr(one, "marginals"):
                np.testing.assert_array_equal(one.marginals.ptr, graph.structure.state_ptr)
                np.testing.assert_allclose(one.marginals.values, alone.marginals.values, atol=1e-12)


@dataclass
class Count:
    n: int = 0


@dataclass(frozen=True, kw_only=True)
class Counter(IterativeSolver[Count]):
    """A solver that counts iterations, and converges after a given number."""

    name = "counter"
    settle_at: int = 10**9
    nan_at: int = 0
    watch: FunctionType = lambda count: None  # is called with the number of iterations at every step

    def init(self, flat, task, context):
        return Count()

    def step(self, state, count):
        self.watch(count)
        state.n += count
        return np.array([0.0 if state.n >= self.settle_at else math.nan if state.n >= self.nan_at > 0 else 1.0])

    def finish(self, flat, state, task, ending):
        return [Estimate(status=ending.status[0], log_z=float(state.n), iterations=ending.iterations[0])]


def test_loop_stops_for_each_reason(driven_time) -> None:
    graph = FactorGraph([2])
    assert solve(graph, "PR", Counter(settle_at=7)).status is Status.CONVERGED
    assert solve(graph, "PR", Counter(settle_at=7)).log_z == 7
    assert solve(graph, "PR", Counter(iterations=5)).status is Status.ITERATION_LIMIT
    assert solve(graph, "PR", Counter(iterations=0)).log_z == 0
    slow = Counter(iterations=10**6, watch=lambda count: driven_time.advance(0.01 * count))
    late = solve(graph, "PR", slow, time_limit=0.1)
    assert late.status is Status.TIME_LIMIT
    assert 0 < late.log_z < 100
    broken = solve(graph, "PR", Counter(nan_at=4))
    assert broken.status is Status.NON_FINITE
    assert broken.iterations == 4


def test_ctrl_c_returns_the_best_answer_so_far() -> None:
    made: list[int] = []

    def press_ctrl_c(count: int) -> None:
        made.append(count)
        if len(made) == 3:
            signal.raise_signal(signal.SIGINT)

    result = solve(FactorGraph([2]), "PR", Counter(iterations=10**6, watch=press_ctrl_c))
    assert result.status is Status.INTERRUPTED
    assert result.log_z > 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_is_counted_also_when_the_run_was_as_good_as_done() -> None:
    before = Clock.interrupts
    with Clock().govern():
        signal.raise_signal(signal.SIGINT)
    assert Clock.interrupts == before + 1


def test_progress_is_reported() -> None:
    seen = []
    solve(FactorGraph([2]), "PR", Counter(settle_at=3), progress=lambda *a: seen.append(a))
    assert [done for done, _, _ in seen] == [1, 2, 3]
    assert seen[0][1] == 200


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits count compiling, as they do outside of tests."""
    monkeypatch.setattr(Clock, "ignores_compiling", False)


def test_a_time_limit_counts_compiling(driven_time, counted) -> None:
    limited, free, before = Clock(1000.0), Clock(), Compiling.seconds
    part = Clock(100.0, whole=free)
    driven_time.advance(2.0)
    Compiling.begin()
    Compiling.begin()  # one kernel within another
    driven_time.advance(5.0)
    Compiling.end()
    Compiling.end()
    assert Compiling.seconds - before == 5.0
    assert (limited.seconds, limited.left, limited.working, limited.compiling) == (7.0, 993.0, 2.0, 5.0)
    assert (free.seconds, part.seconds, part.left) == (2.0, 2.0, 98.0)


@pytest.mark.parametrize(("compiling", "limit", "sentence"), [(5.0, 20.0, "5 s went"), (5.0, None, ""), (0.5, 9.0, "")])
def test_compiling_is_reported(driven_time, counted, compiling: float, limit: float | None, sentence: str) -> None:
    compiled: list[int] = []

    def compile_once(count: int) -> None:
        driven_time.advance(0.01 * count)
        if not compiled:
            compiled.append(count)
            Compiling.begin()
            driven_time.advance(compiling)
            Compiling.end()

    result = solve(FactorGraph([2]), "PR", Counter(iterations=10, watch=compile_once), time_limit=limit)
    assert result.seconds == pytest.approx(0.1 if limit is None else 0.1 + compiling)
    assert result.stats["compile_seconds"] == compiling
    assert ("went into compiling kernels" in result.message) == bool(sentence)
    assert sentence in result.message


def test_a_kernel_that_would_be_late_is_not_compiled(driven_time, counted) -> None:
    def compile_late(count: int) -> None:
        driven_time.advance(0.9)
        check_time("solvers.of.nobody.kernel")

    assert solve(FactorGraph([2]), "PR", Counter(iterations=10, watch=compile_late)).answered
    result = solve(FactorGraph([2]), "PR", Counter(iterations=10, watch=compile_late), time_limit=1.0)
    assert result.status is Status.TIME_LIMIT
    assert "A compiled kernel is missing" in result.message
    assert "equifactor doctor --warm" in result.message


def test_auto_answers_whatever_happens_to_exact() -> None:
    graph = ising_grid(5, 5, seed=0)
    for task in PLAIN_TASKS:
        for limit in (0.0, 1e-3):
            result = solve(graph, task, "auto", time_limit=limit)
            assert result.answered, (task, limit, result.message)
        small = solve(ising_grid(2, 2, seed=0), task, "auto", time_limit=0.0)
        assert small.answered
        assert small.status is Status.TIME_LIMIT


def test_part_of_a_clock(driven_time) -> None:
    clock = Clock(100.0)
    driven_time.advance(20.0)
    part = clock.part(0.5)
    assert part.left == 40.0
    assert Clock().part(0.5).left == math.inf
    clock.interrupted = True
    assert part.stopped
    assert part.status is Status.INTERRUPTED
    assert clock.part(0.5).stopped


def test_clock() -> None:
    assert Clock().left == math.inf
    assert Clock().status is None
    assert Clock(0.0).status is Status.TIME_LIMIT
    clock = Clock(100.0)
    clock.interrupted = True
    assert clock.stopped
    assert clock.status is Status.INTERRUPTED


@pytest.mark.parametrize(
    ("solver", "given", "sentence"),
    [
        ("bp", {"damping": 5}, "bp: damping must be at least 0.0 and below 1.0, found 5"),
        (
            "bp",
            {"dampin": 0.5},
            "Neither solve nor bp has an option dampin; did you mean damping? choose from: evidence, ",
        ),
        ("auto", {"timelimit": 3}, "Neither solve nor auto has an option timelimit; did you mean time_limit?"),
    ],
)
def test_unknown_arguments(solver: str, given: dict, sentence: str) -> None:
    pattern = ".*".join(re.escape(part) for part in sentence.split(".*"))
    with pytest.raises(OptionError, match=pattern):
        solve(FactorGraph([2]), "MAR", solver, **given)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
def test_alarm_rings_until_it_is_heard() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with contextlib.suppress(TimeIsUp), Clock(0.05).alarm():
        with contextlib.suppress(TimeIsUp):  # lost in a callback of the user
            time.sleep(5)
        time.sleep(5)
        pytest.fail("it rings once only")
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    Compiling.begin()  # a kernel is being compiled, and its time does not count
    try:
        with Clock(0.05).alarm():
            time.sleep(0.5)
    finally:
        Compiling.end()


def test_an_iteration_that_would_end_far_too_late_is_not_begun(driven_time) -> None:
    from equifactor import Task
    from equifactor.solvers import SolveContext
    from equifactor.solvers.messages.bp import BeliefPropagation

    class Slow(BeliefPropagation):
        def step(self, state, count):
            driven_time.advance(2.0)
            super().step(state, count)
            return np.ones(1)

    clock = Clock(5.0)
    estimate = Slow().run([ising_grid(3, 3, seed=0)], Task.MAR, SolveContext(clock=clock))[0]
    assert (estimate.status, estimate.iterations) == (Status.TIME_LIMIT, 2)  # one second is left, and a third takes two
