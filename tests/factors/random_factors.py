"""Random factors of every kind and graphs that mix them, small enough to enumerate."""

from __future__ import annotations

from typing import Any

import numpy as np

from equifactor import (
    AtLeast,
    AtMost,
    Clause,
    Count,
    Exactly,
    FactorGraph,
    NoisyMax,
    NoisyOr,
    Parity,
    Potts,
    SparseTable,
    TruncatedLinear,
)
from equifactor.graph.kinds import kind_class
from equifactor.graph.structured_factor import TABLE

BINARY = ("parity", "clause", "count", "at most", "at least", "exactly", "noisy_or")
PAIRS = ("potts", "truncated_linear")
KINDS = (*BINARY, *PAIRS, "sparse")  # the kinds with compiled kernels that `random_factor` can make


def random_factor(rng: np.random.Generator, kind: str, card: tuple[int, ...]) -> Any:
    """Return a random factor of a kind over variables of these cardinalities, often with true zeros."""
    if kind in PAIRS:
        return _pair(rng, kind, card)
    if kind == "sparse":
        return _sparse(rng, card)
    return _binary(rng, kind, len(card))


def _binary(rng: np.random.Generator, kind: str, k: int) -> Any:
    signs = None if rng.random() < 0.3 else rng.integers(0, 2, k).astype(bool).tolist()
    if kind == "parity":
        return Parity(bool(rng.integers(2)), None if rng.random() < 0.6 else tuple(rng.normal(size=2).tolist()))
    if kind == "clause":
        return Clause(signs, None if rng.random() < 0.5 else float(rng.normal()))
    if kind == "count":
        values = rng.normal(size=k + 1)
        values[rng.random(k + 1) < 0.3] = -np.inf
        return Count(values.tolist(), signs)
    if kind == "noisy_or":
        inhibitors = rng.random(k - 1)
        inhibitors[rng.random(k - 1) < 0.2] = 0.0
        inhibitors[rng.random(k - 1) < 0.2] = 1.0
        return NoisyOr(
            float(rng.choice([0.0, rng.random(), 1.0])), inhibitors.tolist(), signs, place=int(rng.integers(k))
        )
    make = {"at most": AtMost, "at least": AtLeast, "exactly": Exactly}[kind]
    return make(int(rng.integers(0, k + 1)), signs)


def _pair(rng: np.random.Generator, kind: str, card: tuple[int, ...]) -> Any:
    labels = None
    if card[0] != card[1] or rng.random() < 0.5:
        labels = tuple(rng.permutation(max(card) + 2)[:d].tolist() for d in card)
    if kind == "truncated_linear":
        return TruncatedLinear(float(2 * rng.random()), float(rng.choice([np.inf, 1.5])), labels)
    equal, different = (float(rng.choice([-np.inf, 0.0, rng.normal()])) for _ in range(2))
    return Potts(equal, different, labels)


def _sparse(rng: np.random.Generator, card: tuple[int, ...]) -> SparseTable:
    listed = rng.permutation(int(np.prod(card)))[: rng.integers(0, 9)]
    values = rng.normal(size=len(listed))
    values[rng.random(len(listed)) < 0.3] = -np.inf
    default = float(rng.choice([-np.inf, rng.normal()]))
    return SparseTable(np.array(np.unravel_index(listed, card)).T, values, default)


def random_noisy_max(rng: np.random.Generator, card: tuple[int, ...]) -> NoisyMax:
    """Return an effect at any place of the scope, with zeros; a kind without kernels."""
    place = int(rng.integers(len(card)))
    levels = card[place]

    def rows(*shape: int) -> Any:
        table = rng.dirichlet(np.ones(levels), size=shape) * (rng.random((*shape, levels)) < 0.7)
        table[..., int(rng.integers(levels))] += 1e-3
        return (table / table.sum(axis=-1, keepdims=True)).tolist()

    causes = [rows(d) for n, d in enumerate(card) if n != place]
    return NoisyMax(rows(), causes, place=place)


