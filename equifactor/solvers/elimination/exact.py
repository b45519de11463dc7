"""Exact inference by variable elimination."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.registry import option, register
from equifactor.result import Estimate, Status, Task, impossible
from equifactor.solver import GraphSolver, Run
from equifactor.solvers.elimination.eliminate import Best, Sums, maximise, sum_out
from equifactor.solvers.elimination.exact_batch import batch_sums, plan_structure, same_structure
from equifactor.solvers.elimination.orders import Hopeless
from equifactor.solvers.elimination.plan import Plan, format_bytes, plan

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

_WORK_PER_SECOND = 5e7  # list operations of the planner, at the slow end
_HOPE = 3.0  # a plan is run although its estimate is so many times the time left: the estimate may be off


@register("exact")
@dataclass(frozen=True, kw_only=True)
class Exact(GraphSolver):
    """Variable elimination along the best of many greedy orders; refuses when its plan is over the memory limit."""

    exact_on = "all"

    memory_limit: float = option(4.0, "GiB of tables", low=0.0)
    tries: int = option(256, "most elimination orders to try", low=1)

    def run(self, graphs: Sequence[FactorGraph], task: Task, run: Run) -> list[Estimate]:
        """Neighbouring graphs of one structure are planned once and run as a batch; others one by one."""
        answers: list[Estimate] = []
        for group in _groups(graphs):
            answers += self._run_group(group, task, run)
            if len(graphs) > 1:
                run.report(len(answers), len(graphs))
        return answers

    def run_one(self, graph: FactorGraph, task: Task, run: Run) -> Estimate:
        """Plan, check the cost, run; connected components come out as separate roots."""
        if run.clock.stopped:
            return Estimate(status=run.clock.status or Status.TIME_LIMIT)
        return self.run_plan(graph, self.plan(graph, task, run), task, run)

    def plan(self, graph: FactorGraph, task: Task, run: Run) -> Plan:
        """The plan that `run_one` makes, for those who want to look before they run."""
        most_work = run.clock.left * _WORK_PER_SECOND
        return plan(
            graph, memory_limit=self.memory_limit, task=task, tries=self.tries, most_work=most_work, seed=run.seed
        )

    def run_plan(self, graph: FactorGraph, steps: Plan, task: Task, run: Run) -> Estimate:
        """Run a plan of this graph, unless it is over the memory limit or cannot end before the deadline."""
        if steps.reduction.impossible:
            return impossible()
        refusal = self._refusal(steps, task, run)
        if refusal is not None:
            return refusal
        if run.device != "cpu" and task is not Task.MAP:
            return self._run_batch([graph], steps, task, run)[0]
        log_phi = steps.reduction.log_phi(graph)
        if task is Task.MAP:
            best = maximise(steps.program, log_phi, run.clock, report=run.report)
            return _stopped(steps, run) if best is None else _best(graph, steps, best)
        sums = sum_out(steps.program, log_phi, run.clock, marginals=task is Task.MAR, report=run.report)
        return _stopped(steps, run) if sums is None else _sums(graph, steps, sums)

    def _run_group(self, group: Sequence[FactorGraph], task: Task, run: Run) -> list[Estimate]:
        steps = plan_structure(group[0], self.memory_limit, task) if len(group) > 1 and not run.clock.stopped else None
        # zeros that only single graphs have may bring those below the limit: then each is planned by itself
        if steps is None or self._refusal(steps, task, run) is not None:
            return [self.run_one(graph, task, run) for graph in group]
        if task is Task.MAP:
            return [self.run_plan(graph, steps, task, run) for graph in group]
        return self._run_batch(group, steps, task, run)

    def _run_batch(self, group: Sequence[FactorGraph], steps: Plan, task: Task, run: Run) -> list[Estimate]:
        answers: list[Estimate] = []
        for p, log_z in batch_sums(
            group, steps, marginals=task is Task.MAR, device=run.device, dtype=run.dtype,
            memory_limit=self.memory_limit, clock=run.clock,
        ):  # fmt: skip
            first = len(answers)
            for n in range(len(log_z)):
                row = p[n] if task is Task.MAR else None
                answers.append(_sums(group[first + n], steps, Sums(float(log_z[n]), row)))
        return answers + [_stopped(steps, run) for _ in range(len(group) - len(answers))]

    def _refusal(self, steps: Plan, task: Task, run: Run) -> Estimate | None:
        if run.clock.stopped or (isinstance(steps.found, Hopeless) and steps.found.out_of_work):
            return _stopped(steps, run)
        if not steps.fits(self.memory_limit, task):
            return Estimate(
                status=Status.TOO_LARGE,
                message=f"elimination needs {steps.cost_of(task)} and the limit is "
                f"{format_bytes(self.memory_limit * 2**30)}: raise memory_limit or use bp",
                stats=_stats(steps),
            )
        if run.device == "cpu" and steps.seconds(task) > _HOPE * run.clock.left:
            return Estimate(
                status=Status.TIME_LIMIT,
                message=f"elimination would take about {steps.seconds(task):.2g} s and {run.clock.left:.2g} s are "
                "left: raise the time limit or use bp",
                stats=_stats(steps),
            )
        return None


def _groups(graphs: Sequence[FactorGraph]) -> Iterator[Sequence[FactorGraph]]:
    start = 0
    for stop in range(1, len(graphs) + 1):
        if stop == len(graphs) or not same_structure(graphs[start], graphs[stop]):
            yield graphs[start:stop]
            start = stop


def _stats(steps: Plan) -> dict[str, Any]:
    return {"width": steps.width, "log2_largest_table": round(steps.log2_largest, 2), "orders_tried": steps.found.tries}


def _stopped(steps: Plan, run: Run) -> Estimate:
    return Estimate(status=run.clock.status or Status.TIME_LIMIT, stats=_stats(steps))


def _sums(graph: FactorGraph, steps: Plan, sums: Sums) -> Estimate:
    if np.isneginf(sums.log_z):
        return impossible()
    return Estimate(
        status=Status.EXACT,
        marginals=None if sums.p is None else steps.reduction.marginals(graph, sums.p),
        log_z=sums.log_z,
        lower_bound=sums.log_z,
        upper_bound=sums.log_z,
        stats=_stats(steps),
    )


def _best(graph: FactorGraph, steps: Plan, best: Best) -> Estimate:
    if np.isneginf(best.score):
        return impossible()
    assignment = steps.reduction.assignment(graph, best.states)
    score = graph.log_score(assignment)  # summed in the order of the model, as everywhere else
    return Estimate(
        status=Status.OPTIMAL, assignment=assignment, lower_bound=score, upper_bound=score, stats=_stats(steps)
    )
