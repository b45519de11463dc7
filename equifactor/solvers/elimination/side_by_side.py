"""Elimination of many small graphs of one structure side by side in NumPy: the last axis of every table is the graphs.

Sums are linear, and nothing is scaled on the way. This is safe where the ranges of all tables of a graph together fit
into the exponents of a double, which is checked. A call of NumPy then serves hundreds of graphs: 4 x 4 grids take a
fifth of the time that the kernels for one graph after another take.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.solvers.elimination.orders import Order

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.solvers.elimination.plan import Plan

    Shape = tuple[int, ...]

_RANGE = 600.0  # Nats of all tables of a graph, and of the number of its states. A double holds 708 on either side.
_LEAST = 1e-300  # Below every positive sum, which is at least e^-600.
_LARGEST = 2**10  # Entries of a cluster up to which calls of NumPy serve enough graphs at a time.
_ENTRIES = 2**18  # Entries of the clusters of all graphs of a chunk: 2 MiB, about a near cache. Chosen by hand.
_GRAPHS = 64  # Graphs from which a call of NumPy for all of them is cheaper than kernels one by one. Chosen by hand.


class _Input(NamedTuple):
    """A factor in its cluster."""

    entries: slice
    shape: Shape  # by scope
    order: tuple[int, ...]  # of the axes, to rising places; the graphs stay last
    within: Shape  # the shape over the axes of the cluster


class BatchElimination:
    """The clusters of a plan. A cluster has its own variable as first axis, then its separator, earliest first."""

    def __init__(self, steps: Plan) -> None:
        assert isinstance(steps.found, Order)
        s, order = steps.reduced.graph.structure, steps.found
        self.structure = s
        self.variables: list[int] = order.variables.tolist()
        dim: list[int] = s.card[order.variables].tolist()
        place = np.empty(len(dim), np.int64)
        place[order.variables] = np.arange(len(dim))
        self.parent: list[int] = order.parent.tolist()
        separators = [x.tolist()[::-1] for x in np.split(order.separators, order.sep_ptr[1:-1])]
        axes = [[n, *separator] for n, separator in enumerate(separators)]
        self.shapes: list[Shape] = [tuple(dim[a] for a in own) for own in axes]

        def within(n: int, scope: list[int]) -> Shape:
            return tuple(dim[a] if a in scope else 1 for a in axes[n])

        self.inputs: list[list[_Input]] = [[] for _ in dim]
        self.constants: list[int] = []
        ptr = s.table_ptr.tolist()
        for a, scope in enumerate(np.split(place[s.scope_vars], s.scope_ptr[1:-1])):
            places: list[int] = scope.tolist()
            if not places:
                self.constants.append(ptr[a])
                continue
            rising = tuple(np.argsort(places).tolist())
            shape, n = tuple(dim[p] for p in places), min(places)
            self.inputs[n].append(_Input(slice(ptr[a], ptr[a + 1]), shape, rising, within(n, places)))
        for own in self.inputs:
            own.sort(key=lambda x: math.prod(x.shape))
        self.messages = [within(up, axes[n][1:]) if up >= 0 else () for n, up in enumerate(self.parent)]
        self.children: list[list[int]] = [[c for c, up in enumerate(self.parent) if up == n] for n in range(len(dim))]
        self.chunk = max(1, _ENTRIES // max(1, sum(map(math.prod, self.shapes))))

    def sums(self, log_phi: FloatArray, marginals: bool) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return probabilities [n, x] (zero without `marginals`), log_z [n] and which rows are right [n].

        Args:
            log_phi: [t, n] tables, which are overwritten.
            marginals: whether to compute the probabilities.
        """
        n = log_phi.shape[1]
        log_z, fits = self._scaled(log_phi)
        phi = np.exp(log_phi, out=log_phi)
        inputs = [[self._table(phi, own) for own in given] for given in self.inputs]
        tables: list[FloatArray] = []
        totals: list[FloatArray] = []
        for c, shape in enumerate(self.shapes):
            table = _product(inputs[c], (*shape, n))
            total = table.sum(0)
            tables.append(table)
            totals.append(total)
            if self.parent[c] >= 0:
                inputs[self.parent[c]].append(total.reshape(*self.messages[c], n))
            else:
                log_z += np.log(total.reshape(n))
        p = np.zeros((int(self.structure.state_ptr[-1]), n))
        if marginals:
            self._way_down(tables, totals, p)
        return np.ascontiguousarray(p.T), log_z, fits

    def _scaled(self, log_phi: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Scale tables if they need it; return the logs [n] of the scales, and [n] whether linear sums are safe."""
        s, n = self.structure, log_phi.shape[1]
        room = _RANGE - float(np.log(s.card).sum())
        if s.num_factors * max(-log_phi.min(), log_phi.max()) < room:
            return np.zeros(n), np.full(n, True)
        first = s.table_ptr[:-1]
        top = np.maximum.reduceat(log_phi, first)
        log_phi -= np.repeat(top, np.diff(s.table_ptr), axis=0)
        zero = np.isneginf(log_phi)
        low = np.minimum.reduceat(np.where(zero, 0.0, log_phi) if zero.any() else log_phi, first)
        return top.sum(0), -low.sum(0) < room  # False for NaN, which a table of zeros leaves.

    def _way_down(self, tables: list[FloatArray], totals: list[FloatArray], p: FloatArray) -> None:
        """Write the probabilities of all states to p [x, n]."""
        n = p.shape[1]
        above: dict[int, FloatArray] = {}
        first = self.structure.state_ptr.tolist()
        for c in range(len(tables) - 1, -1, -1):
            joint = tables[c]
            share = 1.0 if self.parent[c] < 0 else above.pop(c)
            joint *= share / np.maximum(totals[c], _LEAST)
            at, d = first[self.variables[c]], self.shapes[c][0]
            own = joint.reshape(d, -1, n).sum(1, out=p[at : at + d])
            own /= np.maximum(own.sum(0), _LEAST)
            for child in self.children[c]:
                gone = tuple(k for k, d in enumerate(self.messages[child]) if d != joint.shape[k])
                message = joint.sum(gone) if gone else joint
                above[child] = message.reshape(*self.shapes[child][1:], n)

    def _table(self, phi: FloatArray, own: _Input) -> FloatArray:
        """Return a factor over the axes of its cluster."""
        n = phi.shape[1]
        table = phi[own.entries].reshape(*own.shape, n)
        return table.transpose(*own.order, len(own.order)).reshape(*own.within, n)


def runs_together(steps: Plan, count: int) -> bool:
    """Return whether the plan of many graphs is small enough for calls of NumPy that serve all of them."""
    s = steps.reduced.graph.structure
    small = isinstance(steps.found, Order) and 2.0**steps.log2_largest <= _LARGEST
    return small and count >= _GRAPHS and len(s.card) > 0 and len(s.table_ptr) > 1


def _product(tables: list[FloatArray], shape: Shape) -> FloatArray:
    """Return the product of tables as a new array of a shape; the smaller ones come first."""
    total = np.ones(shape) if not tables else tables[0]
    for k, table in enumerate(tables[1:]):
        if k > 0 and total.shape == shape:
            total *= table
        else:
            total = total * table
    return np.array(np.broadcast_to(total, shape)) if len(tables) < 2 or total.shape != shape else total
