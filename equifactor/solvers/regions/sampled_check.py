"""Errors of an answer by its distance from that of a short run of Gibbs sampling, whose errors are known.

Splittings of one model can agree on a wrong answer, so that their spread says little. A sampler is wrong in other ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.base.status import Task
from equifactor.solvers.sampling.gibbs import Gibbs

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import SolveContext

_CHAINS = 16  # Chains of the check. Chosen by hand.
_DRAWS = 48, 1000  # Draws of each chain: fewer do not check anything, and more are not needed. Chosen by hand.
_BURN_IN = 4  # Sweeps of burn-in are one over this many of the draws. Chosen by hand.
LOG_Z_SHARE = 1.0  # The error of ln Z over the sum of the errors of all variables. Chosen by `benchmarks.coverage`.


class CheckedErrors(NamedTuple):
    """The standard errors of an answer."""

    marginals: FloatArray  # [X]
    log_z: float


def check_by_sampling(graph: FactorGraph, p: FloatArray, seconds: float, context: SolveContext) -> CheckedErrors | None:
    """Return the errors of marginals p [X] and of ln Z; None if there is not enough time for a sampler.

    The squared error of an entry is its squared distance from the sampler, plus the squared error of the sampler. So it
    is too large rather than too small.

    Args:
        graph: the model without observed variables.
        p: [X] the marginals.
        seconds: reference seconds that the check may take.
        context: its clock limits the check.
    """
    sweep = Seconds.GIBBS_EDGE * _CHAINS * max(1, graph.structure.num_edges)
    draws = int(min(_DRAWS[1], seconds / sweep * _BURN_IN / (_BURN_IN + 1)))
    if draws < _DRAWS[0] or context.clock.stopped or not len(p):
        return None
    gibbs = Gibbs(chains=_CHAINS, samples=draws, burn_in=draws // _BURN_IN)
    found = gibbs.run_one(graph, Task.MAR, context)
    if found.marginals is None or found.standard_errors is None:
        return None
    gap = p - found.marginals.values
    squares = gap**2 + found.standard_errors.values**2
    return CheckedErrors(np.sqrt(squares), LOG_Z_SHARE * graph.num_vars * float(np.sqrt(squares.mean())))
