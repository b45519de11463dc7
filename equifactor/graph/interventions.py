"""Action on a Bayesian network: a variable that is set no longer depends on its parents [Pearl09]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import network_of
from equifactor.graph.reading.observations import StateNumbers, by_variable, is_state, state_number
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from equifactor.graph.reading.inputs import Evidence

_ADVICE = "In a graph that is not a network, only evidence has a meaning."


def intervened(graph: FactorGraph, do: Evidence) -> FactorGraph:
    """Return the network after variables were set, given their states: p(others | do) is what remains.

    Raises `ModelError` if the graph is not a Bayesian network.
    """
    states = states_set(graph, do)
    return mutilated(graph, states).condition(StateNumbers(states))


def states_set(graph: FactorGraph, do: Any) -> dict[int, int]:
    """Return the state of each variable that `do` sets, both by number."""
    found = by_variable(graph.structure, do, "do")
    for i, state in found.items():
        if not is_state(state):
            raise ModelError(
                f"do sets {graph.structure.variable_name(i)} to one state, found {brief(state)}. Weights are evidence.",
                variable=i,
            )
    return {i: state_number(graph.structure, i, state) for i, state in found.items()}


def mutilated(graph: FactorGraph, states: dict[int, int]) -> FactorGraph:
    """Return the network in which the tables of some variables are replaced by certainty about a state.

    The new tables come after all others.
    """
    families = network_of(graph, "do acts on a Bayesian network", _ADVICE)
    s = graph.structure
    stays = np.ones(s.num_factors, bool)
    stays[families.factor_of_child[list(states)]] = False
    rows = s.rows(graph.log_phi).take(np.flatnonzero(stays))
    structure = Structure.of_rows(s.card, rows, variable_names=s.variable_names, state_names=s.state_names)
    left = FactorGraph.trusted(structure, np.array(rows.log_values), None, graph.name)
    return left.with_factors([([i], np.arange(s.card[i]) == x) for i, x in states.items()])
