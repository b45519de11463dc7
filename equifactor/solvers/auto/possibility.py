"""Whether a graph with zeros has a possible assignment: the question that comes before an estimate of its sums.

An estimate of ln Z would have no meaning for a formula without solutions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_rows import by_kind
from equifactor.graph.kinds import kind_class
from equifactor.graph.structured_factor import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.graph import FactorGraph
    from equifactor.solvers.auto.ladder_answers import LadderAnswer
    from equifactor.solving.estimate import Estimate

_UNPROVEN = "No possible assignment was found. There may not be one, and then ln Z is -inf."


def has_hard_structure(graph: FactorGraph) -> bool:
    """Return whether structured factors of the graph exclude assignments, as those of a formula do."""
    s = graph.structure
    if s.kinds is None:
        return False
    owner = np.repeat(np.arange(s.num_factors), np.diff(s.table_ptr))
    return bool((np.isneginf(graph.log_phi) & (s.kinds.kind[owner] > 0)).any())


def are_contradictory(graph: FactorGraph) -> bool:
    """Return whether the structured factors of one kind, taken together, exclude every assignment."""
    rows = graph.structure.rows(graph.log_phi)
    return any(n != TABLE and kind_class(n).are_contradictory(rows.take(places)) for n, places in by_kind(rows))


def with_possibility(
    estimate: Estimate, graph: FactorGraph, log_score: float, answers: Sequence[LadderAnswer]
) -> Estimate:
    """Return the estimate of sums with a lower bound on ln Z: -inf if no assignment is known to be possible.

    Args:
        estimate: of ln Z, or marginals.
        graph: the model.
        log_score: the log score of an assignment that was found, `-inf` if none was found.
        answers: of the solvers that ran. Samplers visit possible assignments only.
    """
    if not np.isneginf(graph.log_phi).any():
        return estimate
    best = max(log_score, *(-np.inf if a.estimate.lower_bound is None else a.estimate.lower_bound for a in answers))
    best = max(best, -np.inf if estimate.lower_bound is None else estimate.lower_bound)
    sampled = any(a.estimate.standard_errors is not None or a.estimate.log_z_error is not None for a in answers)
    if best > -np.inf:
        return replace(estimate, lower_bound=best)
    if sampled:
        return estimate
    return replace(estimate, lower_bound=-np.inf, message=f"{estimate.message} {_UNPROVEN}".strip())
