"""Whether a graph with zeros has a possible assignment: the question that comes before an estimate of its sums.

An estimate of ln Z would have no meaning for a formula without solutions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.kind_numbers import PARITY
from equifactor.graph.kinds import kinds_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.graph import FactorGraph
    from equifactor.solvers.auto.ladder_answers import LadderAnswer
    from equifactor.solving.estimate import Estimate

_MOST_PARITIES = 4096  # Hard parities up to which their equations are solved: 0.2 s in Python integers.
_UNPROVEN = "No possible assignment was found. There may not be one, and then ln Z is -inf."


def has_hard_structure(graph: FactorGraph) -> bool:
    """Return whether structured factors of the graph exclude assignments, as those of a formula do."""
    s = graph.structure
    if s.kinds is None:
        return False
    owner = np.repeat(np.arange(s.num_factors), np.diff(s.table_ptr))
    return bool((np.isneginf(graph.log_phi) & (s.kinds.kind[owner] > 0)).any())


def zeros_alone(graph: FactorGraph) -> FactorGraph:
    """Return a graph with the same possible assignments, all of which have the log score 0 as far as possible.

    Log values other than `-inf` become 0. Factors that are not linear in their log values, such as a noisy-or, keep
    them.
    """
    s = graph.structure
    keep = np.zeros(len(graph.log_phi), bool)
    if s.kinds is not None:
        keep = np.repeat(kinds_with("nonlinear_values", s.kinds.kind), np.diff(s.table_ptr))
    return graph.with_potentials(np.where(keep | np.isneginf(graph.log_phi), graph.log_phi, 0.0), log=True)


def are_parities_contradictory(graph: FactorGraph) -> bool:
    """Return whether the hard parities of a graph contradict each other: Gaussian elimination over 0 and 1."""
    s = graph.structure
    places = np.zeros(0, np.int64) if s.kinds is None else np.flatnonzero(s.kinds.kind == PARITY)
    even_possible = ~np.isneginf(graph.log_phi[s.table_ptr[places]])
    odd_possible = ~np.isneginf(graph.log_phi[s.table_ptr[places] + 1])
    hard = places[even_possible != odd_possible]
    if len(hard) > _MOST_PARITIES:
        return False
    known: dict[int, int] = {}  # Sums of equations by their highest bit; bit 0 is the right side.
    for a, odd in zip(hard.tolist(), odd_possible[even_possible != odd_possible].tolist(), strict=True):
        equation = int(odd)
        for i in s.scope(a).tolist():
            equation ^= 2 << i
        while equation > 1 and (top := equation.bit_length()) in known:
            equation ^= known[top]
        if equation == 1:  # 0 = 1
            return True
        if equation:
            known[equation.bit_length()] = equation
    return False


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
