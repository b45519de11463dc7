"""Exact inference by variable elimination."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import ACCEPTED_OVERRUN, FLOAT_BYTES, Budget, Seconds, planning_work
from equifactor.base.cores import Crew, crew_size
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.base.torch_device import check_device, free_memory
from equifactor.graph.repeated_graph import share_structure
from equifactor.kernels.readiness import plain_is_better, uses_kernels
from equifactor.solvers.elimination.eliminate import Best, Sums, maximise, sum_out
from equifactor.solvers.elimination.exact_batch import (
    batch_sums,
    numba_sums,
    plan_structure,
    same_structure,
)
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.marginal_map import query_problem
from equifactor.solvers.elimination.orders import NoOrder, Order
from equifactor.solvers.elimination.plan import Plan, plan
from equifactor.solvers.elimination.plan_cache import known_plan
from equifactor.solvers.elimination.pruning import is_prunable, pruned, pruning_seconds
from equifactor.solvers.elimination.side_by_side import runs_together
from equifactor.solving.estimate import MANY, Estimate, LazyEstimates, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.reduction import ReducedGraph

_MANY_EDGES = 100_000  # Edges from which planning takes so long that the time left is compared with it first.
_PLAN_SHARE = 0.5  # The share of `Seconds.PLAN_START`, which formulas need, that planning takes on chains.
# Reference seconds of a plan for ln Z from which a smaller graph is tried, and in times of the pruning. Chosen by hand.
_LONG, _PRUNING_SHARE = 0.3, 30.0
# The share of the free memory of a GPU that a plan may use. Products of a cluster need four more tables of its size,
# which is much beside the few messages of ln Z.
_GPU_SHARE = {Task.MAR: 0.5, Task.PR: 0.2}
_SMALL = 2.0**17  # A plan with fewer entries, 1 ms, is run in one call, without checks of the clock.


@register("exact")
@dataclass(frozen=True, kw_only=True)
class Exact(GraphSolver):
    """Variable elimination along the best of many greedy orders; refuses if its plan exceeds the memory limit."""

    exact_on = "all"
    finds_zeros = True
    maximises_query = True

    memory_limit: float = option(4.0, "GiB of tables; on a GPU at least half of its free memory", low=0.0)
    tries: int = option(256, "most elimination orders to try", low=1)

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Plan neighbouring graphs of one structure once and run them as a batch; run others one by one."""
        if context.device != "cpu" and task in _GPU_SHARE:
            return self._with_memory_of(task, context)._run_all(graphs, task, context)
        return self._run_all(graphs, task, context)

    def _with_memory_of(self, task: Task, context: SolveContext) -> Exact:
        """Return the solver with a limit that suits the memory of the GPU, if that is larger."""
        check_device(context.device, "exact on a GPU")
        free = _GPU_SHARE[task] * free_memory(context.device) / 2**30
        # Plans count the bytes of float64.
        return replace(self, memory_limit=max(self.memory_limit, free * (2.0 if context.dtype == "float32" else 1.0)))

    def _run_all(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        answers: list[Estimate] = []
        for group in _groups(graphs):
            found = self._run_group(group, task, context)
            if len(group) == len(graphs):
                return found
            answers += found
            if len(graphs) > 1:
                context.report(len(answers), len(graphs))
        return answers

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Plan, check the cost, run; connected components become separate roots."""
        if context.clock.stopped:
            return Estimate(status=context.clock.status or Status.TIME_LIMIT)
        if task is Task.MMAP:
            return self._constrained(graph, context)
        edges = graph.structure.num_edges
        if edges > _MANY_EDGES and not Budget(context.clock).ends_in_time(_PLAN_SHARE * Seconds.PLAN_START * edges):
            return Estimate(status=Status.TIME_LIMIT)
        return self.run_plan(graph, self.plan(graph, task, context), task, context)

    def _constrained(self, graph: FactorGraph, context: SolveContext) -> Estimate:
        """Return the marginal MAP by elimination of all sums, and then of the query variables."""
        assert context.query is not None
        most_bits = math.log2(max(1.0, self.memory_limit * 2**30 / FLOAT_BYTES))
        found = query_problem(graph, context.query, most_bits, context.clock)
        if found is None:
            return Estimate(status=context.clock.status or Status.TIME_LIMIT)
        if isinstance(found, bool):
            return impossible()
        if not found.is_map:
            return Estimate(
                status=Status.TOO_LARGE, stats=dict(found.stats),
                message=f"Sums over {int((~found.is_query).sum()):,} variables before the maxima exceed the limit of "
                f"{self.memory_limit:g} GiB. Raise memory_limit or use auto.",
            )  # fmt: skip
        best = self.run_one(found.graph, Task.MAP, context)
        return best if best.assignment is None else found.estimate(best)

    def plan(self, graph: FactorGraph, task: Task, context: SolveContext) -> Plan:
        """Return the plan that `run_one` makes, to look at before a run."""
        most_work = planning_work(context.clock.left)
        known = known_plan(graph, most_work)
        if known is not None and known.fits(self.memory_limit, task):
            return known
        made = plan(
            graph, memory_limit=self.memory_limit, task=task, tries=self.tries, most_work=most_work, seed=context.seed
        )
        if task is not Task.PR or made.impossible or not is_prunable(made.reduced.graph):
            return made
        least = max(_LONG, _PRUNING_SHARE * pruning_seconds(made.reduced.graph))
        return made if made.finished and made.seconds(task) < least else self._pruned_plan(made, context)

    def _pruned_plan(self, made: Plan, context: SolveContext) -> Plan:
        """Return a cheaper plan for ln Z of the graph without variables that sum to a constant; or the given plan."""
        free = made.reduced.graph
        if not Budget(context.clock).ends_in_time(pruning_seconds(free)):
            return made
        smaller = pruned(free)
        if smaller.graph.num_vars == free.num_vars:
            return made
        work = planning_work(context.clock.left)
        other = plan(
            smaller, memory_limit=self.memory_limit, task=Task.PR, tries=self.tries, most_work=work, seed=context.seed
        )
        if not other.finished or (made.fits(self.memory_limit, Task.PR) and other.entries > made.entries):
            return made
        return replace(other, reduced=replace(smaller, original=made.reduced.original))

    def run_plan(self, graph: FactorGraph, steps: Plan, task: Task, context: SolveContext) -> Estimate:
        """Run a plan of this graph, unless it exceeds the memory limit or cannot end before the deadline."""
        if steps.impossible:
            return impossible()
        refusal = self._refusal(steps, task, context)
        if refusal is not None:
            return refusal
        if context.device != "cpu" and task is not Task.MAP:
            return self._run_batch([graph], steps, task, context)[0]
        reduced = steps.reduced.applied_to(graph)
        log_phi = reduced.graph.log_phi
        if _is_plain(steps, task):
            return _run_plain(reduced, steps, task, context)
        if task is Task.MAP:
            best = maximise(steps.program, log_phi, context.clock, report=context.report, threads=context.threads)
            return _stopped(steps, context) if best is None else _best(reduced, steps, best)
        if steps.entries < _SMALL:
            p, log_z = numba_sums(log_phi[None], steps, task is Task.MAR)
            return _sums(reduced, steps, Sums(float(log_z[0]), p[0] if task is Task.MAR else None))
        sums = sum_out(
            steps.program, log_phi, context.clock, marginals=task is Task.MAR, report=context.report,
            threads=context.threads,
        )  # fmt: skip
        return _stopped(steps, context) if sums is None else _sums(reduced, steps, sums)

    def _run_group(self, group: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        if task is Task.MMAP:
            return [self.run_one(graph, task, context) for graph in group]
        steps = (
            plan_structure(group[0], self.memory_limit, task) if len(group) > 1 and not context.clock.stopped else None
        )
        # A graph with zeros of its own may fit where the common plan does not, so each graph is planned by itself.
        if steps is None or self._refusal(steps, task, context) is not None:
            return [self.run_one(graph, task, context) for graph in group]
        together = context.device != "cpu" or runs_together(steps, len(group))
        if task is Task.MAP or (not together and _is_plain(steps, task, len(group))):
            return self._run_each(group, steps, task, context)
        return self._run_batch(group, steps, task, context)

    def _run_each(
        self, group: Sequence[FactorGraph], steps: Plan, task: Task, context: SolveContext
    ) -> Sequence[Estimate]:
        """Run the plan for each graph; threads share the graphs unless they run in plain NumPy."""
        found: dict[int, Estimate] = {}
        size = crew_size(context.threads, len(group)) if uses_kernels("elimination") else 1
        own = context if size == 1 else replace(context, threads=1, progress=None)

        def work(_: int, n: int, stop: int) -> None:
            found[n] = self.run_plan(group[n], steps, task, own)

        with Crew(size) as crew:
            crew.divide(len(group), 1, work)
        return [found[n] for n in range(len(group))]

    def _run_batch(
        self, group: Sequence[FactorGraph], steps: Plan, task: Task, context: SolveContext
    ) -> Sequence[Estimate]:
        parts = list(
            batch_sums(
                group, steps, marginals=task is Task.MAR, device=context.device, dtype=context.dtype,
                memory_limit=self.memory_limit, clock=context.clock, threads=context.threads,
            )
        )  # fmt: skip
        if not parts:
            return [_stopped(steps, context) for _ in group]
        p, log_z = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))

        def make(n: int) -> Estimate:
            row = p[n] if task is Task.MAR else None
            return _sums(steps.reduced.applied_to(group[n]), steps, Sums(float(log_z[n]), row))

        if len(log_z) == len(group) >= MANY and math.isfinite(log_z.sum()) and math.isfinite(p.sum()):
            return LazyEstimates(len(group), make)
        return [make(n) if n < len(log_z) else _stopped(steps, context) for n in range(len(group))]

    def _refusal(self, steps: Plan, task: Task, context: SolveContext) -> Estimate | None:
        if context.clock.stopped or (isinstance(steps.found, NoOrder) and steps.found.out_of_work):
            return _stopped(steps, context)
        if not steps.fits(self.memory_limit, task):
            return Estimate(
                status=Status.TOO_LARGE,
                message=f"{steps.excess(self.memory_limit, task)} Raise memory_limit or use bp.",
                stats=_stats(steps),
            )
        if context.device == "cpu" and not Budget(context.clock).worth_starting(steps.seconds(task), ACCEPTED_OVERRUN):
            return Estimate(
                status=Status.TIME_LIMIT,
                message=f"Elimination would take about {steps.seconds(task):.2g} s, but only "
                f"{context.clock.left:.2g} s are left. Raise the time limit or use bp.",
                stats=_stats(steps),
            )
        return None


def _is_plain(steps: Plan, task: Task, count: int = 1) -> bool:
    """Return whether plain NumPy runs a plan for some graphs sooner than kernels, with the time to load them."""
    if uses_kernels("elimination"):
        return False
    return plain_is_better(count * steps.plain_seconds(task), count * steps.seconds(task), "elimination")


def _run_plain(reduced: ReducedGraph, steps: Plan, task: Task, context: SolveContext) -> Estimate:
    """Run a plan in plain NumPy."""
    from equifactor.solvers.elimination.plain_elimination import plain_best, plain_sums

    assert isinstance(steps.found, Order)
    model = reduced.graph.structure, steps.found, reduced.graph.log_phi
    if task is Task.MAP:
        best = plain_best(*model, context.clock)
        return _stopped(steps, context) if best is None else _best(reduced, steps, best)
    sums = plain_sums(*model, task is Task.MAR, context.clock)
    return _stopped(steps, context) if sums is None else _sums(reduced, steps, sums)


def _groups(graphs: Sequence[FactorGraph]) -> Iterator[Sequence[FactorGraph]]:
    if share_structure(graphs):
        yield graphs
        return
    start = 0
    for stop in range(1, len(graphs) + 1):
        if stop == len(graphs) or not same_structure(graphs[start], graphs[stop]):
            yield graphs[start:stop]
            start = stop


def _stats(steps: Plan) -> dict[str, Any]:
    return {"width": steps.width, "log2_largest_table": round(steps.log2_largest, 2), "orders_tried": steps.found.tries}


def _stopped(steps: Plan, context: SolveContext) -> Estimate:
    return Estimate(status=context.clock.status or Status.TIME_LIMIT, stats=_stats(steps))


def _sums(reduced: ReducedGraph, steps: Plan, sums: Sums) -> Estimate:
    if np.isneginf(sums.log_z):
        return zero_by_exclusion(reduced.original)
    return Estimate(
        status=Status.EXACT,
        marginals=None if sums.p is None else reduced.marginals(sums.p),
        log_z=sums.log_z,
        lower_bound=sums.log_z,
        upper_bound=sums.log_z,
        stats=_stats(steps),
    )


def _best(reduced: ReducedGraph, steps: Plan, best: Best) -> Estimate:
    if np.isneginf(best.score):
        return zero_by_exclusion(reduced.original)
    assignment = reduced.assignment(best.states)
    score = reduced.original.log_score(assignment)  # the sum is in the order of the model, as everywhere else
    return Estimate(
        status=Status.OPTIMAL, assignment=assignment, lower_bound=score, upper_bound=score, stats=_stats(steps)
    )
