"""The solver `auto`, the default: it looks at the graph, then picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from equifactor.options import option
from equifactor.registry import parse_solver, register
from equifactor.result import Estimate, Status, Task
from equifactor.solver import SolveContext, Solver
from equifactor.solvers.elimination.brute import BruteForce
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.elimination.impossibility import zero_by_exclusion

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

_FEW_STATES = 2**14  # Up to this many joint states, enumeration answers before the kernels of elimination are loaded.
_MOST = 0.75  # Exact is stopped after this share of the time left, whatever its estimate: someone must give an answer.
_SHARE = 2 / 3  # Exact may take this share of its time by its own estimate.
_QUICK = 0.1  # Exact MAP is preceded by bounds when it takes more seconds than this.
_BEFORE = 0.25  # Bounds get this share of the time of exact MAP: they often prove an assignment sooner.
_UNLIMITED = 60.0  # Exact may take this many seconds when there is no deadline.


@register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(Solver):
    """Exact where its plan fits time and memory; else BP with bounds, or for MAP search with bounds.

    Marginals are those of `fe-net` where no run of BP settles or its beliefs vanish.
    The message says what was chosen and why. MAP without a proof goes on to the time limit, or for `seconds`.
    """

    exact_on = "trees"  # It is exact wherever it picks exact, but that depends on the limits.
    symmetries = frozenset()  # Search and dual bounds follow the order of the model.

    memory_limit: float = option(4.0, "GiB that exact may use", low=0.0)
    seconds: float = option(10.0, "time for MAP search when there is no time limit", low=0.0)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Plan once for neighbours that share a structure; what exact refuses goes to the portfolio of the task."""
        from equifactor.solvers.elimination.exact_batch import same_structure

        answers: list[Estimate] = []
        rest: list[int] = []  # These graphs are for the portfolio; a place is held for them in `answers`.
        reasons: list[str] = []
        start = 0
        for stop in range(1, len(graphs) + 1):
            if stop < len(graphs) and same_structure(graphs[start], graphs[stop]):
                continue
            group = graphs[start:stop]
            found = self._exact(group, task, replace(context, clock=context.clock.part(_MOST)))
            for n, answer in enumerate([found] * len(group) if isinstance(found, str) else found):
                if isinstance(answer, str):
                    rest.append(start + n)
                    reasons.append(answer)
                    answer = Estimate(status=Status.TIME_LIMIT)
                answers.append(answer)
            start = stop
        if rest:
            for n, estimate in zip(
                rest, self._portfolio([graphs[n] for n in rest], reasons, task, context), strict=True
            ):
                answers[n] = estimate
        return answers

    def _exact(self, group: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate | str] | str:
        """Exact answers for graphs of one structure, or why there are none, for one graph or for all."""
        states = group[0].num_joint_states
        if states * len(group) <= _FEW_STATES:
            brute = BruteForce()
            return _unless_stopped(brute.run(group, task, context), brute, f"there are {states:,} joint states")
        solver = Exact(memory_limit=self.memory_limit)
        plan = solver.plan(group[0], task, context)
        if plan.impossible:
            return solver.run(group, task, context)
        budget = _UNLIMITED if context.clock.time_limit is None else _SHARE * context.clock.left
        if not plan.finished:
            return f"no elimination order within {self.memory_limit:g} GiB was found, given up at width {plan.width}"
        if not plan.fits(self.memory_limit, task):
            return f"exact would need {plan.cost_of(task)}"
        if plan.seconds(task) * len(group) > budget:
            return f"exact would take about {plan.seconds(task) * len(group):.2g} s"
        if task is Task.MAP and len(group) == 1 and plan.seconds(task) > _QUICK:
            why = f"exact would take about {plan.seconds(task):.2g} s"
            estimate = self._search(group[0], why, _BEFORE * plan.seconds(task), context)
            if estimate.status is Status.OPTIMAL or context.clock.stopped:
                return [estimate]
        estimates = (
            [solver.run_plan(group[0], plan, task, context)] if len(group) == 1 else solver.run(group, task, context)
        )
        return _unless_stopped(estimates, solver, f"it needs {plan.cost_of(task)}")

    def _portfolio(
        self, graphs: Sequence[FactorGraph], reasons: list[str], task: Task, context: SolveContext
    ) -> list[Estimate]:
        if task is Task.MAP:
            return [self._best_assignment(g, why, context) for g, why in zip(graphs, reasons, strict=True)]
        from equifactor.solvers.auto.sum_portfolio import FAILED, LEARNED, estimates, with_bounds

        answers = []
        for (estimate, spec), graph, why in zip(estimates(graphs, task, context), graphs, reasons, strict=True):
            if task is Task.PR and len(graphs) == 1 and estimate.log_z is not None:
                estimate = with_bounds(estimate, graph, context)
            answers.append(_say(estimate, parse_solver(spec), f"{why}, and {FAILED}" if spec == LEARNED else why))
        return answers

    def _best_assignment(self, graph: FactorGraph, why: str, context: SolveContext) -> Estimate:
        seconds = self.seconds if context.clock.time_limit is None else context.clock.left
        return self._search(graph, why, seconds, context)

    def _search(self, graph: FactorGraph, why: str, seconds: float, context: SolveContext) -> Estimate:
        """MAP by the portfolio, for at most `seconds`."""
        from equifactor.solvers.auto.map_portfolio import MapPortfolio, without_cheap_variables

        shrunk = without_cheap_variables(graph)
        if shrunk is None:
            return zero_by_exclusion(graph)
        if not shrunk.graph.num_vars:
            estimate = shrunk.optimum()
            late = context.clock.status  # The answer is the same, but whoever set a deadline wants to know.
            estimate = estimate if late is None else replace(estimate, status=late)
            return _say(estimate, "elimination", "every variable was cheap to eliminate")
        return _say(MapPortfolio(shrunk, context, self.gap).solve(seconds), "search with bounds", why)


def _unless_stopped(estimates: Sequence[Estimate], solver: Solver, why: str) -> list[Estimate | str]:
    """Exact answers, or for those that were cut short, which are none, the reason for the portfolio to give one."""
    stopped = (Status.TIME_LIMIT, Status.INTERRUPTED)
    return [
        f"{solver.name} was stopped before its end" if e.status in stopped else _say(e, solver, why) for e in estimates
    ]


def _say(estimate: Estimate, chosen: Solver | str, why: str) -> Estimate:
    message = f"auto chose {chosen}: {why}. {estimate.message or estimate.status.advice}"
    return replace(estimate, message=message, stats={**estimate.stats, "chosen": str(chosen)})
