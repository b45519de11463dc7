"""Joints by conditioning: p(x, y, z) = p(x) p(y | x) p(z | x, y), each part by the same solver given more evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.base.status import Status
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reading.observations import StateNumbers
from equifactor.questions.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.marginals import Marginals
    from equifactor.graph.structure import Structure
    from equifactor.questions.solve_settings import SolveSettings


def conditioned_graphs(graph: FactorGraph, variables: Sequence[int], states: IntArray) -> list[FactorGraph]:
    """Return the graph given these variables in each of the states [N, k]; equal structures are shared."""
    found: list[FactorGraph] = []
    known: list[Structure] = []
    for row in states.tolist():
        given = graph.condition(StateNumbers(zip(variables, row, strict=True)))
        # Tables are sliced the same way for all states; a structured factor may change with the states.
        shared = next((s for s in known[-4:] if graph.structure.kinds is None or s.same_as(given.structure)), None)
        if shared is None:
            known.append(given.structure)
        else:
            given = FactorGraph.trusted(shared, given.log_phi, given.observed, given.name)
        found.append(given)
    return found


def solve_given(
    graph: FactorGraph, variables: Sequence[int], states: IntArray, settings: SolveSettings
) -> list[Result | None]:
    """Return the results given each of the states [N, k] of these variables; None if these have probability zero."""
    from equifactor.questions.solve import solve
    from equifactor.solvers.auto.chooser import Auto

    graphs = conditioned_graphs(graph, variables, states)
    method = settings.method()
    limit = None if settings.time_limit is None else settings.time_limit * len(graphs)
    if isinstance(method, Auto):  # it shares its time among the graphs of a batch
        method = replace(method, seconds=method.seconds * len(graphs))
    results = solve(
        graphs, "MAR", method, seed=settings.seed, device=settings.device, dtype=settings.dtype,
        time_limit=limit,
    )  # fmt: skip
    for result in results:
        if result.status is Status.INTERRUPTED:
            raise SolveError("The question was interrupted before all its runs had finished, so there is no answer.")
        if not result.answered and result.status is not Status.ZERO_PROBABILITY:
            raise SolveError(
                f"There is no answer given some states of the variables. {result.message or result.status.advice}"
            )
    return [result if result.answered else None for result in results]


def conditioned_joint(
    graph: FactorGraph, variables: Sequence[int], marginals: Marginals, settings: SolveSettings
) -> tuple[FloatArray, list[Status]]:
    """Return the joint of free variables, one axis each, and the status of each run."""
    card = graph.card[list(variables)]
    joint = np.array(marginals[variables[0]])
    statuses: list[Status] = []
    for k in range(1, len(variables)):
        possible = np.argwhere(joint > 0)
        table = np.zeros((*joint.shape, int(card[k])))
        for at, result in zip(possible, solve_given(graph, variables[:k], possible, settings), strict=True):
            if result is not None:
                table[tuple(at)] = joint[tuple(at)] * result.marginals[variables[k]]
                statuses.append(result.status)
        joint = table
    total = joint.sum()
    if not total > 0:
        raise SolveError("The solver finds every combination of these states impossible. Use another solver.")
    return joint / total, statuses
