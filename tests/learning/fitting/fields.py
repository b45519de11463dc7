"""Small Markov networks, rows drawn from them, and the distance of a fitted network from the truth."""

from __future__ import annotations

import itertools

import numpy as np

from equifactor import FactorGraph
from equifactor.base.typing import IntArray

ALL = np.array(list(itertools.product(range(3), range(2), range(2), range(2))))


def loop(seed: int = 0) -> FactorGraph:
    """Return a loop of four variables with unary factors; one variable has three states."""
    rng = np.random.default_rng(seed)
    card = [3, 2, 2, 2]
    scopes = [[i] for i in range(4)] + [[0, 1], [1, 2], [3, 2], [0, 3]]
    factors = [(scope, rng.normal(size=[card[i] for i in scope])) for scope in scopes]
    return FactorGraph(card, factors, log=True)


def log_probabilities(graph: FactorGraph) -> np.ndarray:
    """Return the log-probability of every assignment in `ALL`."""
    score = np.asarray(graph.log_score(ALL))
    return score - np.logaddexp.reduce(score)


def draw(graph: FactorGraph, count: int, seed: int = 0) -> IntArray:
    """Return rows [N, V] drawn from a graph."""
    rng = np.random.default_rng(seed)
    return ALL[rng.choice(len(ALL), count, p=np.exp(log_probabilities(graph)))]


def divergence(truth: FactorGraph, found: FactorGraph) -> float:
    """Return the KL divergence of the found distribution from the true distribution."""
    p = log_probabilities(truth)
    return float(np.exp(p) @ (p - log_probabilities(found)))
