"""A plan as index arrays for the kernels: the tables that every cluster multiplies, and where each lies in memory."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from equifactor.base.typing import BoolArray, FloatArray, IntArray
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.graph.structure import Structure
    from equifactor.solvers.elimination.orders import Order


_Number = TypeVar("_Number", np.float64, np.int64)
# Messages with fewer entries get their own place instead of a reused one. Halved or doubled: the same answers, CPU
# within 2 %.
_FIRST_FIT = 4096


class Clusters(NamedTuple):
    """The clusters of an order and the operands that each multiplies; made by `program_kernels.lay_out`.

    v clusters, one per variable, are numbered by place in the order. Operand g < G is group g of factors, operand
    G + n the message of cluster n.
    """

    dim: IntArray  # [v] states of the variable that each cluster eliminates
    sep_ptr: IntArray  # [v+1] pointer to the separator variables of each cluster
    axis_dim: IntArray  # [sep_ptr[v]] states of each separator variable
    in_ptr: IntArray  # [v+1] pointer to the operands of each cluster
    in_op: IntArray  # [in_ptr[v]] operands
    stride_ptr: IntArray  # [v+1] pointer to the strides of each cluster's operands
    strides: IntArray  # [stride_ptr[v]] steps of an operand along the separator's axes
    state_start: IntArray  # [v] first state of each cluster's variable among all states
    parent: IntArray  # [v] cluster that receives the message, -1 at a root


class FactorGroups(NamedTuple):
    """How factors fill the tables that are multiplied in advance; made by `program_kernels.factor_steps`."""

    table_ptr: IntArray  # [F+1] pointer to the entries of each factor
    members: IntArray  # [M] factors, group by group
    member_ptr: IntArray  # [G+1] pointer to the members of each group
    step_ptr: IntArray  # [M+1] pointer to the steps of each member
    steps: IntArray  # [step_ptr[M]] steps of a member's table along the axes of its group
    axis_ptr: IntArray  # [G+1] pointer to the axes of each group
    axis_dim: IntArray  # [axis_ptr[G]] states of each axis
    constants: IntArray  # entries of the factors without scope


class ClusterTables(NamedTuple):
    """The numbers that a pass works on: the tables of all operands in one block of memory."""

    start: IntArray  # [G+v] first entry of each operand in the arena
    size: IntArray  # [G+v] entries of each operand
    arena: FloatArray
    is_log: BoolArray  # [G+v] operands that are in the log domain
    low: FloatArray  # [G+v] smallest positive entry of each linear operand
    mode: IntArray  # [v] how each cluster is computed
    scale: FloatArray  # [1+v] logs of the divisors of all groups, and of each message


class Workspace(NamedTuple):
    """Scratch memory of a pass, shared by all clusters."""

    buffer: FloatArray  # one block of a cluster's table
    offsets: IntArray  # offset of each row of a block within each operand
    kind: IntArray  # [operands of a cluster] GENERAL, WHOLE or SINGLE offsets
    base: IntArray  # [operands of a cluster] place of the present block in the arena
    digit: IntArray  # [axes of a cluster] states of the outer axes
    scratch: FloatArray  # probabilities of the separators below a cluster
    scratch_start: IntArray  # [operands of a cluster] place of each of them
    # The addresses of `elimination_kernels.collect` and `distribute` for kernels that call them, 0 for other kernels.
    collect_at: int = 0
    distribute_at: int = 0


@dataclass(frozen=True, eq=False)
class Program:
    """Arrays that depend on structure and order only."""

    clusters: Clusters
    groups: FactorGroups
    separators: IntArray  # places in the order of the separator variables of all clusters
    size: IntArray  # [G+v] entries of each operand
    variables: IntArray  # [v] variable of each cluster

    @property
    def num_groups(self) -> int:
        """The number of groups, G."""
        return len(self.size) - len(self.variables)

    @property
    def message_sizes(self) -> IntArray:
        """[v] entries of each cluster's message."""
        return self.size[self.num_groups :]

    @cached_property
    def largest(self) -> int:
        """The entries of the largest cluster."""
        return int((self.message_sizes * self.clusters.dim).max(initial=0))

    def starts(self, reuse: bool) -> tuple[IntArray, int]:
        """Return the offset of each operand in one block of memory, and the length of the block.

        Messages keep their own place for a downward pass; with `reuse` they may be overwritten once they are read.
        """
        if not reuse:
            return self._separate_starts
        groups = ptr_of(self.size[: self.num_groups])
        offset, length = place_messages(self.message_sizes, self.clusters.parent)
        return np.concatenate((groups[:-1], groups[-1] + offset)), int(groups[-1]) + length

    @cached_property
    def _separate_starts(self) -> tuple[IntArray, int]:
        running = ptr_of(self.size)
        return running[:-1], int(running[-1])

    def tables(self, reuse: bool) -> ClusterTables:
        """Return memory for one upward pass, and for the downward pass unless messages are overwritten."""
        start, length = self.starts(reuse)
        operands, count = len(start), len(self.variables)
        return ClusterTables(
            start=start, size=self.size, arena=np.empty(length), is_log=np.zeros(operands, bool),
            low=np.zeros(operands), mode=np.zeros(count, np.int64), scale=np.zeros(1 + count),
        )  # fmt: skip

    def workspace(self, marginals: bool, inside: bool = False) -> Workspace:
        """Return scratch memory for an upward pass, and for a downward pass if marginals are wanted.

        With `inside` it is for passes that other kernels call.
        """
        buffer, offsets, operands, axes, scratch = self._workspace_sizes
        collect_at = distribute_at = 0
        if inside:
            from equifactor.solvers.elimination.elimination_kernels import COLLECT, DISTRIBUTE

            collect_at, distribute_at = COLLECT.address(), DISTRIBUTE.address() if marginals else 0
        return Workspace(
            buffer=np.empty(buffer), offsets=np.empty(offsets, np.int64), kind=np.empty(operands, np.int64),
            base=np.empty(operands, np.int64), digit=np.empty(axes, np.int64),
            scratch=np.empty(scratch if marginals else 0), scratch_start=np.empty(operands, np.int64),
            collect_at=collect_at, distribute_at=distribute_at,
        )  # fmt: skip

    @cached_property
    def _workspace_sizes(self) -> tuple[int, int, int, int, int]:
        """Entries of the buffer, offsets, operands and axes of a cluster, and entries that one cluster receives."""
        from equifactor.solvers.elimination.cluster_block import BLOCK

        dim, parent = self.clusters.dim, self.clusters.parent
        num_operands = np.diff(self.clusters.in_ptr)
        # A cluster with many operands may be small, so its rows count, not the largest block.
        rows = np.minimum(self.message_sizes, np.maximum(1, BLOCK // dim))
        received = np.bincount(parent[parent >= 0], self.message_sizes[parent >= 0])
        return (
            max(BLOCK, int(dim.max(initial=1))),
            max(1, int((rows * num_operands).max(initial=1))),
            int(num_operands.max(initial=1)),
            int(np.diff(self.clusters.sep_ptr).max(initial=1)) + 1,
            int(received.max(initial=0)),
        )


def place_messages(size: IntArray, parent: IntArray) -> tuple[IntArray, int]:
    """Return offsets [v] of the messages if each may be overwritten after its parent has read it, and their total.

    First fit among the large ones; the small ones lie one after another.
    """
    if size.max(initial=0) < _FIRST_FIT:
        ptr = ptr_of(size)
        return ptr[:-1], int(ptr[-1])
    offset = np.zeros(len(size), np.int64)
    is_small = size < _FIRST_FIT
    large = np.flatnonzero(~is_small)
    live: list[tuple[int, int, int]] = []  # the large messages in use: offset, end, and the parent that reads them
    top = 0
    for n, length, up in zip(large.tolist(), size[large].tolist(), parent[large].tolist(), strict=True):
        live = [other for other in live if other[2] >= n]
        at = 0
        for start, end, _ in live:
            if start - at >= length:
                break
            at = end
        offset[n] = at
        bisect.insort(live, (at, at + length, up))
        top = max(top, at + length)
    small = ptr_of(size[is_small])
    offset[is_small] = top + small[:-1]
    return offset, top + int(small[-1])


def read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    """Return a read-only view for a kernel, which would be compiled again for arrays that can be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def build_program(structure: Structure, order: Order, stride: IntArray | None = None) -> Program:
    """Return the index arrays of an elimination along `order`. Cost: the cluster sizes times their operands.

    Args:
        structure: the structure of the graph.
        order: an order of all its variables.
        stride: [E] of each variable in the table of its factor, if tables are slices of larger ones.
    """
    from equifactor.solvers.elimination import program_kernels as kernels

    s = structure
    place = np.empty(len(order.variables), np.int64)
    place[order.variables] = np.arange(len(place))
    dim = s.card[order.variables]
    scope_place = place[s.scope_vars]
    arity = np.diff(s.scope_ptr)
    has_scope = np.flatnonzero(arity > 0)
    first = s.scope_ptr[has_scope]
    home = np.minimum.reduceat(scope_place, first) if len(first) else first
    size = np.diff(s.table_ptr)[has_scope]
    home_factors = has_scope[np.lexsort((-size, home))]
    home_ptr = ptr_of(np.bincount(home, minlength=len(dim)))
    sep = order.sep_ptr, order.separators
    group, cluster_of, has_ptr, has = kernels.group_factors(home_ptr, home_factors, s.scope_ptr, scope_place, dim, *sep)
    in_ptr, in_op, stride_ptr, strides = kernels.lay_out(dim, *sep, order.parent, cluster_of, has_ptr, has)
    stride = kernels.table_strides(s.scope_ptr, s.scope_vars, s.card) if stride is None else stride
    axis_ptr, group_dim, member_ptr, members, step_ptr, steps = kernels.factor_steps(
        group, cluster_of, has_ptr, has, s.scope_ptr, scope_place, stride, dim, *sep
    )
    group_size = np.multiply.reduceat(group_dim, axis_ptr[:-1]) if len(cluster_of) else axis_ptr[:-1]
    axis_dim = dim[order.separators]
    message_size = np.ones(len(dim), np.int64)
    inner = np.flatnonzero(np.diff(order.sep_ptr))  # all clusters except the roots
    if len(inner):
        message_size[inner] = np.multiply.reduceat(axis_dim, order.sep_ptr[inner])
    return Program(
        clusters=Clusters(
            dim=dim, sep_ptr=order.sep_ptr, axis_dim=axis_dim, in_ptr=in_ptr, in_op=in_op, stride_ptr=stride_ptr,
            strides=strides, state_start=ptr_of(s.card)[order.variables], parent=order.parent,
        ),
        groups=FactorGroups(
            table_ptr=s.table_ptr, members=members, member_ptr=member_ptr, step_ptr=step_ptr, steps=steps,
            axis_ptr=axis_ptr, axis_dim=group_dim, constants=s.table_ptr[np.flatnonzero(arity == 0)],
        ),
        separators=order.separators,
        size=np.concatenate((group_size, message_size)),
        variables=order.variables,
    )  # fmt: skip
