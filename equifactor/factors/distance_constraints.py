"""Constraints on the number of variables in which an assignment differs from given ones.

For a binary variable, the constraint counts one of its states. A variable with more states has an auxiliary variable
that tells whether it differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.factors.count import AtLeast
from equifactor.graph import FactorGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import IntArray


def with_distances(graph: FactorGraph, others: Sequence[IntArray], apart: int) -> FactorGraph:
    """Return the graph with auxiliary variables, and with a constraint for each of the other assignments [V].

    Every possible assignment of it differs from each of the others in at least `apart` of the graph's free variables.
    """
    s = graph.structure
    card: list[int] = s.card.tolist()
    new: list[Any] = []
    for other in others:
        scope, signs = [], []
        for i in graph.free_vars.tolist():
            if s.card[i] == 1:
                continue
            if s.card[i] == 2:
                scope.append(i)
                signs.append(bool(other[i] == 0))
                continue
            differs = np.stack((np.arange(s.card[i]) == other[i], np.arange(s.card[i]) != other[i]), axis=1)
            new.append(([i, len(card)], differs.astype(float)))
            scope.append(len(card))
            signs.append(True)
            card.append(2)
        new.append((scope, AtLeast(apart, signs)))
    factors: list[Any] = [(s.scope(a).tolist(), graph.factor(a)) for a in range(s.num_factors)]
    logs = FactorGraph(card, factors, log=True)
    whole = logs.with_factors(new)
    if graph.observed is None:
        return whole
    seen = np.flatnonzero(graph.observed >= 0)
    return whole.condition(dict(zip(seen.tolist(), graph.observed[seen].tolist(), strict=True)))
