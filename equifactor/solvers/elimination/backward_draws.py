"""Independent exact samples of a model: one upward pass along a plan, then draws against the order of elimination."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.pointers import place_in_row
from equifactor.solvers.elimination.eliminate import sum_up

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.solvers.elimination.plan import Plan
    from equifactor.solving.solver import SolveContext

_BURST = 2.0**22  # States drawn between two checks of the clock, about 0.2 s.


def backward_draws(steps: Plan, count: int, context: SolveContext) -> IntArray | None:
    """Return states [n, V] of the variables of the planned graph, auxiliary ones included; None if Z = 0.

    n is `count`, or less if the clock stopped. Cost: one upward pass, then O(v k) per sample for v variables in
    clusters of k factors and messages.
    """
    from equifactor.solvers.elimination.draw_kernels import draw_many

    reduced, program = steps.reduced, steps.program
    s, original = reduced.graph.structure, reduced.original.structure
    found = sum_up(program, reduced.graph.log_phi, context.clock)
    states = np.zeros((count if found is not None else 0, original.num_vars), np.int64)
    if found is None:
        return states
    log_z, tables = found
    if log_z == -math.inf:
        return None
    if reduced.fixed is not None:
        states[:] = reduced.fixed
    state_of = place_in_row(original.state_ptr)
    if reduced.kept_states is not None:
        state_of = state_of[reduced.kept_states]
    places = np.arange(len(program.variables))
    variables = program.variables if reduced.variables is None else reduced.variables[program.variables]
    rng = np.random.default_rng(context.seed).integers(1, 2**64, 1, np.uint64)
    row = np.zeros(int(s.card.max(initial=1)))
    burst = max(1, int(_BURST / max(1, len(places))))
    done = 0
    while done < count and not (done and context.clock.stopped):
        part = states[done : done + burst]
        draw_many(
            np.zeros(len(places), np.int64), rng, places, program.separators, tuple(program.clusters), tuple(tables),
            row, variables, state_of, program.clusters.state_start, part,
        )  # fmt: skip
        done += len(part)
        context.report(done, count)
    return states[:done]
