"""The solver `auto`, the default: it chooses solvers for a graph by their estimated cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from equifactor.base.budget import Budget, Refusal, Seconds
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.repeated_graph import share_structure
from equifactor.kernels.compile_costs import LAST_COMPILE_SHARE, can_compile, seconds_to_compile
from equifactor.solvers.auto.table_forms import completed, cost_in_words, has_kinds, table_forms
from equifactor.solvers.elimination.brute import BruteForce
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.orders import NoOrder
from equifactor.solvers.learned.best_assignments import is_better
from equifactor.solvers.messages.bp import BeliefPropagation
from equifactor.solving.estimate import Estimate, LazyEstimates
from equifactor.solving.registry import register
from equifactor.solving.solver import SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph import FactorGraph
    from equifactor.solvers.elimination.plan import Plan

# Joint states up to which enumeration answers and no kernel is loaded. Halved or doubled: error and gap within 20 %.
_FEW_STATES = 2**14
# The share of the time left after which exact is stopped: another solver still needs time. Halved or doubled: error and
# gap within 20 %.
_EXACT_LIMIT = 0.9
_FORMS_SHARE = 0.25  # The share of the time for dense tables in place of structured factors. Chosen by hand.
# Exact starts if its estimate is at most this share of its time. Sums take 0.25 to 0.8 of their estimate. The share for
# MAP was halved and doubled: gap within 10 %.
_EXACT_SHARE = {Task.MAR: 1.25, Task.PR: 1.25, Task.MAP: 0.6}
# The share of the time of exact for its plan, because others need the rest if it does not fit. For MAP a spin grid of
# 625 variables, which does not fit, is planned for 0.7 ms and not 2.0 ms with a limit of 10 ms, and for 1.4 ms and not
# 4.9 ms with 30 ms.
_PLAN_SHARE = 0.2
_LONG_EXACT = 1.0  # Seconds of exact sums above which models full of zeros are searched before. Chosen by hand.
_QUICK_MAP = 0.1  # Seconds above which exact MAP is preceded by search with bounds. Halved or doubled: gap within 30 %.
# The share of the time of exact MAP for the search before it, which often proves the optimum. Halved or doubled: gap
# within 15 %.
_SEARCH_SHARE = 0.25
# Dense table entries up to which search on tables in place of structured factors pays off. Halved or doubled: gap
# within 150 %, CPU within 20 %.
_FEW_ENTRIES = 2**22
# The share of the time for search on structured factors, if search on tables follows. Halved: gap within 50 %; doubled:
# gap +110 % (standard error 27).
_NATIVE_SHARE = 0.4
# The share of the time left for moves of blocks if local search is compiled after them. Chosen by hand.
_BLOCK_SHARE = 0.1
SEARCH = "search"  # The family of kernels of the portfolio for MAP.
# Reference seconds that exact may take if there is no deadline: a minute, for which people still wait.
_UNLIMITED = 60.0


@register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(Solver):
    """Exact if its plan fits time and memory; otherwise several solvers in turn, or for MAP search with bounds.

    If exact does not fit, `auto` works until the time limit, or for `seconds`, and estimates its error. For marginals
    and ln Z it runs belief propagation or `fe-net`, a sum over a cutset, growing regions, sampling in large blocks,
    and certified bounds. The message says what was chosen and why.
    """

    any_kind = True
    maximises_query = True
    exact_on = "trees"  # On other graphs the limits decide whether it chooses exact.
    symmetries = frozenset()  # Search and dual bounds follow the order of the model.

    memory_limit: float = option(4.0, "GiB that exact may use", low=0.0)
    seconds: float = option(10.0, "time to use if exact does not fit and there is no time limit", low=0.0)
    cores: int = option(1, "threads for marginals and ln Z if exact does not fit", low=1, high=1024)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Plan once for neighbours that share a structure. Graphs that exact refuses go to the other solvers."""
        if task is Task.MMAP:
            return [self._best_of_query(graph, context) for graph in graphs]
        answers: list[Estimate] = []
        rest: list[int] = []  # The graphs for the other solvers; `answers` has placeholders for them.
        reasons: list[Refusal] = []
        forms = table_forms(graphs, task, context.clock.part(_FORMS_SHARE))
        start = 0
        for stop in _ends(forms):
            part = replace(context, clock=context.clock.part(_EXACT_LIMIT))
            try:
                found = self._exact(graphs[start:stop], forms[start:stop], task, part)
            except NotCompiledError:
                found = [Refusal("the kernels of exact are not compiled, and compiling them would take too long")] * (
                    stop - start
                )
            if isinstance(found, LazyEstimates) and len(found) == len(graphs):
                return found
            for n, answer in enumerate(found):
                if isinstance(answer, Refusal):
                    rest.append(start + n)
                    reasons.append(answer)
                answers.append(Estimate(status=Status.TIME_LIMIT) if isinstance(answer, Refusal) else answer)
            start = stop
        if rest and task is Task.MAP:
            for n, why in zip(rest, reasons, strict=True):
                seconds = self.seconds if context.clock.time_limit is None else context.clock.left
                answers[n] = self.best_assignment(graphs[n], forms[n], why, seconds, context)
        elif rest:
            from equifactor.solvers.auto.sum_rounds import sums_in_turn

            sums = sums_in_turn(self, [graphs[n] for n in rest], [forms[n] for n in rest], task, context)
            for n, estimate, why in zip(rest, sums, reasons, strict=True):
                answers[n] = _say(estimate, estimate.stats.get("chosen", "bp"), why)
        return answers

    def _best_of_query(self, graph: FactorGraph, context: SolveContext) -> Estimate:
        from equifactor.solvers.auto.query_portfolio import best_of_query

        if graph.num_joint_states <= _FEW_STATES:
            return BruteForce().run_one(graph, Task.MMAP, context)
        return best_of_query(graph, self, context)

    def _exact(
        self,
        group: Sequence[FactorGraph],
        forms: Sequence[LoweredGraph | Refusal],
        task: Task,
        context: SolveContext,
    ) -> Sequence[Estimate | Refusal]:
        """Return an exact answer or a refusal for each of some graphs whose dense tables have the same structure."""
        states = group[0].num_joint_states
        if states * len(group) <= _FEW_STATES:
            brute = BruteForce()
            return _unless_stopped(brute.run(group, task, context), brute, f"there are {states:,} joint states")
        lowered = [form for form in forms if not isinstance(form, Refusal)]
        if len(lowered) < len(forms):
            return [form for form in forms if isinstance(form, Refusal)]  # It is a group of one graph.
        tables, cost = [form.graph for form in lowered], cost_in_words(lowered[0])
        if not Budget(context.clock).ends_in_time(Seconds.PLAN_START * tables[0].structure.num_edges):
            return [Refusal(f"{cost}there was no time to find an elimination order")] * len(group)
        solver = Exact(memory_limit=self.memory_limit)
        planning = replace(context, clock=context.clock.part(_PLAN_SHARE))
        plan = solver.plan(tables[0], task, planning)
        if plan.impossible:
            return _back(solver.run(tables, task, context), lowered)
        refusal = self._refusal(plan, task, len(group), cost, context)
        if refusal is not None:
            return [refusal] * len(group)
        if task is Task.MAP and len(group) == 1 and plan.seconds(task) > _QUICK_MAP:
            why = Refusal(f"{cost}exact would take about {plan.seconds(task):.2g} s")
            estimate = self.best_assignment(group[0], lowered[0], why, _SEARCH_SHARE * plan.seconds(task), context)
            if estimate.status is Status.OPTIMAL or context.clock.stopped:
                return [estimate]
        if task is not Task.MAP and len(group) == 1 and plan.seconds(task) > _LONG_EXACT:
            from equifactor.solvers.auto.by_search import is_solved, search_before

            searched = search_before(group[0], lowered[0], task, plan.seconds(task), context)
            if is_solved(searched):
                why = Refusal(f"{cost}exact would take about {plan.seconds(task):.2g} s")
                return [_say(searched, searched.stats["chosen"], why)]
        estimates = (
            [solver.run_plan(tables[0], plan, task, context)] if len(group) == 1 else solver.run(tables, task, context)
        )
        return _unless_stopped(_back(estimates, lowered), solver, f"{cost}it needs {plan.cost_of(task)}")

    def _refusal(self, plan: Plan, task: Task, count: int, cost: str, context: SolveContext) -> Refusal | None:
        """Return why the plan of some graphs is not run; None if it is worth starting."""
        if isinstance(plan.found, NoOrder) and plan.found.out_of_work:
            return Refusal(f"{cost}there was no time to find an elimination order")
        if not plan.finished:
            limit = f"{self.memory_limit:g} GiB"
            return Refusal(f"{cost}no elimination order within {limit} was found up to width {plan.width}")
        if not plan.fits(self.memory_limit, task):
            return Refusal(f"{cost}exact would need {plan.cost_of(task)}")
        share = 1.0 if context.clock.time_limit is None else _EXACT_SHARE[task]
        if not Budget(context.clock, _UNLIMITED).worth_starting(plan.seconds(task) * count, share):
            return Refusal(f"{cost}exact would take about {plan.seconds(task) * count:.2g} s")
        return None

    def best_assignment(
        self, graph: FactorGraph, form: LoweredGraph | Refusal, why: Refusal, seconds: float, context: SolveContext
    ) -> Estimate:
        """Return the MAP in at most `seconds`: on the factors as they are first, then on dense tables if they are few.

        Args:
            graph: the model, with factors of any kind.
            form: the model with dense tables alone, or why that is not possible.
            why: why exact is not run, for the message.
            seconds: the time that all may take.
            context: the clock and the seed.
        """
        if not has_kinds(graph) and not isinstance(form, Refusal):
            return self._search(form, None, why, seconds, context)
        from equifactor.solvers.auto.native_search import native_best

        in_tables = not isinstance(form, Refusal) and form.graph.structure.num_entries <= _FEW_ENTRIES
        share = _NATIVE_SHARE if in_tables else 1.0
        end = context.clock.seconds + seconds
        try:
            native = native_best(graph, share * seconds, self.gap, context)
        except NotCompiledError as error:
            native = Estimate(status=Status.TIME_LIMIT, message=str(error))
        finished = native.status in (Status.OPTIMAL, Status.ZERO_PROBABILITY) or context.clock.stopped
        if finished or isinstance(form, Refusal) or not in_tables:
            return _say(native, "search", why)
        return self._search(form, native, why, end - context.clock.seconds, context)

    def _search(
        self, form: LoweredGraph, known: Estimate | None, why: Refusal, seconds: float, context: SolveContext
    ) -> Estimate:
        """Return the MAP by the portfolio on dense tables, in at most `seconds`, from a warm start."""
        from equifactor.solvers.elimination.shrink import has_time_to_shrink

        if not (can_compile(context.clock, 1.0, SEARCH) and has_time_to_shrink(form.graph.structure, context.clock)):
            return self._by_messages(form, known, why, context)
        try:
            return self._by_portfolio(form, known, why, seconds, context)
        except NotCompiledError:
            return self._by_messages(form, known, why, context)

    def _by_messages(self, form: LoweredGraph, known: Estimate | None, why: Refusal, context: SolveContext) -> Estimate:
        """Return the MAP by solvers that need few kernels, because those of the search are not ready.

        These are max-product, a network and exact moves of blocks, all in plain NumPy, and local search if it is
        compiled soon enough.
        """
        from equifactor.solvers.auto.sum_portfolio import network_fits
        from equifactor.solvers.learned.fe_net_solver import FENetSolver
        from equifactor.solvers.search.block_search import PlainBlocks
        from equifactor.solvers.search.local_search import LocalSearchSolver

        best: tuple[Estimate, object] = Estimate(status=Status.TIME_LIMIT) if known is None else known, "search"
        clock, blocks = context.clock, PlainBlocks()
        for solver in (BeliefPropagation(damping=0.5), FENetSolver(), blocks, LocalSearchSolver()):
            is_first = isinstance(solver, BeliefPropagation)
            if not is_first and not _is_compilable(solver.name, clock):
                continue
            if isinstance(solver, FENetSolver) and not network_fits([form.graph], context):
                continue
            if not is_first and clock.stopped:
                break
            share = _BLOCK_SHARE if solver is blocks and _is_compilable(LocalSearchSolver.name, clock) else 1.0
            try:
                answer = solver.run([form.graph], Task.MAP, replace(context, clock=clock.part(share)))[0]
            except NotCompiledError:
                continue
            found = form.estimate(answer)
            if found.status in (Status.ZERO_PROBABILITY, Status.OPTIMAL):
                return _say(found, solver, why)
            if best[0].assignment is None or is_better(_score(form, found), _score(form, best[0])):
                best = found, solver
                blocks.start = answer.assignment
        seconds = seconds_to_compile(SEARCH)
        rest = f"takes about {seconds:.0f} s" if seconds >= 1.0 else "took the rest of the time"
        reason = f"{why}, and compiling the kernels of the search {rest} (equifactor doctor --warm)"
        late = context.clock.status
        return _say(best[0] if late is None else replace(best[0], status=late), best[1], reason)

    def _by_portfolio(
        self, form: LoweredGraph, known: Estimate | None, why: Refusal, seconds: float, context: SolveContext
    ) -> Estimate:
        """Return the MAP by search and bounds, with all kernels that it needs."""
        from equifactor.solvers.auto.map_portfolio import MapPortfolio, without_cheap_variables

        shrunk = without_cheap_variables(form.graph)
        if shrunk is None:
            return zero_by_exclusion(form.original)
        if not shrunk.graph.num_vars:
            estimate = form.estimate(shrunk.optimum())
            late = context.clock.status  # The answer is the same, but the status reports a missed deadline.
            estimate = estimate if late is None else replace(estimate, status=late)
            return _say(estimate, "elimination", "every variable was cheap to eliminate")
        portfolio = MapPortfolio(shrunk, context, self.gap)
        if known is not None and known.assignment is not None:
            whole = completed(form, known.assignment, context)
            if whole is not None:
                portfolio.offer(whole, known.upper_bound)
        return _say(form.estimate(portfolio.solve(seconds)), "search with bounds", why)