def kinds_for(card: tuple[int, ...]) -> list[str]:
    """Return the kinds other than tables that a factor over variables of these cardinalities can have."""
    fits = list(BINARY) if all(d == 2 for d in card) else []
    return [*fits, *(PAIRS if len(card) == 2 else ()), "sparse"] if len(card) > 1 else []


def random_card(rng: np.random.Generator, kind: str) -> tuple[int, ...]:
    """Return cardinalities of 2 to 5 variables for a kind; for pairs and sparse tables the cardinalities differ."""
    if kind in PAIRS:
        return tuple(rng.integers(1, 5, 2).tolist())
    arity = int(rng.integers(2, 6))
    return tuple(rng.integers(1, 4, arity).tolist()) if kind == "sparse" else (2,) * arity


def random_mixture(rng: np.random.Generator, num_vars: int | None = None, binary: bool | None = None) -> FactorGraph:
    """Return a graph of at most 8 variables and 5 factors of mixed kinds, including tables and constants."""
    num_vars = num_vars or int(rng.integers(2, 9))
    binary = rng.random() < 0.6 if binary is None else binary
    card = [2] * num_vars if binary else rng.integers(1, 4, num_vars).tolist()
    factors: list[tuple[list[int], Any]] = []
    for _ in range(int(rng.integers(1, 6))):
        arity = int(rng.integers(0, num_vars + 1)) if rng.random() < 0.5 else 2
        scope = rng.permutation(num_vars)[:arity].tolist()
        shape = tuple(card[i] for i in scope)
        kind = str(rng.choice([*kinds_for(shape), "table"]))
        factors.append((scope, rng.normal(size=shape) if kind == "table" else random_factor(rng, kind, shape)))
    return FactorGraph(card, factors, log=True)


def rows_of(rng: np.random.Generator, kind: str, count: int = 4) -> Any:
    """Return the `FactorRows` of several random factors of one kind; each factor has its own variables."""
    card, factors = [], []
    for _ in range(count):
        shape = random_card(rng, kind)
        factors.append((list(range(len(card), len(card) + len(shape))), random_factor(rng, kind, shape)))
        card += shape
    graph = FactorGraph(card, factors, log=True)
    rows = graph.structure.rows(graph.log_phi)
    assert np.all(rows.kind != TABLE)
    return rows


def tables_of(rows: Any) -> list[np.ndarray]:
    """Return the log table of each row, from its scores alone."""
    tables = []
    for n in range(rows.num_factors):
        row = rows.take(np.array([n]))
        shape = tuple(row.card.tolist())
        states = np.indices(shape).reshape(len(shape), int(np.prod(shape))).T
        if row.kind[0] == TABLE:
            tables.append(row.log_values.reshape(shape))
        else:
            tables.append(kind_class(int(row.kind[0])).log_scores(row, states).reshape(shape))
    return tables


def all_states(graph: FactorGraph) -> np.ndarray:
    """Return every assignment [N, V]."""
    return np.indices(graph.card.tolist()).reshape(graph.num_vars, -1).T


def scores_from_tables(graph: FactorGraph) -> np.ndarray:
    """Return the log score of every assignment [N], summed over dense tables."""
    states, total = all_states(graph), np.zeros(graph.num_joint_states)
    for a in range(graph.num_factors):
        total = total + graph.log_table(a)[tuple(states[:, graph.structure.scope(a)].T)]
    return total


def as_tables(graph: FactorGraph) -> FactorGraph:
    """Return the same graph with a dense table for every factor."""
    scopes = [graph.structure.scope(a).tolist() for a in range(graph.num_factors)]
    dense = FactorGraph(graph.card.tolist(), [(s, graph.log_table(a)) for a, s in enumerate(scopes)], log=True)
    return dense if graph.observed is None else dense.condition(graph.evidence)
