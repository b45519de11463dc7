"""Joints and entropies by enumeration, for graphs of few joint states, and graphs with factors of every kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equifactor import AtMost, Clause, FactorGraph, NoisyOr, Parity, Potts, SparseTable
from equifactor.testing import contract_graphs


def distribution(graph: FactorGraph) -> np.ndarray:
    """Return the probability of every assignment [d1, .., dV]."""
    states = np.indices(tuple(graph.card)).reshape(graph.num_vars, -1).T
    scores = graph.log_score(states)
    p = np.exp(scores - scores.max())
    return (p / p.sum()).reshape(tuple(graph.card))


def summed(p: np.ndarray, scope: Sequence[int]) -> np.ndarray:
    """Return the joint of some variables, with axes in the order of the scope."""
    left = sorted(scope)
    table = p.sum(axis=tuple(i for i in range(p.ndim) if i not in left))
    return table.transpose([left.index(i) for i in scope])


def entropy(p: np.ndarray) -> float:
    """Return the entropy in nats."""
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def kinds_graph() -> FactorGraph:
    """Return nine variables, a factor of most kinds, and one check that elimination has to lower."""
    rng = np.random.default_rng(5)
    factors = [
        ([0, 1, 2, 3, 4, 5, 6], Parity()),
        ([0, 2, 4], Clause([True, False, True], 1.5)),
        ([1, 3, 5], AtMost(1)),
        ([6, 0, 1], NoisyOr(0.1, [0.3, 0.6])),
        ([7, 8], Potts(0.7)),
        ([6, 7], SparseTable([(0, 1), (1, 2)], [2.0, 0.5], default=0.1)),
        *(([i], rng.uniform(0.2, 1.0, 2)) for i in range(7)),
    ]
    return FactorGraph([2] * 7 + [3, 3], factors)  # type: ignore[list-item]


def graphs() -> dict[str, FactorGraph]:
    """Return the graphs of the contract, and structured factors without and with evidence."""
    kinds = kinds_graph()
    return {**contract_graphs(), "kinds": kinds, "kinds and evidence": kinds.condition({3: 1, 7: 2})}