def _is_compilable(solver: str, clock: Clock) -> bool:
    return can_compile(clock, 1.0, solver, compile_share=LAST_COMPILE_SHARE)


def _score(form: LoweredGraph, estimate: Estimate) -> float:
    """Return the log score of an answer; -inf without one."""
    return -math.inf if estimate.assignment is None else float(form.original.log_score(estimate.assignment))


def _ends(forms: Sequence[LoweredGraph | Refusal]) -> Iterator[int]:
    """Yield where each group of neighbours whose dense tables have the same structure ends."""
    from equifactor.solvers.elimination.exact_batch import same_structure

    tables = [None if isinstance(form, Refusal) else form.graph for form in forms]
    start = 0
    for stop in range(len(forms) if share_structure(tables) else 1, len(forms) + 1):
        if stop < len(forms):
            one, other = tables[start], tables[stop]
            if one is not None and other is not None and same_structure(one, other):
                continue
        yield stop
        start = stop


def _back(estimates: Sequence[Estimate], forms: Sequence[LoweredGraph]) -> Sequence[Estimate]:
    """Return the estimates over the variables of the original graphs."""
    if isinstance(estimates, LazyEstimates):
        return estimates.map(lambda n, estimate: forms[n].estimate(estimate))
    return [form.estimate(estimate) for form, estimate in zip(forms, estimates, strict=True)]


def _unless_stopped(estimates: Sequence[Estimate], solver: Solver, why: str) -> Sequence[Estimate | Refusal]:
    """Return exact answers. For a graph whose run was cut short, return a refusal, so that others answer it."""
    if isinstance(estimates, LazyEstimates):
        return estimates.map(lambda _, estimate: _say(estimate, solver, why))
    stopped = (Status.TIME_LIMIT, Status.INTERRUPTED)
    refusal = Refusal(f"{solver.name} was stopped before it finished")
    return [refusal if e.status in stopped else _say(e, solver, why) for e in estimates]


def _say(estimate: Estimate, chosen: object, why: str | Refusal) -> Estimate:
    """Return the estimate with a message that says what was chosen and why."""
    message = f"auto chose {chosen}: {why}. {estimate.message or estimate.status.advice}"
    return replace(estimate, message=message, stats={**estimate.stats, "chosen": str(chosen)})
