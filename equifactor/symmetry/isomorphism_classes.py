"""Classes of isomorphic graphs, to which graphs are added one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from equifactor.symmetry.canonical_forms import graph_hash
from equifactor.symmetry.isomorphisms import isomorphism

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@dataclass
class IsomorphismClasses:
    """Classes in the order in which their first members were added.

    With a tolerance, a graph joins the first class whose first member is isomorphic to it within the tolerance. The
    first members are kept in memory, and each new graph is compared with them. Without a tolerance, graphs are in one
    class if their hashes are equal.
    """

    tolerance: float = 0.0
    _by_hash: dict[str, int] = field(default_factory=dict, repr=False)
    _first: list[FactorGraph] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self._by_hash) + len(self._first)

    def add(self, graph: FactorGraph) -> int:
        """Add a graph and return the number of its class, which may be a new class."""
        if not self.tolerance:
            return self._by_hash.setdefault(graph_hash(graph), len(self._by_hash))
        for n, other in enumerate(self._first):
            if isomorphism(graph, other, self.tolerance) is not None:
                return n
        self._first.append(graph)
        return len(self._first) - 1
