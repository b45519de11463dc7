"""What exact inference will cost, known before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from equifactor.exact.order import greedy_order

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

_BYTES = 8  # float64


@dataclass(frozen=True, eq=False)
class Plan:
    """An elimination order with its clusters. Variables are numbered as in the graph.

    Cluster n holds `order[n]`, eliminated there, and its separator: the neighbours it still has. The separator's
    table goes to `parent[n]`, the cluster of the separator variable that is eliminated first.
    """

    order: tuple[int, ...]
    clusters: tuple[tuple[int, ...], ...]  # separator, latest elimination first; then the variable itself
    parent: tuple[int, ...]  # -1 at a root: one per connected component
    log2_sizes: tuple[float, ...]  # of the cluster tables

    @property
    def width(self) -> int:
        """Most variables in a separator: the induced width of this order."""
        return max((len(c) for c in self.clusters), default=1) - 1

    @property
    def log2_largest(self) -> float:
        """log2 of the entries of the largest table."""
        return max(self.log2_sizes, default=0.0)

    @cached_property
    def entries(self) -> float:
        """Entries of all cluster tables together: the work of one pass (infinite when past 2^1000)."""
        return float(np.sum(np.exp2(np.minimum(self.log2_sizes, 1000.0)))) if self.log2_sizes else 0.0

    @property
    def memory(self) -> float:
        """Bytes: all cluster tables are kept for the way back, plus two of the largest in flight."""
        return _BYTES * (self.entries + 2 * 2.0 ** min(self.log2_largest, 1000.0))

    def fits(self, gib: float) -> bool:
        """Whether the memory stays below so many GiB."""
        return self.memory <= gib * 2**30

    @property
    def cost(self) -> str:
        """Width, largest table and memory in words."""
        return f"width {self.width}, largest table 2^{self.log2_largest:.1f}, {format_bytes(self.memory)}"

    def __str__(self) -> str:
        return f"elimination of {len(self.order)} variables: {self.cost}, {2 * self.entries:.3g} entries of work"


def plan(graph: FactorGraph) -> Plan:
    """Plan the elimination of all free variables of a graph."""
    s = graph.structure
    free = graph.free_vars
    number = np.full(graph.num_vars, -1)
    number[free] = np.arange(len(free))
    local = number[s.scope_vars].tolist()
    ptr = s.scope_ptr.tolist()
    scopes = {tuple(sorted(local[a:b])) for a, b in pairwise(ptr) if b - a > 1}
    log2_card = np.log2(graph.card[free]).tolist()
    order, separators = greedy_order(log2_card, sorted(scopes))

    position = np.empty(len(free), int)
    position[order] = np.arange(len(free))
    when = position.tolist()
    clusters, parent, log2_sizes = [], [], []
    for i, separator in zip(order, separators, strict=True):
        latest_first = sorted(separator, key=when.__getitem__, reverse=True)
        clusters.append(tuple(free[[*latest_first, i]].tolist()))
        parent.append(when[latest_first[-1]] if separator else -1)
        log2_sizes.append(log2_card[i] + sum(log2_card[j] for j in separator))
    return Plan(tuple(free[order].tolist()), tuple(clusters), tuple(parent), tuple(log2_sizes))


def format_bytes(n: float) -> str:
    """`3.4 GiB`; very large numbers as powers of two."""
    if n >= 2**70:
        return f"2^{np.log2(n):.0f} bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return f"{n:.3g} {unit}"
        n /= 1024
    raise AssertionError("unreachable")
