"""Elimination in plain NumPy, for models that are solved sooner than the kernels of `eliminate.py` are loaded.

A cluster is one array: its first axis is the variable that is eliminated, and the others are its separator, earliest
elimination first. A message then fits the axes of its parent without a transposition, and reductions run along the
first axis, over long contiguous rows. Variables with one state have no axis. Tables and messages are logs, so that no
range of numbers is lost, and true zeros are -inf.
"""

from __future__ import annotations

import math
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.solvers.elimination.eliminate import Best, Sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure
    from equifactor.solvers.elimination.orders import Order

    Shape = tuple[int, ...]

_BLOCK = 2**16  # Entries of a cluster that are computed at a time: 0.5 MiB, which fits into near caches.
_KEPT = 2**21  # Entries of all tables that are kept for the downward pass: 16 MiB. Others are computed twice.
_CHECKED = 2**20  # Entries between two checks of the clock, about 10 ms.
_CLUSTER = 2**12  # The fixed cost of a cluster, in entries.
_LOWEST = -float(np.finfo(np.float64).max)  # Stands for the largest of some logs where all of them are -inf.

_size = attrgetter("size")


def plain_seconds(entries: float, num_clusters: int, marginals: bool) -> float:
    """Return about how long the elimination of a plan with these table entries and clusters takes in plain NumPy."""
    if marginals:
        return num_clusters * Seconds.PLAIN_CLUSTER_BOTH + entries * Seconds.PLAIN_BOTH
    return num_clusters * Seconds.PLAIN_CLUSTER_UP + entries * Seconds.PLAIN_UP


def plain_sums(structure: Structure, order: Order, log_phi: FloatArray, marginals: bool, clock: Clock) -> Sums | None:
    """Return ln Z, and all marginals by a downward pass, as `sum_out` does; None when the clock stopped the work.

    Args:
        structure: the structure of the graph. All factors are tables.
        order: an order of all its variables.
        log_phi: [T] the log tables.
        marginals: whether to compute the probabilities [X] of all states, variable by variable.
        clock: the clock of the call.
    """
    tree = ClusterTree(structure, order, log_phi, clock)
    with np.errstate(all="ignore"):
        log_z = tree.sum_up(keep=marginals)
        if log_z is None:
            return None
        p = tree.marginals() if marginals and log_z > -math.inf else None
    if p is None:
        return None if tree.stopped else Sums(log_z, None)
    first = structure.state_ptr[:-1]
    return Sums(log_z, p / np.repeat(np.add.reduceat(p, first), structure.card) if len(p) else p)


def plain_separators(
    structure: Structure, order: Order, log_phi: FloatArray, clusters: Sequence[int], clock: Clock
) -> tuple[Sums, list[FloatArray]] | None:
    """Return what `plain_sums` returns, and the joint weights of the separators of some clusters.

    The axes of a separator are its variables in the order of elimination, the last one first, as in the kernels. The
    list is empty if Z = 0. None when the clock stopped the work.
    """
    tree = ClusterTree(structure, order, log_phi, clock)
    with np.errstate(all="ignore"):
        log_z = tree.sum_up(keep=True)
        p = tree.marginals() if log_z is not None and log_z > -math.inf else None
    if log_z is None or tree.stopped:
        return None
    return Sums(log_z, p), [] if p is None else [tree.above[n].T for n in clusters]


def plain_best(structure: Structure, order: Order, log_phi: FloatArray, clock: Clock) -> Best | None:
    """Return the best log score and an assignment that has it, as `maximise` does; None when the clock stopped it."""
    tree = ClusterTree(structure, order, log_phi, clock)
    with np.errstate(all="ignore"):
        score = tree.maximise()
    return None if score is None else Best(score, tree.best_states())


