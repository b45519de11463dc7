"""Samples of a Bayesian network, drawn from parents to children."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.parents import network_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph


def drawn(rng: np.random.Generator, rows: FloatArray) -> IntArray:
    """Return one state [n] for each distribution of rows [n, states]."""
    sums = rows.cumsum(axis=1)
    draws = rng.random(len(rows)) * sums[:, -1]
    return np.asarray((draws[:, None] >= sums[:, :-1]).sum(axis=1))


def forward_samples(network: FactorGraph, n: int, seed: int) -> IntArray:
    """Return states [n, V] drawn from a Bayesian network."""
    rng = np.random.default_rng(seed)
    families = network_of(network, "Samples are drawn from a Bayesian network", "")
    states = np.zeros((n, network.num_vars), np.int64)
    for i in families.order.tolist():
        a = int(families.factor_of_child[i])
        slot = int(families.slot[a])
        table = np.moveaxis(np.exp(network.log_table(a)), slot, -1)
        parents = np.delete(network.structure.scope(a), slot)
        rows = table[tuple(states[:, p] for p in parents.tolist())]
        states[:, i] = drawn(rng, np.broadcast_to(rows, (n, table.shape[-1])))
    return states
