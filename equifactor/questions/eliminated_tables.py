"""Exact distributions of scopes by elimination, for factors of every kind; checks the cost first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Refusal, planning_work
from equifactor.base.clock import Clock
from equifactor.base.errors import SolveError
from equifactor.base.status import Status
from equifactor.factors.lowered_graph import lower

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph


def eliminated(
    graph: FactorGraph, scopes: Sequence[Sequence[int]], memory_limit: float, time_limit: float = math.inf
) -> list[FloatArray] | Refusal:
    """Return the exact distribution of each scope; if that exceeds a limit, return a refusal with its cost in words.

    Args:
        graph: the model, with factors of any kind and its evidence.
        scopes: variables, observed ones included.
        memory_limit: GiB of tables.
        time_limit: seconds, by an estimate.
    """
    from equifactor.solvers.elimination.orders import NoOrder
    from equifactor.solvers.elimination.scope_sums import MAX_BITS, plan_scopes, too_large

    bits = max((float(np.log2(graph.card[list(scope)]).sum()) for scope in scopes), default=0.0)
    if bits >= MAX_BITS:
        return Refusal(f"a table of 2^{bits:.0f} entries")
    most_work = planning_work(time_limit)
    steps = plan_scopes(lower(graph).graph, scopes, memory_limit=memory_limit, most_work=most_work)
    if steps is None:
        raise SolveError(Status.ZERO_PROBABILITY.advice)
    if isinstance(steps.steps.found, NoOrder) and steps.steps.found.out_of_work:
        return Refusal(f"more than {time_limit:g} s to plan")
    cost = too_large(steps, memory_limit)
    if cost:
        return Refusal(cost)
    if steps.steps.seconds() > time_limit:
        return Refusal(f"about {steps.steps.seconds():.2g} s")
    tables = steps.run(Clock())
    assert tables is not None  # since this clock has no limit
    return tables


def factor_tables(graph: FactorGraph, factors: Sequence[int], memory_limit: float) -> dict[int, FloatArray]:
    """Return the exact distribution of the scope of each factor, by number; raise `SolveError` above the limit."""
    found = eliminated(graph, [graph.structure.scope(a).tolist() for a in factors], memory_limit)
    if isinstance(found, Refusal):
        raise SolveError(f"Factor marginals by elimination would take {found}.")
    return dict(zip(factors, found, strict=True))