class ClusterTree:
    """The clusters of an order. Axes are named by places in the order."""

    def __init__(self, structure: Structure, order: Order, log_phi: FloatArray, clock: Clock) -> None:
        self.variables, self.state_ptr, self.clock = order.variables, structure.state_ptr, clock
        self.stopped = False
        self._spent = _CHECKED  # entries since the last check of the clock
        self.dim: list[int] = structure.card[order.variables].tolist()
        self.parent: list[int] = order.parent.tolist()
        dim, ptr, separators = self.dim, order.sep_ptr.tolist(), order.separators.tolist()
        self.axes: list[list[int]] = []  # of each cluster: its own place, then the separator
        self.shape: list[Shape] = []
        for n, d in enumerate(dim):
            places = [a for a in reversed(separators[ptr[n] : ptr[n + 1]]) if dim[a] > 1]
            self.axes.append([n, *places])
            self.shape.append((d, *[dim[a] for a in places]))
        self.inputs: list[list[FloatArray]] = [[] for _ in dim]  # tables and messages, over all axes of the cluster
        self.children: list[list[int]] = [[] for _ in dim]
        self.within: list[Shape] = [()] * len(dim)  # the shape of each message over the axes of its parent
        self.weights: list[FloatArray | None] = [None] * len(dim)  # what `sum_up` keeps, see `_weigh`
        self.totals: list[FloatArray] = []
        self.above: list[FloatArray] = []
        self.choices: list[IntArray] = []  # the best state of each variable, over its separator
        self.constant = 0.0
        self._take_factors(structure, log_phi)

    def _take_factors(self, structure: Structure, log_phi: FloatArray) -> None:
        """Give every factor to the cluster of its variable that is eliminated first."""
        dim, inputs = self.dim, self.inputs
        place_of = np.empty(len(dim), np.int64)
        place_of[self.variables] = np.arange(len(dim))
        places: list[int] = place_of[structure.scope_vars].tolist()
        scope_ptr, table_ptr = structure.scope_ptr.tolist(), structure.table_ptr.tolist()
        for a in range(len(scope_ptr) - 1):
            table = log_phi[table_ptr[a] : table_ptr[a + 1]]
            scope = places[scope_ptr[a] : scope_ptr[a + 1]]
            if len(scope) > 1:
                first = min(scope)
                axes = [p for p in scope if dim[p] > 1]
                table = table.reshape([dim[p] for p in axes])
                if axes != (rising := sorted(axes)):
                    table = table.transpose([axes.index(p) for p in rising])
                inputs[first].append(table.reshape(self._within(first, axes)))
            elif scope:
                inputs[scope[0]].append(table.reshape(self._within(scope[0], scope)))
            else:
                self.constant += float(table[0])

    def _within(self, n: int, axes: Iterable[int]) -> Shape:
        """Return the shape of a table over some axes of cluster n, with axes of length 1 for the others."""
        present = {*axes}
        return tuple([d if a in present else 1 for a, d in zip(self.axes[n], self.shape[n], strict=True)])

    def _send(self, n: int, message: FloatArray) -> float:
        """Give the message of cluster n to its parent and return 0; or return it if the cluster is a root."""
        up = self.parent[n]
        if up < 0:
            return float(message)
        self.children[up].append(n)
        self.within[n] = within = self._within(up, self.axes[n])
        self.inputs[up].append(message.reshape(within))
        return 0.0

    def _blocks(self, n: int) -> Iterable[Shape]:
        """Return the states of the first separator axes, for each block in turn; () alone if one block suffices."""
        shape, size, k = self.shape[n], math.prod(self.shape[n]), 0
        while size > _BLOCK and k < len(shape) - 1:
            k += 1
            size //= shape[k]
        return product(*[range(d) for d in shape[1 : k + 1]])

    def _table(self, n: int, block: Shape) -> FloatArray | None:
        """Return the sum of all tables and messages of one block of a cluster; None when the clock stopped."""
        parts, shape = self.inputs[n], self.shape[n]
        if block:
            parts, shape = [_part(table, block) for table in parts], (shape[0], *shape[len(block) + 1 :])
        self._spent += _CLUSTER + math.prod(shape)
        if self._spent > _CHECKED:
            self._spent = 0
            self.stopped = self.clock.stopped
            if self.stopped:
                return None
        return _sum_of(parts, shape)

    def rows(self, n: int, x: IntArray) -> FloatArray:
        """Return the logs [d, m] of the states of cluster n, given columns of states x [v, m] of all clusters."""
        own = x[self.axes[n][1:]]
        total = np.zeros((self.shape[n][0], x.shape[1]))
        for table in self.inputs[n]:
            total += at_states(table, own)
        return total

    # ---- sums -------------------------------------------------------------------------------------------

    def sum_up(self, keep: bool) -> float | None:
        """Return ln Z; with `keep`, leave for `marginals` what it needs. None when the clock stopped the work."""
        log_z = self.constant
        room = _KEPT if keep else 0
        for n, shape in enumerate(self.shape):
            if log_z == -math.inf:
                return log_z
            self.inputs[n].sort(key=_size)
            size = math.prod(shape)
            weight: FloatArray | None
            if size <= _BLOCK:
                table = self._table(n, ())
                if table is None:
                    return None
                weight, total, top = _weigh(table)
            else:
                total, top = np.empty(shape[1:]), np.empty(shape[1:])
                weight = np.empty(shape) if size <= room else None
                for block in self._blocks(n):
                    table = self._table(n, block)
                    if table is None:
                        return None
                    own, total[block], top[block] = _weigh(table)
                    if weight is not None:
                        _part(weight, block)[...] = own
            scale = float(top.max())
            if scale == _LOWEST:
                return -math.inf
            log_z += scale + self._send(n, np.log(total) + (top - scale))
            if keep:
                self.totals.append(total)
            if size <= room:
                room -= size
                self.weights[n] = weight
            if self.weights[n] is not None or not keep:
                self.inputs[n] = []
        return log_z

    def marginals(self) -> FloatArray | None:
        """Return the probabilities [X] of all states, not normalised; None when the clock stopped the work."""
        p = np.empty(int(self.state_ptr[-1]))
        first: list[int] = self.state_ptr[self.variables].tolist()
        self.above = above = [np.ones(())] * len(self.dim)  # the probabilities of each separator
        for n in range(len(self.dim) - 1, -1, -1):
            shape, children = self.shape[n], self.children[n]
            ratio = above[n] / np.maximum(self.totals[n], 1.0)  # a total below 1 is 0, and so is the probability
            joint = self.weights[n]
            if joint is not None:
                joint *= ratio
                p[first[n] : first[n] + shape[0]] = joint.reshape(shape[0], -1).sum(1)
                for c in children:
                    above[c] = _sum_to(joint, self.within[c]).reshape(self.shape[c][1:])
                self.weights[n] = None
                continue
            own = np.zeros(shape[0])
            for c in children:
                above[c] = np.zeros(self.within[c])
            for block in self._blocks(n):
                table = self._table(n, block)
                if table is None:
                    return None
                joint = _weigh(table)[0]
                joint *= ratio[block]
                own += joint.reshape(shape[0], -1).sum(1)
                for c in children:
                    part = _part(above[c], block)
                    part += _sum_to(joint, part.shape)
            p[first[n] : first[n] + shape[0]] = own
            for c in children:
                above[c] = above[c].reshape(self.shape[c][1:])
            self.inputs[n] = []
        return p

    # ---- maxima -----------------------------------------------------------------------------------------

    def maximise(self, keep: bool = False) -> float | None:
        """Return the best log score, and leave the choices for `best_states`; None when the clock stopped the work.

        With `keep`, the tables and messages of every cluster stay too.
        """
        score = self.constant
        for n, shape in enumerate(self.shape):
            self.inputs[n].sort(key=_size)
            best = np.empty(shape[1:])
            choice = np.empty(shape[1:], np.uint8 if shape[0] <= 256 else np.int32)
            for block in self._blocks(n):
                table = self._table(n, block)
                if table is None:
                    return None
                best[block] = table.max(0)
                choice[block] = table[1] > table[0] if shape[0] == 2 else table.argmax(0)
            score += self._send(n, best)
            self.choices.append(choice)
            if not keep:
                self.inputs[n] = []
        return score

    def best_states(self) -> IntArray:
        """Return the states [v] that have the best score."""
        by_place = [0] * len(self.dim)
        for n in range(len(self.dim) - 1, -1, -1):
            by_place[n] = int(self.choices[n][tuple([by_place[a] for a in self.axes[n][1:]])])
        states = np.empty(len(by_place), np.int64)
        states[self.variables] = by_place
        return states


