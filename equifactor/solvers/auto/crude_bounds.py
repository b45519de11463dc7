"""Quick bounds on ln Z from one pass over each table, for an estimate without an error or bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Refusal
from equifactor.graph.reduction import to_free_part

if TYPE_CHECKING:
    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph import FactorGraph
    from equifactor.solving.estimate import Estimate


def with_error(estimate: Estimate, form: LoweredGraph | Refusal) -> tuple[Estimate, str]:
    """Return an estimate whose ln Z has an error or bounds, and a sentence if they had to be added.

    Args:
        estimate: the answer.
        form: the model with dense tables alone, or why that is not possible.
    """
    e = estimate
    bounded = e.lower_bound is not None and e.upper_bound is not None
    if e.log_z is None or e.log_z_error is not None or bounded or not math.isfinite(e.log_z):
        return e, ""
    if isinstance(form, Refusal):
        return replace(e, log_z_error=math.inf), "The error of ln Z is not known."
    lower, upper = crude_bounds(form.graph)
    lower, upper = (
        max(lower, -math.inf if e.lower_bound is None else e.lower_bound),
        min(upper, math.inf if e.upper_bound is None else e.upper_bound),
    )
    inside = min(max(e.log_z, lower), upper)
    if lower == -math.inf:  # The model has zeros.
        said = f"ln Z is at most {upper:.6g}; there was no time for a lower bound, and its error is not known."
        return replace(e, log_z=inside, log_z_error=math.inf, upper_bound=upper), said
    said = f"There was no time to estimate the error of ln Z: it is proven to be between {lower:.6g} and {upper:.6g}."
    return replace(e, log_z=inside, lower_bound=lower, upper_bound=upper), said


def with_bounds(estimate: Estimate, searched: Estimate | None) -> Estimate:
    """Return the estimate with the tighter of its own bounds on ln Z and those of a search."""
    if searched is None:
        return estimate
    lower = [-np.inf, *(b for b in (estimate.lower_bound, searched.lower_bound) if b is not None)]
    upper = [np.inf, *(b for b in (estimate.upper_bound, searched.upper_bound) if b is not None)]
    log_z = estimate.log_z if estimate.log_z is None else min(max(estimate.log_z, *lower), *upper)
    return replace(estimate, log_z=log_z, lower_bound=max(lower), upper_bound=min(upper))


def crude_bounds(graph: FactorGraph) -> tuple[float, float]:
    """Return a lower and an upper bound on ln Z.

    ln Z is at most ln of the number of assignments plus the sum of the largest log entry of each table. It is at least
    the same with the mean log entry (mean field at the uniform distribution): -inf if a table has a zero.
    """
    reduced = to_free_part(graph)
    if reduced is None:
        return -math.inf, -math.inf
    free = reduced.graph
    volume = float(np.log(free.card).sum())
    first, size = free.structure.table_ptr[:-1], np.diff(free.structure.table_ptr)
    if not len(size):
        return volume, volume
    top, total = np.maximum.reduceat(free.log_phi, first), np.add.reduceat(free.log_phi, first)
    return volume + float((total / size).sum()), volume + float(top.sum())


def log_range(graph: FactorGraph) -> float:
    """Return the sum over all tables of the largest log entry minus the mean one: the scale of errors of ln Z.

    Without zeros it is the distance between the bounds of `crude_bounds`. Zeros are left out of the means.
    """
    first, size = graph.structure.table_ptr[:-1], np.diff(graph.structure.table_ptr)
    if not len(size):
        return 0.0
    possible = graph.log_phi > -np.inf
    values = np.where(possible, graph.log_phi, 0.0)
    mean = np.add.reduceat(values, first) / np.maximum(np.add.reduceat(possible, first, dtype=np.int64), 1)
    top = np.maximum.reduceat(graph.log_phi, first)
    return float(np.maximum(top - mean, 0.0).sum())
