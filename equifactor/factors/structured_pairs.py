"""The structured factors over two variables of a batch, whose small dense tables networks use around short loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.flat_graph import StructuredGroup

LARGEST_PAIR = 256  # Largest number of entries of a table in `StructuredPairs`. Chosen by hand.


class StructuredPairs:
    """Where the tables of P such factors are.

    The tables of a group are rows of one length. Groups follow each other.
    """

    def __init__(self, groups: Sequence[StructuredGroup]) -> None:
        # For each group its factors over two variables, and the assignments [A, e] of all edges; None without factors.
        self.members: list[tuple[IntArray, IntArray] | None] = []
        pairs, start = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)]
        size = 0
        for group in groups:
            first = group.edge_ptr[:-1]
            entries = group.card[first] * group.card[np.minimum(first + 1, len(group.card) - 1)]
            factors = np.flatnonzero((np.diff(group.edge_ptr) == 2) & (entries <= LARGEST_PAIR))
            if not len(factors):
                self.members.append(None)
                continue
            first, count = first[factors], int(entries[factors].max())
            states = np.zeros((count, len(group.card)), np.int64)
            entry = np.arange(count)[:, None]
            states[:, first] = np.minimum(entry // group.card[first + 1], group.card[first] - 1)
            states[:, first + 1] = entry % group.card[first + 1]
            self.members.append((factors, states))
            pairs.append(np.stack((first, first + 1), 1) + group.edges.start)
            start.append(size + count * np.arange(len(factors)))
            size += count * len(factors)
        self.edges = np.concatenate(pairs)  # [P, 2] among all edges
        self.start = np.concatenate(start)  # [P] the first entry of each table
