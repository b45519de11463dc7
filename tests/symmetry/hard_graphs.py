"""Graphs that colour refinement cannot distinguish, as numbers of nodes and lists of edges."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from equifactor import FactorGraph

Edges = list[tuple[int, int]]


def pairwise(num_nodes: int, edges: Iterable[tuple[int, int]], table: ArrayLike = ((2, 1), (1, 2))) -> FactorGraph:
    """Return a graph with the same table on every edge."""
    return FactorGraph([len(np.asarray(table))] * num_nodes, [(edge, table) for edge in edges])


def triangles() -> tuple[int, Edges]:
    return 6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]


def hexagon() -> tuple[int, Edges]:
    return 6, [(i, (i + 1) % 6) for i in range(6)]


def circulant(n: int, steps: Iterable[int]) -> tuple[int, Edges]:
    """Return a graph in which node i is joined to i + s for each step s."""
    return n, [(i, (i + s) % n) for i in range(n) for s in steps]


def torus(rows: int, cols: int) -> tuple[int, Edges]:
    cells = list(itertools.product(range(rows), range(cols)))
    down = [(i * cols + j, (i + 1) % rows * cols + j) for i, j in cells]
    right = [(i * cols + j, i * cols + (j + 1) % cols) for i, j in cells]
    return rows * cols, down + right


def rook() -> tuple[int, Edges]:
    """Return the moves of a rook on a 4x4 board, a strongly regular graph (16, 6, 2, 2)."""
    cells = list(itertools.product(range(4), range(4)))
    return 16, [
        (a, b) for a, b in itertools.combinations(range(16), 2)
        if (cells[a][0] == cells[b][0]) != (cells[a][1] == cells[b][1])
    ]  # fmt: skip


def shrikhande() -> tuple[int, Edges]:
    """Return the other strongly regular graph (16, 6, 2, 2)."""
    steps = {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)}
    cells = list(itertools.product(range(4), range(4)))
    return 16, [
        (a, b) for a, b in itertools.combinations(range(16), 2)
        if ((cells[a][0] - cells[b][0]) % 4, (cells[a][1] - cells[b][1]) % 4) in steps
    ]  # fmt: skip


def random_regular(n: int, seed: int, degree: int = 3) -> tuple[int, Edges]:
    """Return stubs joined at random until the graph has no loop and no double edge."""
    rng = np.random.default_rng(seed)
    while True:
        ends = np.sort(rng.permutation(np.repeat(np.arange(n), degree)).reshape(-1, 2), axis=1)
        if np.all(ends[:, 0] != ends[:, 1]) and len(np.unique(ends, axis=0)) == len(ends):
            return n, [(int(a), int(b)) for a, b in ends]


def cfi(n: int, twisted: bool) -> FactorGraph:
    """Return parity factors at the nodes of a cubic graph over one bit per edge; twisted: one parity is odd."""
    _, edges = random_regular(n, seed=5)
    odd = np.indices((2, 2, 2)).sum(axis=0) % 2
    factors = []
    for v in range(n):
        scope = [e for e, ends in enumerate(edges) if v in ends]
        parity = odd if twisted and v == 0 else 1 - odd
        factors.append((scope, 1.0 + parity))
    return FactorGraph([2] * len(edges), factors)
