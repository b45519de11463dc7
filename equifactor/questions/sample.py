"""Samples of a model: `sample(graph, n, evidence) -> Samples`."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Budget, planning_work
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.run_context import check_run
from equifactor.base.status import Status
from equifactor.factors.lowered_graph import lower
from equifactor.graph import FactorGraph
from equifactor.graph.interventions import intervened
from equifactor.graph.reduction import to_free_part
from equifactor.graph.structure import MAX_TABLE_ENTRIES
from equifactor.questions.samples import Samples
from equifactor.solvers.auto.chooser import Auto
from equifactor.solvers.elimination.backward_draws import backward_draws
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.elimination.plan import format_bytes, plan
from equifactor.solvers.sampling.block_draws import block_draws
from equifactor.solvers.sampling.blocks import BlockSampling
from equifactor.solving.registry import parse_solver
from equifactor.solving.solver import Progress, SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.reading.inputs import Evidence

_PLAN_SHARE = 0.5  # A plan is used if its upward pass takes at most this share of the time left. Chosen by hand.


def sample(
    graph: FactorGraph,
    n: int,
    *,
    evidence: Evidence | None = None,
    do: Evidence | None = None,
    seed: int = 0,
    solver: str | Solver = "auto",
    time_limit: float | None = None,
    progress: Progress | bool = False,
) -> Samples:
    """Draw assignments from a model, given evidence.

    If an elimination plan fits in memory, the samples are independent and exact: after one upward pass every variable
    is drawn given the variables eliminated after it (backward sampling). Otherwise they are states of Markov chains
    that draw large blocks of variables at once, and the status tells whether the chains agree.

    Args:
        graph: the model.
        n: the number of samples.
        evidence: states or weights by variable, as `FactorGraph.condition` takes them.
        do: variables of a Bayesian network that are set to a state from outside, as in `solve`.
        seed: the same seed gives the same samples.
        solver: "auto"; "exact", which returns no samples if no plan fits `exact(memory_limit=..)`; or "blocks", which
            always runs chains.
        time_limit: seconds, after which the samples so far are returned with status `time-limit`.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph({"rain": 2, "grass": ["dry", "wet"]}, [
        ...     (["rain"], [0.8, 0.2]),
        ...     (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]]),
        ... ])
        >>> drawn = ef.sample(graph, 100_000, evidence={"grass": "wet"}, seed=1)
        >>> drawn.status.value, round(float(drawn.states[:, 0].mean()), 2)  # p(rain | wet) = 0.19 / 0.27
        ('exact', 0.7)
    """
    from equifactor.base.progress import bar

    if not isinstance(graph, FactorGraph):
        raise ModelError(f"sample takes one FactorGraph, found {brief(graph)}.")
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 0:
        raise OptionError(f"The number of samples must be a whole number >= 0, found {brief(n)}.")
    if n * graph.num_vars > MAX_TABLE_ENTRIES:
        raise OptionError(f"{brief(n)} samples of {graph.num_vars:,} variables cannot be addressed. Draw fewer.")
    method = parse_solver(solver)
    check_run(time_limit, seed, progress)
    if not isinstance(method, (Auto, Exact, BlockSampling)):
        raise OptionError(f"{method.name} does not draw samples. Choose from: auto, exact, blocks.")
    if do is not None:
        graph = intervened(graph, do)
    if evidence is not None:
        graph = graph.condition(evidence)
    clock = Clock(time_limit)
    with bar(progress, "samples", time_limit) as report, clock.govern():
        context = SolveContext(clock=clock, seed=seed, threads=None, progress=report)
        try:
            drawn = _drawn(graph, int(n), method, context)
        except NotCompiledError as error:
            drawn = _samples(graph, None, Status.TIME_LIMIT, method, str(error))
        except MemoryError:
            need = format_bytes(8.0 * int(n) * graph.num_vars)
            raise OptionError(
                f"{n:,} samples of {graph.num_vars:,} variables take {need}. Draw fewer at a time."
            ) from None
    return replace(drawn, seconds=clock.seconds)


def _drawn(graph: FactorGraph, n: int, method: Auto | Exact | BlockSampling, context: SolveContext) -> Samples:
    """Return exact samples if a plan fits, otherwise states of chains if the method allows them."""
    reduced = to_free_part(lower(graph).graph)
    if reduced is None:
        return _samples(graph, None, Status.ZERO_PROBABILITY, method)
    # If the time is over, only the blocks say what is missing.
    if isinstance(method, Exact) or (isinstance(method, Auto) and not context.clock.stopped):
        work = planning_work(_PLAN_SHARE * context.clock.left)
        steps = plan(reduced, memory_limit=method.memory_limit, most_work=work, seed=context.seed, first=True)
        fits = steps.fits(method.memory_limit)
        if fits and Budget(context.clock).worth_starting(steps.seconds(), _PLAN_SHARE):
            states = backward_draws(steps, n, context)
            if states is None:
                return _samples(graph, None, Status.ZERO_PROBABILITY, method)
            complete = len(states) == n
            return _samples(graph, states, Status.EXACT if complete else context.clock.status, method)
        if isinstance(method, Exact) and not fits:
            said = f"{steps.excess(method.memory_limit)} Raise memory_limit or use auto."
            return _samples(graph, None, Status.TOO_LARGE, method, said)
        if isinstance(method, Exact):
            said = f"Elimination would take about {steps.seconds():.2g} s. Raise the time limit or use auto."
            return _samples(graph, None, context.clock.status or Status.TIME_LIMIT, method, said)
    method = method if isinstance(method, BlockSampling) else BlockSampling()
    found = block_draws(reduced, n, method, context)
    return _samples(graph, found.states, found.status, method, found.message)


def _samples(
    graph: FactorGraph, states: IntArray | None, status: Status | None, method: Solver, message: str = ""
) -> Samples:
    """Return the samples without auxiliary variables, which come after the variables of the graph."""
    if states is None:
        states = np.zeros((0, graph.num_vars), np.int64)
    status = status or Status.TIME_LIMIT
    own = np.ascontiguousarray(states[:, : graph.num_vars])
    return Samples(graph=graph, states=own, status=status, solver=str(method), message=message)
