"""Graphs sorted into classes of isomorphic ones, as they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from equifactor.symmetry.canonical_forms import graph_hash
from equifactor.symmetry.isomorphisms import isomorphism

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@dataclass
class IsomorphismClasses:
    """Classes in the order in which their first members came.

    With a tolerance a graph joins the first class whose first member it is isomorphic to within it, which takes a
    comparison with each of them and keeps these in memory; without, one hash per graph decides.
    """

    tolerance: float = 0.0
    _by_hash: dict[str, int] = field(default_factory=dict, repr=False)
    _first: list[FactorGraph] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self._by_hash) + len(self._first)

    def add(self, graph: FactorGraph) -> int:
        """The number of the graph's class, a new one where there is none yet."""
        if not self.tolerance:
            return self._by_hash.setdefault(graph_hash(graph), len(self._by_hash))
        for n, other in enumerate(self._first):
            if isomorphism(graph, other, self.tolerance) is not None:
                return n
        self._first.append(graph)
        return len(self._first) - 1
