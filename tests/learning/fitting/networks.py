"""Small networks with known tables, and rows drawn from them."""

from __future__ import annotations

import numpy as np

from equifactor import FactorGraph
from equifactor.base.typing import IntArray
from equifactor.graph.parents import find_families


def lawn() -> FactorGraph:
    """Return a network of rain, a sprinkler and wet grass; the child is not always last in a scope."""
    return FactorGraph(
        {"rain": ["no", "yes"], "sprinkler": ["off", "on"], "grass": ["dry", "moist", "wet"]},
        [
            (["grass", "rain", "sprinkler"], np.array([[[0.9, 0.2], [0.1, 0.05]], [[0.07, 0.3], [0.3, 0.15]],
                                                       [[0.03, 0.5], [0.6, 0.8]]])),
            (["rain"], [0.7, 0.3]),
            (["rain", "sprinkler"], [[0.4, 0.6], [0.95, 0.05]]),
        ],
    )  # fmt: skip


def mixture(num_children: int = 6) -> FactorGraph:
    """Return a class of three states, and children of three states that depend on the class."""
    rng = np.random.default_rng(3)
    factors: list = [([0], [0.5, 0.3, 0.2])]
    factors += [([0, i + 1], rng.dirichlet([0.3] * 3, 3)) for i in range(num_children)]
    return FactorGraph({"class": 3, **{f"c{i}": 3 for i in range(num_children)}}, factors)


def draw(graph: FactorGraph, count: int, seed: int = 0) -> IntArray:
    """Return rows [N, V] of a network, drawn parents first."""
    rng, s, families = np.random.default_rng(seed), graph.structure, find_families(graph)
    assert families is not None
    rows = np.zeros((count, graph.num_vars), np.int64)
    for child in families.order.tolist():
        a = int(families.factor_of_child[child])
        slot = int(families.slot[a])
        parents = [rows[:, u] for k, u in enumerate(s.scope(a).tolist()) if k != slot]
        p = np.moveaxis(np.exp(graph.log_table(a)), slot, -1)[tuple(parents)]
        rows[:, child] = (rng.random((count, 1)) > np.cumsum(np.atleast_2d(p), axis=1)[:, :-1]).sum(axis=1)
    return rows
