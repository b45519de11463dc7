"""A graph given evidence: observed variables leave every scope, weights become factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.reading import observations
from equifactor.graph.reading.observations import StateNumbers
from equifactor.graph.slicing import slice_tables

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.reading.inputs import Evidence


def conditioned(given: FactorGraph, evidence: Evidence) -> FactorGraph:
    """What `FactorGraph.condition` returns; it says what evidence may be."""
    observed = np.full(given.num_vars, -1) if given.observed is None else given.observed.copy()
    read = observations.checked_number if isinstance(evidence, StateNumbers) else observations.state_number
    any_hard = False
    soft: list[tuple[list[int], FloatArray]] = []
    for i, value in observations.by_variable(given.structure, evidence, "evidence").items():
        if observations.is_state(value):
            state = read(given.structure, i, value)
            if observed[i] not in (-1, state):
                name = given.structure.variable_name(i)
                raise ModelError(f"variable {name} is already observed in state {observed[i]}, not {state}", variable=i)
            observed[i] = state
            any_hard = True
            continue
        weights = observations.read_weights(given.structure, i, value)
        if given.observed is None or given.observed[i] < 0:
            soft.append(([i], weights))
        else:  # a weight for a variable that is already fixed only scales
            soft.append(([], weights[given.observed[i]]))
    graph = given.with_factors(soft) if soft else given
    if not any_hard:
        return graph
    structure, log_phi = slice_tables(graph.structure, graph.log_phi, observed)
    return given.trusted(structure, log_phi, observed, given.name)
