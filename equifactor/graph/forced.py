"""Variables that only have one possible state: they are as good as observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import FactorGraph


def fix_forced(graph: FactorGraph) -> FactorGraph | None:
    """The graph with every forced variable observed, or None when some variable has no possible state left.

    Forced are variables of one state, and those whose other states a zero in a unary factor excludes. Observing one
    turns pairs into unary factors, so it goes on until nothing moves: unit propagation, for clauses. No solver then
    has to carry such variables through its tables.
    """
    if not graph.structure.has_single_states and not np.isneginf(graph.log_phi).any():
        return graph
    while True:
        possible = _possible_states(graph)  # [X] over all variables, observed ones included
        left = np.add.reduceat(possible, graph.structure.state_ptr[:-1]) if graph.num_vars else np.zeros(0, int)
        if np.any(left == 0):
            return None
        free = graph.free_vars
        forced = free[left[free] == 1]
        if not len(forced):
            return graph
        states = np.arange(len(possible)) - np.repeat(graph.structure.state_ptr[:-1], graph.card)
        state_of = np.add.reduceat(np.where(possible, states, 0), graph.structure.state_ptr[:-1])
        graph = graph.condition(dict(zip(forced.tolist(), state_of[forced].tolist(), strict=True)))


def _possible_states(graph: FactorGraph) -> np.ndarray:
    """[X] states that no unary factor excludes."""
    s = graph.structure
    possible = np.ones(int(s.state_ptr[-1]), bool)
    unary = np.flatnonzero(s.arity == 1)
    variable = s.scope_vars[s.scope_ptr[unary]]
    # Entries of all unary tables and the states they speak of, side by side.
    card = s.card[variable]
    within = np.arange(card.sum()) - np.repeat(np.cumsum(card) - card, card)
    zero = np.isneginf(graph.log_phi[np.repeat(s.table_ptr[unary], card) + within])
    possible[(np.repeat(s.state_ptr[variable], card) + within)[zero]] = False
    if graph.observed is not None:
        possible[np.repeat(graph.observed >= 0, s.card)] = False
        seen = np.flatnonzero(graph.observed >= 0)
        possible[s.state_ptr[seen] + graph.observed[seen]] = True
    return possible
