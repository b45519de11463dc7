"""Which factor of a graph is the conditional distribution of which variable, from the scopes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.factor_graph import FactorGraph


@dataclass(frozen=True, eq=False)
class Families:
    """A Bayesian network: every factor is the distribution of one variable, its child, given the rest of its scope."""

    factor_of_child: IntArray  # [V]
    slot: IntArray  # [F] the place of the child in the factor's scope
    order: IntArray  # [V] the variables, parents before children


def find_families(graph: FactorGraph) -> Families | None:
    """The child of every factor, or None where the graph is no Bayesian network.

    A root has a factor of its own alone, and once a variable has its factor it can only be a parent in others. Taking
    variables in this order, a factor whose other variables are all taken must be that of the one left, so that scopes
    without a directed cycle leave no choice: the potentials need not be looked at. Cost O(E).
    """
    s = graph.structure
    if s.num_factors != s.num_vars:
        return None
    left = s.arity.copy()  # [F] variables in each scope that have no factor yet
    factors_of: list[list[int]] = [[] for _ in range(s.num_vars)]
    for variable, factor in zip(s.scope_vars.tolist(), s.factor_of_edge.tolist(), strict=True):
        factors_of[variable].append(factor)
    factor_of_child = np.full(s.num_vars, -1)
    slot = np.full(s.num_factors, -1)
    order: list[int] = []
    ready = np.flatnonzero(left == 1)[::-1].tolist()
    while ready:
        a = ready.pop()
        scope = s.scope(a)
        open_slots = np.flatnonzero(factor_of_child[scope] < 0)
        if not len(open_slots):  # another factor has taken its variable
            return None
        slot[a] = open_slots[0]
        child = int(scope[slot[a]])
        factor_of_child[child] = a
        order.append(child)
        for b in factors_of[child]:
            left[b] -= 1
            if left[b] == 1:
                ready.append(b)
    return Families(factor_of_child, slot, np.array(order, np.int64)) if len(order) == s.num_vars else None


def families_of(graph: FactorGraph, method: str) -> Families:
    """The child of every factor; `ModelError` where the graph is no Bayesian network."""
    found = find_families(graph)
    if found is None:
        s = graph.structure
        found_words = (
            f"found {s.num_factors} factors for {s.num_vars} variables"
            if s.num_factors != s.num_vars
            else "and these scopes have a cycle, or two distributions of one variable"
        )
        raise ModelError(
            f"{method} fits Bayesian networks, in which every variable has one factor over itself and its parents, "
            f"{found_words}; likelihood and pseudo-likelihood fit any graph"
        )
    return found
