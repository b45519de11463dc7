"""The test of whether a graph has no possible assignment at all: it tells a proof from a numerical failure.

A method that has excluded every state has either met the zeros of the tables or lost its numbers to the range of
floating point. The method itself cannot tell which. The status `zero-probability` is a proof, so it is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError
from equifactor.base.status import Status, Task
from equifactor.factors.lowered_graph import lower
from equifactor.graph.reduction import to_free_part
from equifactor.solving.estimate import Estimate, impossible

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

_SAFE_SUM = 1e37  # Sums of logs below this are finite in any float type, also when a few of them are added up.
_MEMORY = 2.0**-6  # GiB that a proof by elimination may take: 16 MiB.
_WORK = 0.1 / Seconds.PLANNING  # List operations that planning of a proof may take: 0.1 s.
_LOST = (
    "Every state was lost to the range of floating point. This proves nothing: there may be possible assignments. "
    "Use exact, branch or auto."
)


def zero_or_lost(graph: FactorGraph, clock: Clock | None = None) -> Estimate:
    """Return the estimate of a method that has lost every state: `zero-probability` if proven, else `non-finite`.

    Args:
        graph: the model.
        clock: if it has stopped, no proof is attempted.
    """
    if proven_impossible(graph, clock):
        return impossible()
    return Estimate(status=Status.NON_FINITE, message=_LOST)


def zero_by_exclusion(graph: FactorGraph) -> Estimate:
    """Return the estimate of a method that adds up logs of table entries, and has excluded all assignments by -inf.

    Examples are enumeration, elimination, complete search and dual bounds. Their -inf comes from zeros of the
    tables, which is a proof, unless the logs are so large that sums of them overflow.
    """
    largest = np.abs(np.where(np.isneginf(graph.log_phi), 0.0, graph.log_phi)).max(initial=0.0)
    return impossible() if largest < _SAFE_SUM / max(1, graph.num_factors) else zero_or_lost(graph)


def proven_impossible(graph: FactorGraph, clock: Clock | None = None) -> bool:
    """Return whether no assignment of a graph is possible; also False if a proof would take too long."""
    return is_possible(graph, clock) is False


def is_possible(graph: FactorGraph, clock: Clock | None = None) -> bool | None:
    """Return whether some assignment of a graph is possible; None if a proof would take too long.

    Only the positions of the zeros count: with all other entries at log 0 every sum is exact, and nothing can overflow
    or underflow. States without support are removed, cheap variables eliminated and tables merged. The remaining graph
    is eliminated too if it is small.
    """
    from equifactor.solvers.elimination.eliminate import maximise
    from equifactor.solvers.elimination.plan import plan
    from equifactor.solvers.elimination.shrink import has_time_to_shrink, shrink

    clock = clock or Clock()
    if clock.stopped:
        return None
    try:
        graph = lower(graph).graph
    except ModelError:  # the tables, and a proof with them, would be too large
        return None
    if not has_time_to_shrink(graph.structure, clock):
        return None
    zeros_alone = np.where(np.isneginf(graph.log_phi), -np.inf, 0.0)
    zeros_alone.flags.writeable = False  # Numba would compile again for a writeable array among read-only ones
    shrunk = shrink(type(graph).trusted(graph.structure, zeros_alone, graph.observed, graph.name))
    free_part = None if shrunk is None else to_free_part(shrunk.graph)
    if free_part is None:
        return False
    steps = plan(free_part, memory_limit=_MEMORY, task=Task.MAP, tries=1, most_work=_WORK)
    if not steps.fits(_MEMORY, Task.MAP):
        return None
    best = maximise(steps.program, free_part.graph.log_phi, clock)
    return None if best is None else best.score > -np.inf
