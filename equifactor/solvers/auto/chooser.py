"""The solver `auto`, the default: it looks at the graph, then picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from equifactor.base.clock import Clock
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.solvers.auto.table_forms import completed, cost_in_words, has_kinds, table_forms
from equifactor.solvers.elimination.brute import BruteForce
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import register
from equifactor.solving.solver import SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph import FactorGraph

_FEW_STATES = 2**14  # Up to this many joint states, enumeration answers before the kernels of elimination are loaded.
_MOST = 0.75  # Exact is stopped after this share of the time left, whatever its estimate: someone must give an answer.
_SHARE = 2 / 3  # Exact may take this share of its time by its own estimate.
_QUICK = 0.1  # Exact MAP is preceded by bounds when it takes more seconds than this.
_BEFORE = 0.25  # Bounds get this share of the time of exact MAP: they often prove an assignment sooner.
_FEW_ENTRIES = 2**22  # Search and bounds on tables in place of other factors pay up to this many entries.
_NATIVE_SHARE = 0.4  # Search among factors as they are gets this share of the time where there are such tables.
_QUICK_SHARE = 0.3  # Message passing and the network get this share of the time before slower methods.
_UNLIMITED = 60.0  # Exact may take this many seconds when there is no deadline.


@register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(Solver):
    """Exact where its plan fits time and memory; else a ladder of solvers, or for MAP search with bounds.

    What is not exact goes on to the time limit, or for `seconds`, and says how far off it may be. Marginals and ln Z:
    belief propagation or `fe-net`, a sum over a cutset, regions that grow, sampling in large blocks, certified bounds.
    The message says what was chosen and why.
    """

    any_kind = True
    exact_on = "trees"  # It is exact wherever it picks exact, but that depends on the limits.
    symmetries = frozenset()  # Search and dual bounds follow the order of the model.

    memory_limit: float = option(4.0, "GiB that exact may use", low=0.0)
    seconds: float = option(10.0, "time where exact does not fit and there is no time limit", low=0.0)
    cores: int = option(1, "threads for marginals and ln Z where exact does not fit", low=1, high=1024)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Plan once for neighbours that share a structure; what exact refuses goes to the portfolio of the task."""
        answers: list[Estimate] = []
        rest: list[int] = []  # These graphs are for the portfolio; a place is held for them in `answers`.
        reasons: list[str] = []
        forms = table_forms(graphs, task)
        start = 0
        for stop in range(1, len(graphs) + 1):
            if stop < len(graphs) and _alike(forms[start], forms[stop]):
                continue
            part = replace(context, clock=context.clock.part(_MOST))
            found = self._exact(graphs[start:stop], forms[start:stop], task, part)
            for n, answer in enumerate([found] * (stop - start) if isinstance(found, str) else found):
                if isinstance(answer, str):
                    rest.append(start + n)
                    reasons.append(answer)
                    answer = Estimate(status=Status.TIME_LIMIT)
                answers.append(answer)
            start = stop
        if rest and task is Task.MAP:
            for n, why in zip(rest, reasons, strict=True):
                seconds = self.seconds if context.clock.time_limit is None else context.clock.left
                answers[n] = self._best_assignment(graphs[n], forms[n], why, seconds, context)
        elif rest:
            found = self._sums([graphs[n] for n in rest], [forms[n] for n in rest], reasons, task, context)
            for n, answer in zip(rest, found, strict=True):
                answers[n] = answer
        return answers

    def _exact(
        self,
        group: Sequence[FactorGraph],
        forms: Sequence[LoweredGraph | str],
        task: Task,
        context: SolveContext,
    ) -> Sequence[Estimate | str] | str:
        """Exact answers for graphs whose tables have one structure, or why there are none, for one graph or for all."""
        states = group[0].num_joint_states
        if states * len(group) <= _FEW_STATES:
            brute = BruteForce()
            return _unless_stopped(brute.run(group, task, context), brute, f"there are {states:,} joint states")
        lowered = [form for form in forms if not isinstance(form, str)]
        if not lowered:
            return str(forms[0])
        tables, cost = [form.graph for form in lowered], cost_in_words(lowered[0])
        solver = Exact(memory_limit=self.memory_limit)
        plan = solver.plan(tables[0], task, context)
        if plan.impossible:
            return _back(solver.run(tables, task, context), lowered)
        budget = _UNLIMITED if context.clock.time_limit is None else _SHARE * context.clock.left
        if not plan.finished:
            limit = f"{self.memory_limit:g} GiB"
            return f"{cost}no elimination order within {limit} was found, given up at width {plan.width}"
        if not plan.fits(self.memory_limit, task):
            return f"{cost}exact would need {plan.cost_of(task)}"
        if plan.seconds(task) * len(group) > budget:
            return f"{cost}exact would take about {plan.seconds(task) * len(group):.2g} s"
        if task is Task.MAP and len(group) == 1 and plan.seconds(task) > _QUICK:
            why = f"{cost}exact would take about {plan.seconds(task):.2g} s"
            estimate = self._best_assignment(group[0], lowered[0], why, _BEFORE * plan.seconds(task), context)
            if estimate.status is Status.OPTIMAL or context.clock.stopped:
                return [estimate]
        estimates = (
            [solver.run_plan(tables[0], plan, task, context)] if len(group) == 1 else solver.run(tables, task, context)
        )
        return _unless_stopped(_back(estimates, lowered), solver, f"{cost}it needs {plan.cost_of(task)}")

    def _sums(
        self,
        graphs: Sequence[FactorGraph],
        forms: Sequence[LoweredGraph | str],
        reasons: list[str],
        task: Task,
        context: SolveContext,
    ) -> list[Estimate]:
        """Marginals or ln Z of graphs that share the time: sums over cutsets, quick answers, then a ladder for each."""
        from equifactor.solvers.auto.ladder_answers import LadderRung
        from equifactor.solvers.auto.sum_ladder import LadderLimits, SumLadder, share_of_time
        from equifactor.solvers.auto.sum_portfolio import estimates

        clock, count = context.clock, len(graphs)
        begin, seconds = clock.seconds, self.seconds if clock.time_limit is None else clock.left
        end, limits = begin + seconds, LadderLimits(self.memory_limit, self.cores)
        answers: list[Estimate | None] = []
        ladders: list[SumLadder] = []
        for n in range(count):
            own = share_of_time(context, count - n, end)
            ladders.append(SumLadder(graphs[n], forms[n], task, own, limits))
            answers.append(ladders[n].by_cutset())
        rest = [n for n in range(count) if answers[n] is None]
        before = clock.seconds
        first = replace(context, clock=Clock(_QUICK_SHARE * max(0.0, end - before), whole=clock))
        found = estimates([graphs[n] for n in rest], task, first) if rest else []
        each = (clock.seconds - before) / max(1, len(rest))
        for k, (n, (estimate, spec)) in enumerate(zip(rest, found, strict=True)):
            ladders[n].context = share_of_time(context, len(rest) - k, end)
            ladders[n].rungs.insert(0, LadderRung(spec, estimate, each))
            impossible = estimate.status is Status.ZERO_PROBABILITY
            answers[n] = estimate if impossible else ladders[n].climb()
            context.report(count - len(rest) + k + 1, count)
        return [_say(a, a.stats.get("chosen", "bp"), why) for a, why in zip(answers, reasons, strict=True) if a]

    def _best_assignment(
        self, graph: FactorGraph, form: LoweredGraph | str, why: str, seconds: float, context: SolveContext
    ) -> Estimate:
        """MAP in at most `seconds`: factors as they are first, then, where tables are few enough, the portfolio."""
        if not has_kinds(graph) and not isinstance(form, str):
            return self._search(form, None, why, seconds, context)
        from equifactor.solvers.auto.native_search import native_best

        in_tables = not isinstance(form, str) and form.graph.structure.num_entries <= _FEW_ENTRIES
        share = _NATIVE_SHARE if in_tables else 1.0
        end = context.clock.seconds + seconds
        native = native_best(graph, share * seconds, self.gap, context)
        finished = native.status in (Status.OPTIMAL, Status.ZERO_PROBABILITY) or context.clock.stopped
        if finished or isinstance(form, str) or not in_tables:
            return _say(native, "search", why)
        return self._search(form, native, why, end - context.clock.seconds, context)

    def _search(
        self, form: LoweredGraph, known: Estimate | None, why: str, seconds: float, context: SolveContext
    ) -> Estimate:
        """MAP by the portfolio on tables, for at most `seconds`, beginning with what is known."""
        from equifactor.solvers.auto.map_portfolio import MapPortfolio, without_cheap_variables

        shrunk = without_cheap_variables(form.graph)
        if shrunk is None:
            return zero_by_exclusion(form.original)
        if not shrunk.graph.num_vars:
            estimate = form.estimate(shrunk.optimum())
            late = context.clock.status  # The answer is the same, but whoever set a deadline wants to know.
            estimate = estimate if late is None else replace(estimate, status=late)
            return _say(estimate, "elimination", "every variable was cheap to eliminate")
        portfolio = MapPortfolio(shrunk, context, self.gap)
        if known is not None and known.assignment is not None:
            whole = completed(form, known.assignment, context)
            if whole is not None:
                portfolio.offer(whole, known.upper_bound)
        return _say(form.estimate(portfolio.solve(seconds)), "search with bounds", why)


def _alike(form: LoweredGraph | str, other: LoweredGraph | str) -> bool:
    """Whether the tables of two graphs have one structure."""
    from equifactor.solvers.elimination.exact_batch import same_structure

    return not isinstance(form, str) and not isinstance(other, str) and same_structure(form.graph, other.graph)


def _back(estimates: Sequence[Estimate], forms: Sequence[LoweredGraph]) -> list[Estimate]:
    """The estimates over the variables of the graphs before they were written in tables."""
    return [form.estimate(estimate) for form, estimate in zip(forms, estimates, strict=True)]


def _unless_stopped(estimates: Sequence[Estimate], solver: Solver, why: str) -> list[Estimate | str]:
    """Exact answers, or for those that were cut short, which are none, the reason for the portfolio to give one."""
    stopped = (Status.TIME_LIMIT, Status.INTERRUPTED)
    return [
        f"{solver.name} was stopped before its end" if e.status in stopped else _say(e, solver, why) for e in estimates
    ]


def _say(estimate: Estimate, chosen: Solver | str, why: str) -> Estimate:
    message = f"auto chose {chosen}: {why}. {estimate.message or estimate.status.advice}"
    return replace(estimate, message=message, stats={**estimate.stats, "chosen": str(chosen)})
