"""Draws that several families of random graphs share."""

from __future__ import annotations

import itertools

import numpy as np

from equifactor import FactorGraph
from equifactor.base.typing import FloatArray

Draw = np.random.Generator


def size(rng: Draw, low: int, high: int) -> int:
    """Return a whole number from low to high."""
    return int(rng.integers(low, high, endpoint=True))


def log_uniform(rng: Draw, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def network(
    card: list[int], parents: list[list[int]], tables: list[FloatArray], rng: Draw, share: float, leaves: bool
) -> FactorGraph:
    """Return a network with evidence: a share of its variables, or of its leaves, at the states of one sample."""
    states: list[int] = []
    for table, above in zip(tables, parents, strict=True):
        row = table[tuple(states[p] for p in above)]
        states.append(int(rng.choice(len(row), p=row / row.sum())))
    inner = set(itertools.chain(*parents))
    could = [v for v in range(len(card)) if not (leaves and v in inner)]
    seen = [v for v in could if rng.random() < share]
    graph = FactorGraph(card, [([*above, v], tables[v]) for v, above in enumerate(parents)])
    return graph.condition({v: states[v] for v in seen})
