"""Layers as arrays: the clusters of each variable, where their messages go, and the shifts that two clusters share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.pointers import ptr_of
from equifactor.solvers.bounds.factor_layers import Layer, OrderedScopes, OutOfTime, members

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.graph.structure import Structure
    from equifactor.solvers.bounds.mini_bucket_kernels import Buckets
    from equifactor.typing import IntArray

LINK_BITS = 6.0  # Two clusters exchange a function of as many shared variables as have 64 joint states.


@dataclass(frozen=True, eq=False)
class Partition:
    """Clusters of bounded size along an order, as arrays for the kernels.

    C clusters, L entries of all shifts. `values` of a pass holds factors, then messages, then shifts.
    """

    buckets: Buckets
    bucket_of: IntArray  # [C] number of the bucket of each cluster, which is the place of its variable in the order
    share: IntArray  # [C] number of clusters in the same bucket
    roots: IntArray  # clusters without a parent
    first_message: int  # where messages begin in `values`
    first_shift: int  # where shifts begin
    links: IntArray  # [n, 2] clusters that get and give each shift
    link_ptr: IntArray  # [n+1] pointer to the entries of each shift

    @property
    def entries(self) -> int:
        """Entries of all clusters."""
        return int(self.buckets.table[-1])

    @property
    def num_shifts(self) -> int:
        """L, the number of entries of all shifts."""
        return int(self.link_ptr[-1])


def entries_of(scopes: OrderedScopes, layers: list[Layer]) -> float:
    """Entries of all clusters of some layers, before anything is allocated."""
    return sum(
        2.0 ** scopes.size(layer.separators[v] | 1 << v) for layer in layers for v in members(layer.variables)
    )  # fmt: skip


@dataclass(slots=True)
class _Cluster:
    """A cluster while it is put together: variables are places in the order."""

    variable: int
    variables: int  # the set of all
    operands: list[tuple[int, float]] = field(default_factory=list)  # factor a as a, cluster c as -1 - c; with shares
    shifts: list[tuple[int, int]] = field(default_factory=list)  # numbers of links, and signs


@dataclass(frozen=True, slots=True)
class _Link:
    """Two clusters of one bucket, and the variables of the function that one takes from the other."""

    gets: int
    gives: int
    scope: list[int]  # latest elimination first


def partition(structure: Structure, scopes: OrderedScopes, layers: list[Layer], clock: Clock) -> Partition:
    """The clusters of all layers; factors that several layers hold are shared equally among them.

    Raises `OutOfTime` when the clock stops.
    """
    held = np.zeros(structure.num_factors)
    for layer in layers:
        held[layer.factors] += 1.0
    own: list[list[tuple[int, float]]] = [[] for _ in range(len(layers) * scopes.num_vars)]
    for n, layer in enumerate(layers):
        for a in layer.factors:
            own[n * scopes.num_vars + scopes.scopes[a][0]].append((a, 1.0 / float(held[a])))
    clusters: list[_Cluster] = []
    links: list[_Link] = []
    for v in range(scopes.num_vars):
        if clock.stopped:
            raise OutOfTime
        first = len(clusters)
        inside = [n for n, layer in enumerate(layers) if layer.variables >> v & 1]
        for n in inside:
            separator = layers[n].separators[v]
            if separator:
                parent = (separator & -separator).bit_length() - 1
                own[n * scopes.num_vars + parent].append((-1 - len(clusters), 1.0))
            clusters.append(_Cluster(v, separator | 1 << v, own[n * scopes.num_vars + v]))
        if not inside:
            clusters.append(_Cluster(v, 1 << v))
        _link(clusters, first, links, scopes)
    return _Writer(structure, scopes, clusters, links).partition()


def _link(clusters: list[_Cluster], first: int, links: list[_Link], scopes: OrderedScopes) -> None:
    """Join the clusters of a bucket by pairs, those with the most in common first."""
    nearest = dict.fromkeys(range(first + 1, len(clusters)), (-1.0, first))  # what each has in common, and with whom
    new = first
    while nearest:
        for j, (most, _) in nearest.items():
            common = scopes.size(clusters[new].variables & clusters[j].variables)
            if common > most:
                nearest[j] = common, new
        other = max(nearest, key=lambda j: (nearest[j][0], -j))
        one = nearest.pop(other)[1]
        scope: list[int] = []
        room = LINK_BITS
        for v in members(clusters[one].variables & clusters[other].variables):
            if scopes.bits[v] <= room or not scope:
                scope.append(v)
                room -= scopes.bits[v]
        clusters[one].shifts.append((len(links), 1))
        clusters[other].shifts.append((len(links), -1))
        links.append(_Link(one, other, scope[::-1]))
        new = other


class _Writer:
    """Writes clusters and links into arrays."""

    def __init__(
        self, structure: Structure, scopes: OrderedScopes, clusters: list[_Cluster], links: list[_Link]
    ) -> None:
        card = scopes.card
        self.structure, self.scopes, self.clusters, self.links = structure, scopes, clusters, links
        # Axes: what is eliminated last comes first, as in every message.
        self.axes = [members(c.variables)[::-1] for c in clusters]
        size = np.array([math.prod([card[v] for v in axes]) for axes in self.axes], np.int64)
        self.dim = np.array([card[c.variable] for c in clusters], np.int64)
        self.table = ptr_of(size)
        self.message_size = size // self.dim
        self.first_message = structure.num_entries
        self.message = self.first_message + ptr_of(self.message_size)
        self.first_shift = int(self.message[-1])
        self.link_ptr = ptr_of(np.array([math.prod([card[v] for v in link.scope]) for link in links], np.int64))
        self.rows: list[tuple[int, float, int, int, int, int]] = []
        self.strides: list[int] = []
        self.in_ptr = [0]
        self.has_parent = np.zeros(len(clusters), bool)
        # Lists are several times as fast as arrays where single numbers are read.
        self._scope_ptr: list[int] = structure.scope_ptr.tolist()
        self._table_ptr: list[int] = structure.table_ptr.tolist()
        self._places: list[int] = scopes.place[structure.scope_vars].tolist()
        self._stride: list[int] = structure.stride.tolist()
        self._message: list[int] = self.message.tolist()
        self._link_ptr: list[int] = self.link_ptr.tolist()

    def partition(self) -> Partition:
        """All arrays."""
        from equifactor.solvers.bounds.mini_bucket_kernels import Buckets

        for c, cluster in enumerate(self.clusters):
            for item, share in cluster.operands:
                if item < 0:
                    self._add_message(c, -1 - item)
                else:
                    self._add_factor(c, item, share)
            for link, sign in cluster.shifts:
                self._add_shift(c, link, sign)
            self.in_ptr.append(len(self.rows))
        rows = np.array(self.rows, float).reshape(-1, 6)
        source, below, target, stride_ptr, length = rows[:, (0, 2, 3, 4, 5)].T.astype(np.int64)
        bucket_of = np.array([c.variable for c in self.clusters], np.int64)
        buckets = Buckets(
            dim=self.dim,
            axis_ptr=ptr_of(np.array([len(axes) for axes in self.axes], np.int64)),
            axis_dim=np.array([self.scopes.card[v] for axes in self.axes for v in axes], np.int64),
            table=self.table, message=self.message, message_size=self.message_size,
            in_ptr=np.array(self.in_ptr, np.int64),
            source=source.copy(), sign=rows[:, 1].copy(), below=below.copy(), target=target.copy(),
            stride_ptr=stride_ptr.copy(), strides=np.array(self.strides, np.int64), length=length.copy(),
        )  # fmt: skip
        copies = np.bincount(bucket_of, minlength=self.scopes.num_vars)[bucket_of]
        links = np.array([(link.gets, link.gives) for link in self.links], np.int64).reshape(-1, 2)
        return Partition(
            buckets, bucket_of, copies, np.flatnonzero(~self.has_parent), self.first_message, self.first_shift, links,
            self.link_ptr,
        )  # fmt: skip

    def _add_message(self, c: int, sender: int) -> None:
        self.has_parent[sender] = True
        start, stop = self._message[sender : sender + 2]
        place = start, stop - start, start - self.first_message
        self._add(c, place, _steps(self.axes[sender][:-1], self.scopes.card), sender, 1.0)

    def _add_factor(self, c: int, factor: int, share: float) -> None:
        start, stop = self._table_ptr[factor : factor + 2]
        edges = slice(*self._scope_ptr[factor : factor + 2])
        steps = dict(zip(self._places[edges], self._stride[edges], strict=True))
        self._add(c, (start, stop - start, -1), steps, -1, share)

    def _add_shift(self, c: int, link: int, sign: int) -> None:
        start, stop = self._link_ptr[link : link + 2]
        # The gradient at the cluster that gives a function lies behind all those at clusters that get one.
        target = self.first_shift - self.first_message + start + (0 if sign > 0 else self._link_ptr[-1])
        steps = _steps(self.links[link].scope, self.scopes.card)
        self._add(c, (self.first_shift + start, stop - start, target), steps, -1, float(sign))

    def _add(self, c: int, place: tuple[int, int, int], steps: dict[int, int], below: int, share: float) -> None:
        """One operand of cluster c: its first entry, its length, the first entry of its gradient; its steps."""
        start, length, target = place
        self.rows.append((start, share, below, target, len(self.strides), length))
        self.strides += [steps.get(v, 0) for v in self.axes[c]]


def _steps(scope: list[int], card: list[int]) -> dict[int, int]:
    """The step of a table in C order along each of its variables."""
    steps, run = {}, 1
    for v in reversed(scope):
        steps[v] = run
        run *= card[v]
    return steps
