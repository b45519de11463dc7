"""The models of all benchmarks: reduced UAI instances and seeded batches, as .npz files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from equifactor import FactorGraph


def reduced(graph: FactorGraph) -> dict[str, Any]:
    """Return the model over its free variables as arrays.

    Unary tables and tables of equal scopes are merged, and each table is scaled to a maximum of 1. Evidence is already
    sliced in. Constants are dropped, because no row compares ln Z.
    """
    new = {int(i): n for n, i in enumerate(graph.free_vars)}
    card = graph.card[graph.free_vars]
    unary = [np.zeros(d) for d in card]
    larger: dict[tuple[int, ...], np.ndarray] = {}
    for a in range(graph.num_factors):
        scope = [new[int(i)] for i in graph.structure.scope(a)]
        table = graph.log_table(a)
        if len(scope) == 1:
            unary[scope[0]] = unary[scope[0]] + table
        elif scope:
            order = np.argsort(scope)
            key = tuple(int(scope[k]) for k in order)
            larger[key] = larger.get(key, 0.0) + np.transpose(table, order)
    scopes = list(larger)
    return {
        "card": card,
        "unary": np.concatenate([np.exp(u - u.max()) for u in unary]),
        "scope_ptr": np.cumsum([0, *map(len, scopes)]),
        "scope_vars": np.array([i for s in scopes for i in s]),
        "tables": np.concatenate([np.exp(t - t.max()).ravel() for t in larger.values()]),
    }


def grid_edges(rows: int, cols: int) -> np.ndarray:
    """Return the neighbouring cells [E, 2] of a grid."""
    cell = np.arange(rows * cols).reshape(rows, cols)
    across = np.stack((cell[:, :-1].ravel(), cell[:, 1:].ravel()), axis=1)
    down = np.stack((cell[:-1].ravel(), cell[1:].ravel()), axis=1)
    return np.concatenate((across, down))


def batch(count: int, same: bool, seed: int = 0) -> dict[str, Any]:
    """Return 4x4 Ising grids with standard normal fields and couplings. If not `same`, edges join random pairs."""
    rng = np.random.default_rng(seed)
    grid = grid_edges(4, 4)
    edges = np.broadcast_to(grid, (count, *grid.shape)).copy()
    if not same:
        pairs = np.stack(np.triu_indices(16, 1), axis=1)
        for n in range(count):
            edges[n] = pairs[rng.choice(len(pairs), len(grid), replace=False)]
    return {
        "fields": rng.normal(size=(count, 16)), "couplings": rng.normal(size=(count, len(grid))), "edges": edges
    }  # fmt: skip


def save(folder: Path, name: str, arrays: dict[str, Any]) -> Path:
    """Write one model for the scripts of the peers."""
    path = folder / f"{name}.npz"
    np.savez(path, **arrays)
    return path
