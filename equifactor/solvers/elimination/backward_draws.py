"""Independent exact samples of a model: one upward pass along a plan, then draws against the order of elimination."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.status import Task
from equifactor.kernels.pointers import place_in_row
from equifactor.kernels.readiness import plain_is_better, uses_kernels
from equifactor.solvers.elimination.eliminate import sum_up
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.plain_draws import PlainDraws, plain_draw_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import IntArray
    from equifactor.solvers.elimination.plan import Plan
    from equifactor.solving.solver import SolveContext


def backward_draws(steps: Plan, count: int, context: SolveContext) -> IntArray | None:
    """Return states [n, V] of the variables of the planned graph, auxiliary ones included; None if Z = 0.

    n is `count`, or less if the clock stopped. Cost: one upward pass, then O(v k) per sample for v variables in
    clusters of k factors and messages.
    """
    reduced, order = steps.reduced, steps.found
    assert isinstance(order, Order)
    s, original = reduced.graph.structure, reduced.original.structure
    draws = _draws(steps, count, context)
    states = np.zeros((count if draws.log_z is not None else 0, original.num_vars), np.int64)
    if draws.log_z is None:
        return states
    if draws.log_z == -math.inf:
        return None
    if reduced.fixed is not None:
        states[:] = reduced.fixed
    state_of = place_in_row(original.state_ptr)
    if reduced.kept_states is not None:
        state_of = state_of[reduced.kept_states]
    first = s.state_ptr[order.variables]
    variables = order.variables if reduced.variables is None else reduced.variables[order.variables]
    rng = np.random.default_rng(context.seed).integers(1, 2**64, 1, np.uint64)
    burst = max(1, int(draws.burst / max(1, len(variables))))
    done = 0
    while done < count and not (done and context.clock.stopped):
        part = states[done : done + burst]
        draws.draw(rng, part, variables, state_of, first)
        done += len(part)
        context.report(done, count)
    return states[:done]


def _draws(steps: Plan, count: int, context: SolveContext) -> PlainDraws | _KernelDraws:
    """Make the upward pass, in plain NumPy if all draws then end sooner than kernels are loaded."""
    if not uses_kernels("elimination"):
        size = len(steps.reduced.graph.card)
        plain = steps.plain_seconds(Task.PR) + plain_draw_seconds(count, size)
        if plain_is_better(plain, steps.seconds(Task.PR), "elimination"):
            assert isinstance(steps.found, Order)
            reduced = steps.reduced.graph
            return PlainDraws(reduced.structure, steps.found, reduced.log_phi, context.clock)
    return _KernelDraws(steps, context)


class _KernelDraws:
    """The tables of an upward pass of the kernels, to draw from. Their members are those of `PlainDraws`."""

    burst = 2.0**22  # States drawn between two checks of the clock, about 0.2 s.

    def __init__(self, steps: Plan, context: SolveContext) -> None:
        self._program = steps.program
        self._row = np.zeros(int(steps.reduced.graph.card.max(initial=1)))
        found = sum_up(self._program, steps.reduced.graph.log_phi, context.clock)
        self.log_z = found and found[0]
        self._tables = found and tuple(found[1])

    def draw(
        self, rng: NDArray[np.uint64], part: IntArray, variables: IntArray, state_of: IntArray, first: IntArray
    ) -> None:
        """Fill columns `variables` of the rows of part [n, V]; advance the generator."""
        from equifactor.solvers.elimination.draw_kernels import draw_many

        places = np.arange(len(variables))
        draw_many(
            np.zeros(len(places), np.int64), rng, places, self._program.separators, tuple(self._program.clusters),
            self._tables, self._row, variables, state_of, first, part,
        )  # fmt: skip
