"""Layers as arrays: the clusters of each variable, where their messages go, and the shifts that two clusters share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import by_number, picked, ptr_of
from equifactor.solvers.bounds.factor_layers import Layer, OrderedScopes, OutOfTime

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.solvers.bounds.mini_bucket_kernels import Buckets

# log2 of the joint states of the shared variables on which two clusters exchange a function. Halved or doubled: gap
# within 15 %.
LINK_BITS = 6.0


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
    held: BoolArray  # [layers, F] the factors of each layer
    cluster_of: IntArray  # [layers, V] the cluster of each variable in each layer, -1 where it has none

    @property
    def entries(self) -> int:
        """Entries of all clusters."""
        return int(self.buckets.table[-1])

    @property
    def num_shifts(self) -> int:
        """L, the number of entries of all shifts."""
        return int(self.link_ptr[-1])


def sizes_of(scopes: OrderedScopes, layers: list[Layer]) -> tuple[float, float]:
    """Return the entries of all clusters of some layers, and of their messages, before anything is allocated."""
    entries, messages = 0.0, 0.0
    for layer in layers:
        inside = np.arange(layer.separators.shape[1]) < layer.width[:, None]
        size = np.exp2(np.where(inside, scopes.bits[layer.separators], 0.0).sum(axis=1))[layer.variables]
        entries += float(size @ scopes.card[layer.variables])
        messages += float(size.sum())
    return entries, messages


class _LayerClusters(NamedTuple):
    """The clusters of all layers, bucket by bucket."""

    tables: Structure  # their axes: the variable that is eliminated last comes first, as in every message
    variable: IntArray  # [C]
    parent: IntArray  # [C] the cluster that gets the message, or -1
    cluster_of: IntArray  # [layers, V]


class _ClusterOperands(NamedTuple):
    """Tables that clusters sum: factors, messages, or shifts."""

    cluster: IntArray  # [n]
    source: IntArray  # [n] first entry in `values`
    length: IntArray  # [n]
    sign: FloatArray  # [n] the factor with which it is added
    below: IntArray  # [n] the cluster that sends it, or -1
    target: IntArray  # [n] first entry of its gradient, or -1
    item_ptr: IntArray  # [n+1]
    items: IntArray  # the variables of each operand
    steps: IntArray  # the strides of each operand along its variables


def partition(structure: Structure, scopes: OrderedScopes, layers: list[Layer], clock: Clock) -> Partition:
    """Return the clusters of all layers; a factor that several layers hold is shared equally among them.

    Raises `OutOfTime` if the clock stops.
    """
    clusters = _clusters(scopes, layers)
    if clock.stopped:
        raise OutOfTime
    links, shifts = _links(clusters, scopes)
    if clock.stopped:
        raise OutOfTime
    held = np.array([layer.factors for layer in layers])
    size, dim = np.diff(clusters.tables.table_ptr), scopes.card[clusters.variable]
    message = structure.num_entries + ptr_of(size // dim)
    parts = [
        _factors(structure, scopes, held, clusters),
        _messages(clusters, message, dim),
        *_shifts(links, shifts, int(message[0]), int(message[-1])),
    ]
    count = np.bincount(clusters.variable, minlength=scopes.num_vars)
    return Partition(
        _buckets(clusters, parts, message, dim), clusters.variable, count[clusters.variable],
        np.flatnonzero(clusters.parent < 0), int(message[0]), int(message[-1]), links, shifts.table_ptr, held,
        clusters.cluster_of,
    )  # fmt: skip


def _clusters(scopes: OrderedScopes, layers: list[Layer]) -> _LayerClusters:
    holds = np.array([layer.variables for layer in layers])
    holds[0] |= ~holds.any(axis=0)  # A variable without factors is summed out by itself.
    variable, layer_of = np.nonzero(holds.T)
    cluster_of = np.full(holds.shape, -1)
    cluster_of[layer_of, variable] = np.arange(len(variable))
    widest = max(layer.separators.shape[1] for layer in layers)
    separator, width = np.zeros((len(variable), widest), np.int64), np.zeros(len(variable), np.int64)
    for n, layer in enumerate(layers):
        mine = np.flatnonzero(layer_of == n)
        separator[mine, : layer.separators.shape[1]] = layer.separators[variable[mine]]
        width[mine] = layer.width[variable[mine]]
    used = np.column_stack((np.arange(widest)[::-1] < width[:, None], np.ones(len(variable), bool)))
    axes = np.column_stack((separator[:, ::-1], variable))[used]
    parent = np.where(width > 0, cluster_of[layer_of, separator[:, 0]], -1)
    return _LayerClusters(Structure.build(scopes.card, ptr_of(width + 1), axes), variable, parent, cluster_of)


def _links(clusters: _LayerClusters, scopes: OrderedScopes) -> tuple[IntArray, Structure]:
    """Return [n, 2] pairs of clusters that make each bucket a tree, and the scopes of the functions they exchange."""
    from equifactor.solvers.bounds.layer_kernels import link_clusters

    tables = clusters.tables
    count = np.bincount(clusters.variable, minlength=scopes.num_vars)
    links = np.empty((len(clusters.variable) - scopes.num_vars, 2), np.int64)
    scope_ptr, scope = np.zeros(len(links) + 1, np.int64), np.empty(tables.num_edges, np.int64)
    graph = tables.scope_ptr, tables.scope_vars, scopes.bits
    used = link_clusters(ptr_of(count), *graph, LINK_BITS, links, scope_ptr, scope)
    return links, Structure.build(scopes.card, scope_ptr, scope[:used])


def _factors(
    structure: Structure, scopes: OrderedScopes, held: BoolArray, clusters: _LayerClusters
) -> _ClusterOperands:
    layer, factor = np.nonzero(held)
    none = np.full(len(factor), -1)
    item_ptr, edge = picked(structure.scope_ptr, factor)
    return _ClusterOperands(
        cluster=clusters.cluster_of[layer, scopes.first[factor]], source=structure.table_ptr[factor],
        length=np.diff(structure.table_ptr)[factor], sign=1.0 / held.sum(axis=0)[factor], below=none, target=none,
        item_ptr=item_ptr, items=scopes.place[structure.scope_vars[edge]], steps=structure.stride[edge],
    )  # fmt: skip


def _messages(clusters: _LayerClusters, message: IntArray, dim: IntArray) -> _ClusterOperands:
    tables, sender = clusters.tables, np.flatnonzero(clusters.parent >= 0)
    kept = np.ones(tables.num_edges, bool)
    kept[tables.scope_ptr[1:] - 1] = False  # the eliminated variable
    item_ptr, edge = picked(ptr_of(tables.arity - 1), sender)
    edge = np.flatnonzero(kept)[edge]
    return _ClusterOperands(
        cluster=clusters.parent[sender], source=message[sender], length=np.diff(message)[sender],
        sign=np.ones(len(sender)), below=sender, target=message[sender] - message[0],
        item_ptr=item_ptr, items=tables.scope_vars[edge],
        steps=tables.stride[edge] // np.repeat(dim[sender], np.diff(item_ptr)),
    )  # fmt: skip


def _shifts(links: IntArray, shifts: Structure, first_message: int, first_shift: int) -> list[_ClusterOperands]:
    """Return the shifts at the clusters that get them, and at those that give them, whose gradients come last."""
    start, none = shifts.table_ptr[:-1], np.full(len(links), -1)
    return [
        _ClusterOperands(
            cluster=links[:, side], source=first_shift + start, length=np.diff(shifts.table_ptr),
            sign=np.full(len(links), sign), below=none,
            target=first_shift - first_message + start + side * int(shifts.table_ptr[-1]),
            item_ptr=shifts.scope_ptr, items=shifts.scope_vars, steps=shifts.stride,
        )
        for side, sign in ((0, 1.0), (1, -1.0))
    ]  # fmt: skip


def _buckets(clusters: _LayerClusters, parts: list[_ClusterOperands], message: IntArray, dim: IntArray) -> Buckets:
    """Return the operands of all clusters, cluster by cluster."""
    from equifactor.solvers.bounds.layer_kernels import steps_along_axes
    from equifactor.solvers.bounds.mini_bucket_kernels import Buckets

    cluster, source, length, sign, below, target = (
        np.concatenate(columns) for columns in list(zip(*parts, strict=True))[:6]
    )
    order = by_number(cluster)
    tables = clusters.tables
    item_ptr = ptr_of(np.concatenate([np.diff(part.item_ptr) for part in parts]))
    items, steps = (np.concatenate([part[n] for part in parts]) for n in (7, 8))
    item_ptr, item = picked(item_ptr, order)
    stride_ptr = ptr_of(tables.arity[cluster[order]])
    strides = np.zeros(int(stride_ptr[-1]), np.int64)
    steps_along_axes(
        cluster[order], item_ptr, items[item], steps[item], tables.scope_ptr, tables.scope_vars, stride_ptr, strides
    )  # fmt: skip
    return Buckets(
        dim=dim, axis_ptr=tables.scope_ptr, axis_dim=tables.card[tables.scope_vars], table=tables.table_ptr,
        message=message, message_size=np.diff(message),
        in_ptr=ptr_of(np.bincount(cluster, minlength=len(dim))),
        source=source[order], sign=sign[order], below=below[order], target=target[order],
        stride_ptr=stride_ptr, strides=strides, length=length[order],
    )  # fmt: skip
