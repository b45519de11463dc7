"""Proven MAP by toulbar2's branch and bound, through its Python package."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import math
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph


_MOST_COST = 2.0**52  # Largest sum of costs: whole numbers in floating point, and far below toulbar2's own limit.
# Most decimal digits of the logs that costs keep: with logs of up to 1,000 these are the 15 digits of a float64.
_MOST_DIGITS = 12
_NEVER = 10**8  # Seconds of a timer that is never reached.
_ALARM_SECONDS = 0.01  # Seconds: the shortest alarm, since an alarm needs a positive time.


@register("toulbar2")
@dataclass(frozen=True, kw_only=True)
class Toulbar2(GraphSolver):
    """MAP proven by toulbar2 (branch and bound with soft local consistency); needs the extra `toulbar2`.

    Log tables become whole costs `round(10^k (max - log))`, with k as large as the range of the model allows. The
    largest error of rounding, `factors / 10^k`, is added to the upper bound.
    """

    tasks = (Task.MAP,)
    exact_on = "all"

    vac: bool = option(False, "virtual arc consistency before the search: slower to start, tighter bounds")

    @classmethod
    def missing(cls) -> str | None:
        """Return why it cannot run here, in a sentence; None if it can."""
        if importlib.util.find_spec("pytoulbar2") is None:
            return (
                "The solver toulbar2 needs the package pytoulbar2. Install it with: pip install 'equifactor[toulbar2]'"
            )
        return None

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return the best assignment, proven unless time runs out; then the best one found, with bounds."""
        missing = self.missing()
        if missing is not None:
            raise OptionError(missing)
        if context.clock.stopped:
            return Estimate(status=context.clock.status or Status.TIME_LIMIT)
        free_part = to_free_part(graph)
        if free_part is None:
            return impossible()
        problem = Costs.of(free_part.graph)
        with _silence():
            states, dual, proven, nodes = self._search(free_part.graph.card, problem, context)
        if states is None and proven:
            return zero_by_exclusion(graph)
        if not proven and context.clock.left > _ALARM_SECONDS:
            context.clock.interrupted = True  # nothing else stops a search before its time
        upper = problem.score(dual) + problem.slack
        stats = {"nodes": nodes, "digits": problem.digits}
        ending = context.clock.status or Status.TIME_LIMIT
        if states is None:
            return Estimate(status=ending, upper_bound=upper, stats=stats)
        assignment = free_part.assignment(states)
        score = graph.log_score(assignment)
        return Estimate(
            status=Status.OPTIMAL if proven else ending,
            assignment=assignment,
            lower_bound=score,
            upper_bound=max(score, upper),
            stats=stats,
        )

    def _search(
        self, card: IntArray, problem: Costs, context: SolveContext
    ) -> tuple[IntArray | None, float, bool, int]:
        """Return the best states found [v], the dual bound in costs, whether the search finished, and its nodes."""
        toulbar2: Any = importlib.import_module("pytoulbar2")
        cfn = toulbar2.CFN(resolution=0, vac=int(self.vac), seed=1 + context.seed % 2**30, verbose=-1)
        for i, d in enumerate(card.tolist()):
            cfn.AddVariable(f"x{i}", range(d))
        for scope, costs in zip(problem.scopes, problem.tables, strict=True):
            cfn.AddFunction(scope, costs)
        with _alarm(cfn, context.clock.left):
            solution = cfn.Solve()
        proven, nodes = not cfn.Option.limited, int(cfn.GetNbNodes())
        if solution is None:
            return None, float(cfn.GetDDualBound()), proven, nodes
        # After a search that was stopped early, toulbar2 states weaker dual bounds of later searches in the process.
        dual = float(solution[1] if proven else cfn.GetDDualBound())
        return np.array(solution[0], np.int64), dual, proven, nodes


@dataclass(frozen=True)
class Costs:
    """A graph in whole costs: `score = best - cost / 10^digits`."""

    scopes: list[list[int]]  # the variables of each factor
    tables: list[list[float]]  # whole numbers, infinite where a table is zero
    best: float  # the sum of the largest entries of all tables
    digits: int  # the decimal digits of the logs that are kept

    @classmethod
    def of(cls, graph: FactorGraph) -> Costs:
        """Return the costs of a graph without observed variables, at the finest scale its range allows."""
        s, log_phi = graph.structure, graph.log_phi
        starts = s.table_ptr[:-1]
        top = np.maximum.reduceat(log_phi, starts) if len(starts) else np.zeros(0)
        low = np.minimum.reduceat(np.where(np.isneginf(log_phi), np.inf, log_phi), starts) if len(starts) else top
        total = float((top - low).sum())
        digits = min(_MOST_DIGITS, math.floor(math.log10(_MOST_COST / max(total, 1e-9))))
        costs = np.rint((np.repeat(top, np.diff(s.table_ptr)) - log_phi) * 10.0**digits)
        scopes, tables = [], []
        for a in np.flatnonzero(np.diff(s.scope_ptr)).tolist():
            scopes.append(s.scope_vars[s.scope_ptr[a] : s.scope_ptr[a + 1]].tolist())
            tables.append(costs[s.table_ptr[a] : s.table_ptr[a + 1]].tolist())
        return cls(scopes, tables, float(top.sum()), digits)

    def score(self, cost: float) -> float:
        """Return the log score of a cost."""
        return self.best - cost / 10.0**self.digits

    @property
    def slack(self) -> float:
        """The largest change of a score by rounding to whole costs."""
        return 0.5 * len(self.tables) / 10.0**self.digits


@contextlib.contextmanager
def _alarm(cfn: Any, seconds: float) -> Iterator[None]:
    """Stop the search at the deadline, and on Ctrl-C.

    toulbar2 holds Python's lock while it searches and counts whole CPU seconds, which pass more slowly on a busy
    machine. Its timer works by a signal handler, so that handler also gets the alarm of the real clock and the
    interrupt key.
    """
    cfn.CFN.timer(_NEVER)  # installs the handler
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    stop = libc.signal(signal.SIGVTALRM, None)
    libc.signal(signal.SIGVTALRM, stop)
    before = {number: libc.signal(number, stop) for number in (signal.SIGALRM, signal.SIGINT)}
    try:
        if seconds < math.inf:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, _ALARM_SECONDS))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        cfn.CFN.timerStop()
        for number, handler in before.items():
            libc.signal(number, handler)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard the output of C++ to stdout and stderr: the answers of the command go to stdout."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for target, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, target)
            os.close(saved)
        os.close(nowhere)
