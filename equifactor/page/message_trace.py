"""The trace of a solver's run, iteration by iteration: beliefs, residuals, the messages that change most, cycles.

The solver itself runs, along the same path as in `solve`. An object of a derived class watches it: it calls the
solver's step one iteration at a time and records the state in between. Runs without a trace cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.status import Status, Task
from equifactor.graph.marginals import Marginals
from equifactor.kernels.pointers import ptr_of
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import parse_solver
from equifactor.solving.running import estimates_of
from equifactor.solving.solver import Ending, IterativeSolver, Progress, SolveContext, Solver

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph

    Beliefs32 = NDArray[np.float32]

MOST_NUMBERS = 2e7  # Beliefs of all iterations together, 80 MB. Chosen by hand.
_SHOWN = 5  # Messages that are named in every iteration. Chosen by hand.
_SAME = 1e-3  # Largest difference of probabilities between two iterations that count as equal. Chosen by hand.
_MOVED = 10 * _SAME  # Smallest change of a probability per iteration in a cycle; smaller changes are convergence.


@dataclass(frozen=True)
class IterationTrace:
    """T iterations of one run over the V variables and X states of the graph."""

    solver: str
    status: str
    beliefs: Beliefs32  # [T, X]
    residuals: FloatArray  # [T]
    moving: list[list[dict[str, Any]]]  # [T] the messages that changed most: factor, variable, change in probability
    cycle: tuple[int, int] | None  # the period, and the first iteration of the cycle
    complete: bool = True  # whether the run ended by itself, not because enough iterations were recorded


def trace(
    graph: FactorGraph, solver: str, *, iterations: int, clock: Clock, progress: Progress | None = None
) -> IterationTrace:
    """Run a solver for MAR and record every iteration.

    A network that compares its answer with BP runs without this comparison, as `fe-net(alone)` does.

    Args:
        graph: the model with its evidence.
        solver: the text of an iterative solver, such as `bp`, `trw`, `meanfield`, `fe-nbp` or `fe-net`.
        iterations: the largest number of iterations.
        clock: the run ends when the clock stops.
        progress: called during the run; an exception that it raises ends the run.

    Raises:
        OptionError: if the solver has no iterations to show.
    """
    method: Any = parse_solver(solver)
    if hasattr(method, "alone"):  # Runs of BP beside a network are not iterations of the network.
        method = replace(method, alone=True)
    method.check_task(Task.MAR)
    seen = _Recorder(iterations)
    watched = _watched(method, seen)
    context = SolveContext(clock=clock, progress=progress)
    (probe,) = estimates_of(watched, [graph], Task.MAR, context)
    if probe.marginals is None or not seen.beliefs:
        empty = np.zeros((0, int(graph.structure.state_ptr[-1])), np.float32)
        why = probe.status if probe.marginals is None else clock.status or seen.status or Status.ITERATION_LIMIT
        return IterationTrace(str(method), str(why), empty, np.zeros(0), [], None)
    inner = np.concatenate((np.zeros((len(seen.beliefs), 1)), np.ones((len(seen.beliefs), 1)), seen.beliefs), axis=1)
    beliefs = inner[:, probe.marginals.values.astype(np.int64)].astype(np.float32)
    status = seen.status or (clock.status or Status.ITERATION_LIMIT)
    lowered = not method.takes_kinds_of(graph)
    moving = [[_named(row, graph, lowered) for row in rows] for rows in seen.moving]
    moving = [[row for row in rows if row["variable"] is not None] for rows in moving]
    cycle = None if status is Status.CONVERGED else find_period(beliefs)
    complete = seen.status is not None
    return IterationTrace(str(method), str(status), beliefs, np.array(seen.residuals), moving, cycle, complete)


def find_period(beliefs: Beliefs32 | FloatArray) -> tuple[int, int] | None:
    """Return the period of the last beliefs [T, X] and the iteration, from 0, since which they repeat, or None.

    Beliefs repeat if they have gone through at least three periods and still change; converged beliefs do not count.
    """
    count = len(beliefs)
    if count < 6:
        return None
    steps = np.abs(np.diff(beliefs[-(count // 3) - 1 :], axis=0)).max(axis=1, initial=0.0)
    back = np.abs(beliefs - beliefs[-1]).max(axis=1, initial=0.0)
    for period in range(2, count // 3 + 1):
        if back[-1 - period] >= _SAME or steps[-period:].max() < _MOVED:
            continue
        apart = np.abs(beliefs[period:] - beliefs[:-period]).max(axis=1)
        other = np.flatnonzero(apart >= _SAME)
        since = int(other[-1]) + 1 if len(other) else 0
        if count - since >= 3 * period:
            return period, since
    return None


class _EnoughError(Exception):
    """Raised to end a run that has enough iterations."""


@dataclass
class _Recorder:
    """The record of a watched solver, over the variables of the reduced graph on which it works."""

    most: int
    beliefs: list[Beliefs32] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    moving: list[list[tuple[int, int, float]]] = field(default_factory=list)
    status: Status | None = None
    flat: FlatGraph[np.ndarray] | None = None
    _messages: FloatArray | None = None

    def begin(self, flat: FlatGraph[np.ndarray], state: Any) -> None:
        """Record the first messages."""
        self.flat, self._messages = flat, _probabilities(flat, state)

    def restart(self) -> tuple[list[Beliefs32], list[float], list[list[tuple[int, int, float]]]]:
        """Return the record so far and start a new one."""
        kept = self.beliefs, self.residuals, self.moving
        self.beliefs, self.residuals, self.moving = [], [], []
        return kept

    def add(self, flat: FlatGraph[np.ndarray], p: Marginals | None, residual: float, state: Any = None) -> None:
        """Record one iteration; raise `_EnoughError` if enough iterations are recorded already.

        A run that ends with the last iteration to record still ends by itself, with its own status.
        """
        last = self.beliefs[-1] if self.beliefs else None
        if last is not None and (len(self.beliefs) >= self.most or len(self.beliefs) * last.size > MOST_NUMBERS):
            raise _EnoughError
        values = last if p is None else p.values.astype(np.float32)
        if values is None:
            raise _EnoughError
        messages = None if state is None else _probabilities(flat, state)
        if messages is not None and self._messages is not None:
            self.moving.append(_largest(flat, np.abs(messages - self._messages)))
        else:
            ptr = flat.graphs[0].structure.state_ptr
            self.moving.append([] if last is None else _largest_beliefs(np.abs(values - last), ptr))
        self._messages = messages
        moved = 0.0 if last is None else float(np.abs(values - last).max(initial=0.0))
        self.residuals.append(float(residual) if np.isfinite(residual) else moved)
        self.beliefs.append(values.copy())


def _watched(method: Solver, seen: _Recorder) -> Solver:
    """Return the same solver as an object of a derived class that records its iterations.

    In place of each probability, its answer contains the number of a column. So the answer maps the recorded beliefs to
    the variables of the original graph. Column 0 is impossible, column 1 is certain, and beliefs start at column 2.
    """
    from equifactor.solvers.messages.meanfield import MeanField

    base: Any = type(method)
    if isinstance(method, IterativeSolver):
        members = _iterating(base, seen)
    elif isinstance(method, MeanField):
        members = _ascending(base, seen)
    else:
        raise OptionError(f"{method.name} has no iterations to show. Choose from: bp, trw, meanfield, fe-nbp, fe-net.")

    def run(self: Any, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        try:
            (answer,) = base.run(self, graphs, task, context)
        except _EnoughError:
            answer = None
        if answer is not None:
            seen.status = answer.status
            if answer.marginals is None:
                return [answer]
        ptr = graphs[0].structure.state_ptr
        return [Estimate(status=Status.CONVERGED, marginals=Marginals(2.0 + np.arange(ptr[-1]), ptr))]

    new: Solver = object.__new__(type(base.__name__, (base,), {**members, "run": run}))
    vars(new).update(vars(method))
    return new


def _iterating(base: Any, seen: _Recorder) -> dict[str, Callable[..., Any]]:
    """Return the members of a class derived from a solver that iterates messages."""

    def init(self: Any, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> Any:
        state = base.init(self, flat, task, context)
        seen.begin(flat, state)
        return state

    def step(self: Any, state: Any, count: int) -> FloatArray:
        residual: FloatArray = np.zeros(1)
        for _ in range(count):
            residual = base.step(self, state, 1)
            ending = Ending([Status.ITERATION_LIMIT], residual, [len(seen.beliefs) + 1])
            assert seen.flat is not None
            (found,) = base.finish(self, seen.flat, state, Task.MAR, ending)
            seen.add(seen.flat, found.marginals, float(residual[0]), state)
        return residual

    return {"init": init, "step": step}


def _ascending(base: Any, seen: _Recorder) -> dict[str, Callable[..., Any]]:
    """Return the members of a class derived from mean field; the trace shows the start with the best bound."""
    best = -np.inf

    def ascend(self: Any, product: Any, q: FloatArray, context: SolveContext) -> tuple[FloatArray, int, bool]:
        nonlocal best
        before = seen.restart()
        try:
            answer = base._ascend(self, _WatchedField(product, seen), q, context)
        except _EnoughError:
            answer = q, self.iterations, False
        bound = product.bound(answer[0])
        if before[0] and not bound > best:
            seen.beliefs, seen.residuals, seen.moving = before
        best = max(best, bound)
        return answer

    return {"_ascend": ascend}


class _WatchedField:
    """A product of marginals whose sweeps are recorded."""

    def __init__(self, product: Any, seen: _Recorder) -> None:
        self._product, self._seen = product, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._product, name)

    def sweep(self, q: FloatArray, penalty: float, *, hard: bool, clock: Clock | None = None) -> float:
        change: float = self._product.sweep(q, penalty, hard=hard, clock=clock)
        flat = self._product.flat
        if change < np.inf:  # The clock has not stopped the sweep.
            self._seen.add(flat, flat.marginals(q)[0], change)
        return change


def _probabilities(flat: FlatGraph[np.ndarray], state: Any) -> FloatArray | None:
    """Return the normalised messages [S] to variables; None if the state has no messages."""
    if not hasattr(state, "messages"):
        return None
    log_m = np.asarray(state.messages(), float)
    if len(log_m) != flat.num_edge_states or not len(log_m):
        return None
    first = ptr_of(np.bincount(flat.edge_of_edge_state, minlength=flat.num_edges))[:-1]
    top = np.maximum.reduceat(log_m, first)
    p = np.exp(log_m - np.where(np.isneginf(top), 0.0, top)[flat.edge_of_edge_state])
    return p / np.maximum(np.add.reduceat(p, first), 1e-300)[flat.edge_of_edge_state]


def _largest(flat: FlatGraph[np.ndarray], change: FloatArray) -> list[tuple[int, int, float]]:
    """Return the messages that changed most: factor, variable, change."""
    first = ptr_of(np.bincount(flat.edge_of_edge_state, minlength=flat.num_edges))[:-1]
    by_edge = np.maximum.reduceat(change, first)
    variables = flat.graphs[0].free_vars[flat.var_of_edge]
    return [(int(flat.factor_of_edge[e]), int(variables[e]), float(by_edge[e])) for e in _top(by_edge)]


def _largest_beliefs(change: Beliefs32 | FloatArray, ptr: IntArray) -> list[tuple[int, int, float]]:
    """Return the variables whose beliefs changed most, for methods without messages."""
    by_variable = np.maximum.reduceat(change, ptr[:-1])
    return [(-1, v, float(by_variable[v])) for v in _top(by_variable)]


def _top(values: Beliefs32 | FloatArray) -> list[int]:
    """Return the positions of the largest values above 0, the largest first."""
    few = np.argpartition(-values, _SHOWN - 1)[:_SHOWN] if len(values) > _SHOWN else np.arange(len(values))
    return [n for n in few[np.argsort(-values[few], kind="stable")].tolist() if values[n] > 0]


def _named(row: tuple[int, int, float], graph: FactorGraph, lowered: bool) -> dict[str, Any]:
    """Return a message by factor and variable of the graph; None for auxiliary ones of a lowered graph."""
    factor, variable, change = row
    own = 0 <= factor < graph.num_factors and not lowered
    return {
        "factor": factor if own else None,
        "variable": variable if variable < graph.num_vars else None,
        "change": float(f"{change:.4g}"),
    }
