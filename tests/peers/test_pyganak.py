"""Exact counts of weighted formulas against the model counter Ganak, through files that both read."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import equifactor as ef

pyganak = pytest.importorskip("pyganak")
pytestmark = pytest.mark.peers


def formula(rng: np.random.Generator, num_vars: int) -> tuple[list[list[int]], dict[int, float]]:
    """Return clauses of 1 to 8 literals, and weights of both literals of half of the variables."""
    clauses = []
    for _ in range(int(2.5 * num_vars)):
        size = min(num_vars, int(rng.choice([1, 2, 3, 3, 3, 4, 8], p=[0.02, 0.1, 0.2, 0.2, 0.2, 0.18, 0.1])))
        variables = rng.permutation(num_vars)[:size] + 1
        clauses.append((variables * rng.choice([-1, 1], size)).tolist())
    weights = {}
    for variable in (rng.permutation(num_vars)[: num_vars // 2] + 1).tolist():
        weights[variable], weights[-variable] = np.round(rng.random(2), 3).tolist()
    return clauses, weights


@pytest.mark.parametrize("seed", range(8))
def test_weighted_counts(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_vars = int(rng.integers(8, 22))
    clauses, weights = formula(rng, num_vars)
    lines = ["c t wmc", f"p cnf {num_vars} {len(clauses)}"]
    lines += [f"c p weight {literal} {weight} 0" for literal, weight in weights.items()]
    lines += [" ".join(map(str, [*clause, 0])) for clause in clauses]
    path = tmp_path / "formula.cnf"
    path.write_text("\n".join(lines) + "\n")
    graph = ef.read_graph(path)
    counter = pyganak.WeightedCounter()
    counter.new_vars(num_vars)
    counter.add_clauses(clauses)
    for literal, weight in weights.items():
        counter.set_lit_weight(literal, weight)
    expected = counter.count()
    for solver in ("exact", "search-sum", "ganak"):
        found = ef.solve(graph, "PR", solver)
        if expected == 0:
            assert found.status == "zero-probability"
        else:
            assert found.log_z == pytest.approx(math.log(expected), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_counts_of_random_3sat(seed: int) -> None:
    graph = ef.generators.random_ksat(30, 2.0 + seed / 2, seed=seed)
    kinds = graph.structure.kinds
    assert kinds is not None
    literals = np.where(kinds.words == 1, 1, -1) * (graph.structure.scope_vars + 1)
    counter = pyganak.Counter()
    counter.new_vars(30)
    counter.add_clauses(literals.reshape(-1, 3).tolist())
    assert round(math.exp(ef.solve(graph, "PR", "exact").log_z)) == counter.count()