def _sum_of(parts: Sequence[FloatArray], shape: Shape) -> FloatArray:
    """Return the sum of tables as a new array; the tables come smallest first, so that few sums are of full size."""
    if len(parts) < 2:
        return np.array(parts[0]) if parts else np.zeros(shape)
    total = parts[0] + parts[1]
    for other in parts[2:]:
        if total.shape == shape:
            total += other
        else:
            total = total + other
    return total


def _weigh(table: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the weights relative to the largest along the first axis, in place, their sums, and the largest log."""
    top = np.maximum(table.max(0), _LOWEST)
    table -= top
    np.exp(table, out=table)
    return table, table.sum(0), top


def _part(table: FloatArray, block: Shape) -> FloatArray:
    """Return the view of a table of a cluster at states of its first separator axes; an axis of length 1 has one."""
    at: Any = (slice(None), *[x if d > 1 else 0 for x, d in zip(block, table.shape[1:], strict=False)])
    return table[at]


def at_states(table: FloatArray, states: IntArray) -> FloatArray:
    """Return the columns [d or 1, m] of a table at states of its other axes; an axis of length 1 has one."""
    if not len(states):
        return table.reshape(-1, 1)
    return table[(slice(None), *[own if d > 1 else 0 * own for own, d in zip(states, table.shape[1:], strict=True)])]


def _sum_to(joint: FloatArray, shape: Shape) -> FloatArray:
    """Return the sums of a table over the axes that have length 1 in `shape`."""
    gone = tuple([k for k, (d, e) in enumerate(zip(joint.shape, shape, strict=True)) if d != e])
    return joint.sum(gone, keepdims=True) if gone else joint
