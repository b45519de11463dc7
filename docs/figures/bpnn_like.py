"""Belief propagation whose messages pass through a dense network over states, in the manner of BPNN [Kuck20].

Run it to measure which symmetries this network respects: `python docs/figures/bpnn_like.py`.
"""

from __future__ import annotations

import numpy as np

from equifactor import FactorGraph, generators
from equifactor.solvers import parse_solver
from equifactor.symmetry import equivariance_error


def bpnn_like(graph: FactorGraph, steps: int = 10, seed: int = 0) -> list[np.ndarray]:
    """Return marginals by parallel BP that replaces each new message m by m + W2 tanh(W1 m), by cardinality."""
    rng = np.random.default_rng(seed)
    weights = {d: rng.normal(0.0, 0.3, (2, d, d)) for d in range(1, 1 + int(graph.card.max()))}
    scopes = [graph.structure.scope(a).tolist() for a in range(graph.num_factors)]
    messages = {(a, i): np.zeros(graph.card[i]) for a, scope in enumerate(scopes) for i in scope}
    for _ in range(steps):
        beliefs = _beliefs(graph, messages)
        new = {}
        for a, scope in enumerate(scopes):
            to_factor = [beliefs[i] - messages[a, i] for i in scope]
            joint = graph.log_table(a) + _outer_sum(to_factor)
            for k, i in enumerate(scope):
                others = tuple(j for j in range(len(scope)) if j != k)
                m = np.logaddexp.reduce(joint, axis=others) - to_factor[k]
                m -= m.mean()
                into, out = weights[int(graph.card[i])]
                new[a, i] = m + out @ np.tanh(into @ m)  # the order of states matters to a dense layer
        messages = {edge: 0.5 * messages[edge] + 0.5 * m for edge, m in new.items()}
    return [np.exp(b - np.logaddexp.reduce(b)) for b in _beliefs(graph, messages)]


def _beliefs(graph: FactorGraph, messages: dict[tuple[int, int], np.ndarray]) -> list[np.ndarray]:
    found = [np.zeros(d) for d in graph.card]
    for (_, i), m in messages.items():
        found[i] = found[i] + m
    return found


def _outer_sum(vectors: list[np.ndarray]) -> np.ndarray:
    """Return an array with one axis per vector: entry (x1, .., xk) is the sum of their entries."""
    total = np.zeros(())
    for vector in vectors:
        total = total[..., None] + vector
    return total


def measured() -> dict[str, dict[str, float]]:
    """Return the largest error in a marginal, by method and symmetry, on five random graphs."""
    graphs = [generators.random_graph(8, 12, arity=(1, 3), card=(2, 3), seed=n) for n in range(5)]
    bp = parse_solver("bp(damping=0.5)")
    return {
        "bp(damping=0.5)": {str(k): e for k, e in equivariance_error(bp, graphs, tasks=bp.tasks[:1]).items()},
        "BPNN-like": {str(k): e for k, e in equivariance_error(bpnn_like, graphs).items()},
    }


if __name__ == "__main__":
    found = measured()
    print("| method | " + " | ".join(found["BPNN-like"]) + " |\n|---|---|---|---|")
    for name, errors in found.items():
        print(f"| {name} | " + " | ".join(f"{e:.0e}" if e else "0" for e in errors.values()) + " |")
