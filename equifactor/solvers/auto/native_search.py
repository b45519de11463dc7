"""MAP by the methods that take factors of every kind as they are, before tables and where there can be none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.status import Status, Task
from equifactor.graph import compile
from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
from equifactor.solvers.messages.sequential_decoding import sequential_states
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.solving.solver import SolveContext

# Search improves the assignment, dual ascent the bound; each has its share of the time that is left then.
HELPERS = (("local-search", 0.6), ("mplp", 0.8))
_BP_ITERATIONS = 200  # Max-product makes at most this many iterations.
_BP_BURST = 20  # The clock is looked at after this many iterations of max-product.


def max_product(flat: FlatGraph[np.ndarray], context: SolveContext) -> tuple[list[IntArray], FloatArray]:
    """Two decodings [V] of damped max-product messages on one graph of factors of any kind, and a bound [1]."""
    settings = BpSettings("max", "parallel", 0.5, 1e-6, context.seed)
    engine = new_engine(flat, settings, context, "numba")
    change = np.inf
    for _ in range(_BP_ITERATIONS // _BP_BURST):
        if change <= settings.tolerance or context.clock.stopped:
            break
        change = float(engine.sweep(_BP_BURST).max(initial=0.0))
    answers = engine.answers()
    return [answers.states, sequential_states(flat, engine.messages())], answers.upper_bound


def native_best(graph: FactorGraph, seconds: float, gap: float, context: SolveContext) -> Estimate:
    """The best assignment of a graph as it is, and the lowest bound, in about `seconds`.

    Args:
        graph: factors of any kind.
        seconds: for all methods together.
        gap: the relative gap between bound and score that counts as none.
        context: the seed and the clock of the call.
    """
    from equifactor.solving.registry import parse_solver

    clock = Clock(seconds, whole=context.clock)
    flat = compile(graph)
    decoded, bounds = max_product(flat, replace(context, clock=clock))
    found = [flat.assignments(states)[0] for states in decoded]
    best = max(found, key=graph.log_score)
    bound, done = float(bounds[0]), ["max-product decoding"]
    for name, share in HELPERS:
        score = float(graph.log_score(best))
        if clock.stopped or _closed(bound, score, gap):
            break
        solver = parse_solver(name)
        if not solver.any_kind:
            continue
        part = replace(context, clock=Clock(share * clock.left, whole=clock))
        estimate = solver.run([graph], Task.MAP, part)[0]
        if estimate.status is Status.ZERO_PROBABILITY:
            return estimate
        done.append(name)
        if estimate.assignment is not None and graph.log_score(estimate.assignment) > score:
            best = estimate.assignment
        if estimate.upper_bound is not None:
            bound = min(bound, estimate.upper_bound)
    score = float(graph.log_score(best))
    proven = _closed(bound, score, gap)
    shown = f"gap {bound - score:.3g}" if np.isfinite(bound) and np.isfinite(score) else "no bound"
    return Estimate(
        status=Status.OPTIMAL if proven else context.clock.status or Status.CONVERGED,
        message=f"best of {' and '.join(done)} on the factors as they are: {shown}",
        assignment=best,
        lower_bound=score if np.isfinite(score) else None,
        upper_bound=max(bound, score) if np.isfinite(bound) else None,
    )


def _closed(bound: float, score: float, gap: float) -> bool:
    return bool(np.isfinite(bound)) and bound - score <= gap * max(1.0, abs(bound))
