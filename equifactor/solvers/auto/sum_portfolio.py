"""First marginals and ln Z if exact inference does not fit: runs of belief propagation, and a trained network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import GIB, GRACE, Budget, Refusal, Seconds
from equifactor.base.clock import NotCompiledError
from equifactor.base.optional_packages import is_installed
from equifactor.base.status import Status, Task
from equifactor.graph.marginals import Marginals
from equifactor.kernels.compile_costs import can_compile
from equifactor.solvers.auto.ladder_answers import LadderAnswer
from equifactor.solvers.auto.table_forms import run_any_kind, table_forms
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure
    from equifactor.solvers.messages.bp import BeliefPropagation
    from equifactor.solving.solver import SolveContext, Solver

# The share of the time left for the first runs of BP, which take milliseconds on most graphs: in general, and on models
# full of zeros, where BP is among the best for up to 0.3 s. They have at least `_LEAST_QUICK` seconds for a graph if
# that is at most the share `_MOST_QUICK`, and `_SHORT_SHARE` if less than `_SHORT` seconds are left for a graph and the
# network needs more. By `benchmarks.front`, even places.
_QUICK_SHARES = 0.2, 0.4
_LEAST_QUICK, _MOST_QUICK = 0.01, 0.5
_SHORT, _SHORT_SHARE = 0.06, 0.8
_FIRST_RUN = 0.6  # The share of this time for the run with little damping: a run with more may follow.
# The change of messages below which BP counts as nearly settled, and the share of its answer in the mean with a damped
# run if it has not settled: on linkage .5 gives a KL of .035 and .022, at even and odd places, and .25 .024 and .010.
_NEARLY_SETTLED, _UNSETTLED_SHARE = 1e-3, 0.25
# Other runs of BP start if the first one took at most this share of the time left after it and the network.
_MORE_RUNS_SHARE = 0.1
_LEAST_SHARE = 0.3  # The share of the time left for the first answers. Halved or doubled: error within 10 %.
# The share of the time left for the first answers at most, if the network needs it: nothing else answers as well below
# 0.1 s on grids of 400 spins.
_MOST_SHARE = 0.8
_LESS_ROOM = 0.6  # The same without a comparison: its own steps take 0.3 to 0.5 of the whole.
_ROOM = 1.5  # The network gets this many times the time that it should take, which lets it compare itself with BP.
_DAMPED, _DAMPED_ITERATIONS = 0.9, 50  # A damping and a number of iterations with which BP stays near its start.
_STEPS = 8  # Steps of the network after which its answer counts, half of its 16: on most families it is as good.
# Squares of a model are counted if by the cubes of degrees it takes more reference seconds than this to find them, and
# the model has at most this number of variables. Both chosen by hand.
_FEW_LOOPS, _FEW_VARS = 5e-3, 512
# The share of the work of the network that comes before it compares itself with BP: 0.3 to 0.5 on 18 models. With half
# of its steps the KL is .19 on spin grids with strong couplings, and .08 with all.
_ALONE = 0.3
_BYTES = 2500  # Bytes that the network needs for an edge state. Estimated from the sizes of its tensors.
_MEMORY = 4 * GIB  # Bytes that the network may use, as many as `exact` by default.


def bp_tries() -> tuple[BeliefPropagation, ...]:
    """Return the runs of BP to compare.

    The first is a good choice for a batch. A single graph gets all: loopy graphs have several fixed points, and the
    one with the highest Bethe ln Z is usually closest to the truth.
    """
    from equifactor.solvers.messages.bp import BeliefPropagation

    return (
        BeliefPropagation(iterations=1000, damping=0.5),
        BeliefPropagation(iterations=200, schedule="residual"),
        BeliefPropagation(iterations=500, damping=0.5, schedule="residual"),
    )


def seconds_for_first(graphs: Sequence[FactorGraph], task: Task, context: SolveContext, left: float) -> float:
    """Return how many of the seconds left the first answers may take; more if little is left for the network."""
    needed = network_seconds(graphs, context.clock) if task is Task.MAR else 0.0
    wanted = _ROOM if _ROOM * needed <= _MOST_SHARE * left else _LESS_ROOM  # Without time to compare itself with BP.
    return min(max(_LEAST_SHARE * left, wanted * needed), _MOST_SHARE * left)


def quick_answers(graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[LadderAnswer]:
    """Return the answers of one run of BP, so that every graph has an answer before anything slower begins.

    On models full of zeros the residual schedule settles the soonest: with 10 ms it has a KL of .008 on Promedus, where
    the parallel schedule has .19, and of .008 with 0.1 s.
    """
    from equifactor.solvers.auto.by_search import is_full_of_zeros

    clock = context.clock
    rigid = any(is_full_of_zeros(graph, Refusal("only its zeros matter")) for graph in graphs)
    in_order = rigid and len(graphs) == 1 and _has_residuals(context)
    bp, begin = bp_tries()[1 if in_order else 0], clock.seconds
    found = _bp(bp, graphs, task, context, clock.part(_quick_share(graphs, rigid, context)))
    each = (clock.seconds - begin) / max(1, len(graphs))
    return [LadderAnswer(bp, estimate, each) for estimate in found]


def _quick_share(graphs: Sequence[FactorGraph], rigid: bool, context: SolveContext) -> float:
    """Return the share of the time left for the first runs of BP: most of it where nothing else is quick enough."""
    left = context.clock.left
    if left < _SHORT * len(graphs) and (rigid or not network_fits(graphs, context, _MOST_SHARE)):
        return 1.0 if rigid else _SHORT_SHARE
    share = _QUICK_SHARES[1 if rigid else 0]
    return max(share, min(_MOST_QUICK, _LEAST_QUICK * len(graphs) / max(left, 1e-9)))


def first_answers(
    graphs: Sequence[FactorGraph],
    quick: Sequence[LadderAnswer],
    task: Task,
    context: SolveContext,
    sampled: Sequence[int] = (),
) -> list[list[LadderAnswer]]:
    """Return the answers of BP, the best of several runs, and for marginals those of the network, for each graph.

    The network is better than BP on most models, and much better with strong couplings of both signs, where BP has no
    fixed point, and around near-certain loops, where its beliefs vanish. It compares itself with BP. A graph without
    an answer of the network, because it is too large or the time is up, has one answer.

    Args:
        graphs: the graphs.
        quick: the answers of one run of BP.
        task: MAR or PR.
        context: the clock of all first answers.
        sampled: the places of graphs that a sampler will answer better, for which one run of BP is enough.
    """
    clock = context.clock
    waiting = [n for n in range(len(graphs)) if n not in sampled]
    learned = task is Task.MAR and _can_run(context) and network_fits([graphs[n] for n in waiting], context)
    runs: list[list[tuple[Estimate, Solver]]] = [[(answer.estimate, answer.solver)] for answer in quick]
    used = sum(answer.seconds for answer in quick)
    answers: list[list[LadderAnswer]] = [[] for _ in graphs]
    asked = [n for n in waiting if runs[n][0][0].status is not Status.ZERO_PROBABILITY]
    if learned and asked and not clock.stopped:
        from equifactor.solvers.learned.fe_net_solver import FENetSolver

        network, begin = FENetSolver(), clock.seconds
        found = _learned(network, [graphs[n] for n in asked], task, context)
        each = (clock.seconds - begin) / len(asked)
        for n, answer in zip(asked, found, strict=True):
            if answer.marginals is not None and (answer.iterations or 0) >= _STEPS:
                # The answer for ln Z is that of the task PR.
                answers[n].append(LadderAnswer(network, replace(answer, log_z=None), each))
    for n in asked:
        if (len(graphs) == 1 or _failed(runs[n][0][0])) and used <= _MORE_RUNS_SHARE * clock.left:
            runs[n] += _more_runs(graphs[n], runs[n][0][1], task, context)
    for n, own in enumerate(runs):
        estimate, solver = max(own, key=_merit)
        answers[n].insert(0, LadderAnswer(solver, estimate, used / len(graphs)))
    return answers


def _bp(
    bp: BeliefPropagation, graphs: Sequence[FactorGraph], task: Task, context: SolveContext, part: Clock
) -> list[Estimate]:
    """Return the answers of BP; where it does not converge, the mean of its marginals and those of a damped run.

    The second run costs at least what the first needed to start. It is left out if it would end after the deadline.

    On public models at even and odd places BP has a KL of .30 and .48 on linkage, .008 and .002 on Promedus and 3.3
    and 2.0 on Grids; the damped run .023 and .009, .17 and .12, 1.2 and .66; the mean .028 and .010, .05 and .033, .67
    and .49. On Promedus messages hardly change at the end.
    """
    from equifactor.solvers.messages.bp import BeliefPropagation

    whole = context.clock
    begin = whole.seconds
    found = _run(bp, graphs, task, replace(context, clock=part.part(_FIRST_RUN)))
    if whole.seconds - begin > whole.left + GRACE:
        return found
    failed = [n for n, e in enumerate(found) if _failed(e) and e.marginals is not None and task is Task.MAR]
    if not failed:
        return found
    damped = BeliefPropagation(damping=_DAMPED, iterations=_DAMPED_ITERATIONS)
    for n, other in zip(
        failed, _run(damped, [graphs[n] for n in failed], task, replace(context, clock=part)), strict=True
    ):
        own = found[n].marginals
        if own is not None and other.marginals is not None and np.isfinite(own.values).all():
            message = f"BP did not converge, so the mean of runs with damping {bp.damping:g} and {_DAMPED:g} is used."
            share = 0.5 if found[n].stats.get("change", np.inf) < _NEARLY_SETTLED else _UNSETTLED_SHARE
            mean = Marginals(share * own.values + (1.0 - share) * other.marginals.values, own.ptr)
            found[n] = replace(found[n], marginals=mean, message=message)
    return found


def _run(solver: Solver, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
    """Return the answers of a solver; their status is `time-limit` if its kernels cannot be compiled in time."""
    try:
        return [*solver.run(graphs, task, context)]
    except NotCompiledError as error:
        return [Estimate(status=Status.TIME_LIMIT, message=str(error)) for _ in graphs]


def _learned(network: Solver, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
    """Return the answers of the network; their status is `too-large` if it needs dense tables that do not fit."""
    if not all(map(network.takes_kinds_of, graphs)):
        forms = table_forms(graphs, task, context.clock)
        lowered = [form.graph for form in forms if not isinstance(form, Refusal)]
        if len(lowered) < len(forms) or not network_fits(lowered, context):
            return [Estimate(status=Status.TOO_LARGE) for _ in graphs]
    return run_any_kind(network, graphs, task, context)


def network_seconds(graphs: Sequence[FactorGraph], clock: Clock) -> float:
    """Return the seconds that the network should take here."""
    return Budget(clock).time_for(_network_work(graphs))


def _network_work(graphs: Sequence[FactorGraph]) -> float:
    """Return the reference seconds that the network should take: its steps, and its search for short loops."""
    work, slots = Seconds.NETWORK_START, 0
    for s in (g.structure for g in graphs):
        slots = max(slots, int(s.arity[np.unique(np.diff(s.table_ptr), return_index=True)[1]].sum()))
        work += Seconds.NETWORK_ENTRY * s.num_entries + _loop_work(s)
    return work + Seconds.NETWORK_STATE * _edge_states(graphs) + Seconds.NETWORK_SLOT * slots


def _loop_work(structure: Structure) -> float:
    """Return the reference seconds to find the squares of pair factors without diagonals."""
    ends = structure.scope_vars[np.repeat(structure.arity == 2, structure.arity)].reshape(-1, 2)
    cubes = Seconds.NETWORK_LOOPS * float((np.bincount(ends.ravel(), minlength=1).astype(float) ** 3).sum())
    if cubes < _FEW_LOOPS or structure.num_vars > _FEW_VARS:
        return cubes
    near = np.zeros((structure.num_vars, structure.num_vars))
    near[ends[:, 0], ends[:, 1]] = near[ends[:, 1], ends[:, 0]] = 1.0
    common = np.where(near + np.eye(len(near)) > 0.0, 0.0, near @ near)
    return Seconds.NETWORK_SQUARE * float((common * (common - 1.0)).sum()) / 8.0  # Each square has two diagonals.


def _edge_states(graphs: Sequence[FactorGraph]) -> int:
    return sum(int(g.structure.card[g.structure.scope_vars].sum()) for g in graphs)


def network_fits(graphs: Sequence[FactorGraph], context: SolveContext, share: float = 1.0) -> bool:
    """Return whether the network should make enough steps in a share of the time left, and fits memory."""
    budget = Budget(context.clock, memory=_MEMORY)
    return budget.worth_starting(_ALONE * _network_work(graphs), share, _BYTES * _edge_states(graphs))


def _can_run(context: SolveContext) -> bool:
    """Return whether the network can run: on a GPU it needs torch."""
    return context.device == "cpu" or is_installed("torch")


def _failed(estimate: Estimate) -> bool:
    short = (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.NON_FINITE)
    return estimate.status in short or "vanished" in estimate.stats


def _has_residuals(context: SolveContext) -> bool:
    """Return whether BP can run with residual schedules: they exist only on the CPU, and in compiled kernels."""
    return context.device == "cpu" and context.dtype == "float64" and can_compile(context.clock, 1.0, "bp")


def _more_runs(graph: FactorGraph, first: Solver, task: Task, context: SolveContext) -> list[tuple[Estimate, Solver]]:
    """Return the runs of BP beside the first one."""
    if not _has_residuals(context):
        return []
    found: list[tuple[Estimate, Solver]] = []
    for solver in bp_tries():
        if solver != first and not context.clock.stopped:
            found.append((_run(solver, [graph], task, context)[0], solver))
    return found


def _merit(answer: tuple[Estimate, Solver]) -> tuple[bool, bool, float]:
    """Return the rank of a run: an impossible model first, then settled runs, then the highest Bethe ln Z."""
    estimate = answer[0]
    log_z = -np.inf if estimate.log_z is None else estimate.log_z
    settled = estimate.status is Status.CONVERGED and "vanished" not in estimate.stats
    impossible = estimate.status is Status.ZERO_PROBABILITY
    return impossible, settled, log_z if settled else -estimate.stats.get("change", np.inf)
