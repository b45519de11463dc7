"""Further families of random graphs for the fit of trust: hard constraints, circuits, chains seen together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from equifactor import FactorGraph
from experiments.trust_draws import Draw, log_uniform, network, size

_ARITY = 3  # Most variables of a constraint and inputs of a gate.


def hard_constraints(rng: Draw) -> FactorGraph:
    """Return random relations that one hidden assignment satisfies, with soft preferences; or independent sets."""
    n = size(rng, 8, 30)
    fields = rng.normal(0.0, log_uniform(rng, 0.1, 2.0), n)
    factors: list[Any] = [([v], [0.0, fields[v]]) for v in range(n)]
    hidden, allowed = rng.integers(2, size=n), float(rng.uniform(0.4, 0.9))
    sets = rng.random() < 0.3
    for _ in range(round(n * rng.uniform(0.8, 1.8))):
        scope = rng.choice(n, 2 if sets else size(rng, 2, _ARITY), replace=False)
        table = np.array([[1.0, 1.0], [1.0, 0.0]]) if sets else (rng.random([2] * len(scope)) < allowed).astype(float)
        if not sets:
            table[tuple(hidden[scope])] = 1.0
        with np.errstate(divide="ignore"):
            factors.append((scope.tolist(), np.log(table)))
    return FactorGraph([2] * n, factors, log=True)


def circuit(rng: Draw) -> FactorGraph:
    """Return a circuit of random gates with few faults or none, uncertain inputs and observed outputs."""
    inputs, gates = size(rng, 5, 20), size(rng, 8, 40)
    fault = float(rng.choice([0.0, 0.001, 0.02]))
    parents: list[list[int]] = [[] for _ in range(inputs)]
    tables = [np.array([1.0 - p, p]) for p in rng.uniform(0.05, 0.95, inputs).tolist()]
    for gate in range(inputs, inputs + gates):
        above = rng.choice(np.arange(max(0, gate - 15), gate), min(gate, size(rng, 2, _ARITY)), replace=False)
        on = rng.integers(2, size=[2] * len(above)).astype(float)
        on = fault + (1.0 - 2.0 * fault) * on
        parents.append(sorted(above.tolist()))
        tables.append(np.stack((1.0 - on, on), axis=-1))
    return network([2] * (inputs + gates), parents, tables, rng, float(rng.uniform(0.2, 1.0)), True)


def joint_chains(rng: Draw) -> FactorGraph:
    """Return Markov chains that do not act on each other, with observations that depend on several of them."""
    chains, length, card = size(rng, 2, 5), size(rng, 4, 20), size(rng, 2, 3)
    strength = log_uniform(rng, 0.5, 6.0)
    stay = rng.uniform(0.5, 0.99, chains)
    factors: list[Any] = []
    for t, c in itertools.product(range(1, length), range(chains)):
        table = np.full((card, card), (1.0 - stay[c]) / (card - 1))
        np.fill_diagonal(table, stay[c])
        factors.append(([(t - 1) * chains + c, t * chains + c], np.log(table)))
    for t in range(length):
        for _ in range(size(rng, 1, 2)):
            seen = rng.choice(chains, min(chains, size(rng, 2, _ARITY)), replace=False) + t * chains
            factors.append((seen.tolist(), strength * rng.normal(size=[card] * len(seen))))
    return FactorGraph([card] * (chains * length), factors, log=True)
