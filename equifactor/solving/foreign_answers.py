"""Checks of what a solver from outside this package returns, so that an error names its file and not this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, SolveError, brief
from equifactor.base.status import Status
from equifactor.graph.marginals import Marginals
from equifactor.graph.reading.observations import read_assignments
from equifactor.solving.estimate import Estimate
from equifactor.solving.plugins import definition_site, is_foreign

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import Solver


def checked_answers(method: Solver, graphs: Sequence[FactorGraph], found: Any) -> list[Estimate]:
    """Return one estimate per graph; raise `SolveError` if a solver of the user returned anything else."""
    where = f"{definition_site(type(method))}: " if is_foreign(type(method)) else ""
    if not isinstance(found, Sequence) or len(found) != len(graphs):
        what = f"{len(found)} answers" if isinstance(found, Sequence) else brief(found)
        raise SolveError(
            f"{where}{method.name} returned {what} for {len(graphs)} graphs; expected a list with one "
            "equifactor.solvers.Estimate for each graph."
        )
    return [_checked(f"{where}{method.name} returned", g, e) for g, e in zip(graphs, found, strict=True)]


def _checked(who: str, graph: FactorGraph, estimate: Any) -> Estimate:
    if not isinstance(estimate, Estimate):
        raise SolveError(f"{who} {brief(estimate)}; expected an equifactor.solvers.Estimate.")
    if not isinstance(estimate.status, Status):
        raise SolveError(f"{who} the status {brief(estimate.status)}; expected an equifactor.Status.")
    for name in ("marginals", "standard_errors", "marginal_errors"):
        _check_vectors(f"{who} {name}", graph, getattr(estimate, name))
    if estimate.marginals is not None and not np.isfinite(estimate.marginals.values).all():  # a status, not an error
        text = f"{estimate.message} {who} marginals that are not finite.".strip()
        estimate = replace(estimate, message=text)
    if estimate.assignment is None:
        return estimate
    try:
        states = read_assignments(graph.structure, estimate.assignment)
        if states.ndim != 1:
            raise ModelError("An assignment must have one axis.")
    except ModelError as error:
        text = str(error)
        shown = brief(estimate.assignment)
        raise SolveError(f"{who} the assignment {shown}. {text[:1].upper()}{text[1:]}") from None
    return replace(estimate, assignment=states)


def _check_vectors(who: str, graph: FactorGraph, found: Any) -> None:
    """Raise `SolveError` unless there is one vector per variable, with a number for each of its states."""
    if found is None:
        return
    if not isinstance(found, Marginals):
        raise SolveError(
            f"{who} as an object of type {type(found).__name__}; expected equifactor.answers.Marginals, such as "
            "Marginals.from_list(vectors)."
        )
    lengths = np.diff(found.ptr)
    if len(lengths) != graph.num_vars:
        raise SolveError(f"{who} of {len(lengths)} variables; expected one vector for each of {graph.num_vars}.")
    wrong = np.flatnonzero(lengths != graph.card)
    if len(wrong):
        i = int(wrong[0])
        raise SolveError(
            f"{who} with {lengths[i]} numbers for variable {graph.structure.variable_name(i)}; expected "
            f"{graph.card[i]}, one for each of its states."
        )
