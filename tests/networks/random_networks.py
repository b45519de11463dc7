"""Random networks of few variables with sharp tables and zeros, whose parents come in any order."""

from __future__ import annotations

import numpy as np

from equifactor import BayesianNetwork, FactorGraph


def random_network(seed: int, num_vars: int = 6, most_states: int = 3, zeros: float = 0.1) -> BayesianNetwork:
    """Return a network with edges from earlier to later variables of a random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(num_vars)
    card = rng.integers(2, most_states + 1, num_vars)
    factors = []
    for k, i in enumerate(order.tolist()):
        parents = rng.permutation(order[:k])[: int(rng.integers(0, min(k, 3) + 1))].tolist()
        table = rng.random((*card[parents], card[i])) ** 3 * (rng.random((*card[parents], card[i])) >= zeros) + 1e-9
        table = np.where(table < 1e-6, 0.0, table)
        table[..., 0] += table.sum(axis=-1) == 0
        factors.append(([*parents, i], table / table.sum(axis=-1, keepdims=True)))
    return BayesianNetwork(FactorGraph(card, factors))


def truncated(network: BayesianNetwork, do: dict[int, int], evidence: dict[int, int]) -> np.ndarray:
    """Return the product of the tables of all variables that are not set [d1, .., dV], at the given states alone."""
    card = tuple(network.card.tolist())
    p = np.ones(card)
    for i in range(network.num_vars):
        if i not in do:
            scope = [*network.parent_lists[i], i]
            table = np.asarray(network.cpt(i)).transpose(np.argsort(scope))
            p = p * table.reshape([card[v] if v in scope else 1 for v in range(len(card))])
    for i, x in (do | evidence).items():
        p = p * (np.arange(card[i]) == x).reshape([-1 if v == i else 1 for v in range(len(card))])
    return p
