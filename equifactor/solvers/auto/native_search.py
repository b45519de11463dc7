"""MAP on structured factors as they are, before dense tables are tried or if they are too large."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.clock import Clock
from equifactor.base.status import Status, Task
from equifactor.graph import compile
from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
from equifactor.solvers.messages.sequential_decoding import sequential_states
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.solving.solver import SolveContext, Solver

# The share of the time left for local search, which improves the assignment. Halved or doubled: gap within 150 %.
_SEARCH_SHARE = 0.6
# The share of the time left for dual ascent, which improves the bound. Halved or doubled: gap within 75 %.
_DUAL_SHARE = 0.8
_BP_ITERATIONS = 200  # Iterations of max-product at most. Halved or doubled: gap within 100 %.
_BP_PART = 20  # Iterations of max-product between two looks at its answer. Halved or doubled: gap within 100 %.
# Iterations between two checks of the clock at most: 20 take up to 5 ms on models of object detection.
_BP_CALL = 5
_BP_STATE = 3e-7  # Seconds of an iteration of max-product for an edge state: 20,000 effects of noisy-or causes.


class MaxProduct:
    """Damped max-product messages on one graph of any factors, in parts of a few iterations."""

    def __init__(self, flat: FlatGraph[np.ndarray], context: SolveContext) -> None:
        self.flat = flat
        self.iterations = 0
        self._settings = BpSettings("max", "parallel", 0.5, 1e-6, context.seed)
        self._engine = new_engine(flat, self._settings, context, "numba")
        self._clock = context.clock
        self._change = np.inf  # The largest change of a message in the last iteration.

    @property
    def finished(self) -> bool:
        """Whether the messages have converged, or have had all their iterations."""
        return self._change <= self._settings.tolerance or self.iterations >= _BP_ITERATIONS

    def step(self) -> None:
        """Run the iterations of one part, or those that the time allows."""
        most = min(_BP_CALL, max(1, int(CALL_SECONDS / (_BP_STATE * max(1, self.flat.num_edge_states)))))
        end = self.iterations + _BP_PART
        while self.iterations < end:
            count = min(most, end - self.iterations)
            self._change = float(self._engine.sweep(count).max(initial=0.0))
            self.iterations += count
            if self._clock.stopped:
                break

    def decoded(self) -> tuple[list[IntArray], FloatArray]:
        """Return two decodings [V] of the messages, or one after the deadline, and an upper bound [1]."""
        answers = self._engine.answers()
        if self._clock.stopped:
            return [answers.states], answers.upper_bound
        return [answers.states, sequential_states(self.flat, self._engine.messages())], answers.upper_bound


def max_product(flat: FlatGraph[np.ndarray], context: SolveContext) -> tuple[list[IntArray], FloatArray]:
    """Return two decodings [V] of damped max-product messages on one graph of any factors, and an upper bound [1]."""
    messages = MaxProduct(flat, context)
    while not messages.finished and not context.clock.stopped:
        messages.step()
    return messages.decoded()


def native_best(graph: FactorGraph, seconds: float, gap: float, context: SolveContext) -> Estimate:
    """Return the best assignment of a graph with its factors as they are, and the lowest bound, in about `seconds`.

    Args:
        graph: a graph with factors of any kind.
        seconds: the time of all methods together.
        gap: the relative gap between bound and score that counts as closed.
        context: the seed and the clock of the call.
    """
    from equifactor.solvers.duals.dual_solvers import Mplp
    from equifactor.solvers.search.local_search import LocalSearchSolver

    clock = Clock(seconds, whole=context.clock)
    flat = compile(graph)
    decoded, bounds = max_product(flat, replace(context, clock=clock))
    found = [flat.assignments(states)[0] for states in decoded]
    best = max(found, key=graph.log_score)
    bound, done = float(bounds[0]), ["max-product decoding"]
    helpers: tuple[tuple[Solver, float], ...] = (LocalSearchSolver(), _SEARCH_SHARE), (Mplp(), _DUAL_SHARE)
    for solver, share in helpers:
        score = float(graph.log_score(best))
        if clock.stopped or _closed(bound, score, gap):
            break
        if not solver.takes_kinds_of(graph):
            continue
        part = replace(context, clock=Clock(share * clock.left, whole=clock))
        estimate = solver.run([graph], Task.MAP, part)[0]
        if estimate.status is Status.ZERO_PROBABILITY:
            return estimate
        done.append(solver.name)
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
