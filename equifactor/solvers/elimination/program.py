"""A plan as index arrays for the kernels: what every cluster multiplies, and where each table lies in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.solvers.elimination.reduction import pointers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.solvers.elimination.orders import Order
    from equifactor.solvers.elimination.reduction import Reduction
    from equifactor.typing import IntArray


_FIRST_FIT = 4096  # messages with fewer entries are not worth a place that is used twice


@dataclass(frozen=True, eq=False)
class Program:
    """Arrays that depend on structure and order only; see `kernels.program` for their layout.

    v clusters (one per variable left), G groups of factors, E table entries of the groups, M message entries.
    """

    dim: IntArray  # [v] states of the variable that each cluster eliminates
    separators: tuple[IntArray, IntArray]  # sep_ptr [v+1], places
    axis_dim: IntArray  # states of each separator variable
    inputs: tuple[IntArray, IntArray, IntArray, IntArray]  # in_ptr [v+1], in_op, stride_ptr [v+1], strides
    op_size: IntArray  # [G+v] entries of each group and message
    groups: tuple[IntArray, ...]  # members, member_ptr, step_ptr, steps, axis_ptr, axis_dim of `fill_groups`
    table_ptr: IntArray  # [F+1]
    constants: IntArray  # entries of the factors without scope
    state_start: IntArray  # [v] first state of each cluster's variable, in the numbering of the reduction
    parent: IntArray  # [v]
    variables: IntArray  # [v] variable of each cluster

    @property
    def num_groups(self) -> int:
        """G."""
        return len(self.op_size) - len(self.dim)

    @property
    def message_sizes(self) -> IntArray:
        """[v] entries of each cluster's message."""
        return self.op_size[self.num_groups :]

    @property
    def geometry(self) -> tuple[IntArray, ...]:
        """First arguments of every pass."""
        return self.dim, self.separators[0], self.axis_dim, *self.inputs

    def starts(self, reuse: bool) -> tuple[IntArray, int]:
        """Offset of each operand in one block of memory, and its length.

        Messages keep their own place for a downward pass; with `reuse` they may be overwritten once they are read.
        """
        groups = pointers(self.op_size[: self.num_groups])
        if reuse:
            from equifactor.solvers.elimination.program_kernels import place_messages

            offset, length = place_messages(self.message_sizes, self.parent, _FIRST_FIT)
        else:
            running = pointers(self.message_sizes)
            offset, length = running[:-1], int(running[-1])
        return np.concatenate((groups[:-1], groups[-1] + offset)), int(groups[-1]) + length

    @property
    def scratch_size(self) -> int:
        """Entries of the messages that one cluster receives, at most."""
        received = np.bincount(self.parent[self.parent >= 0], self.message_sizes[self.parent >= 0])
        return int(received.max(initial=0))

    def workspace(self) -> tuple[NDArray, ...]:
        """buffer, offsets, kind, base, digit: what a pass needs beside its tables."""
        from equifactor.solvers.elimination.cluster_block import BLOCK

        num_in = int(np.diff(self.inputs[0]).max(initial=1))
        width = int(np.diff(self.separators[0]).max(initial=1))
        buffer = max(BLOCK, int(self.dim.max(initial=1)))
        # a cluster with many inputs may be small: its rows count, not the largest block
        rows = np.minimum(self.message_sizes, np.maximum(1, BLOCK // self.dim))
        offsets = int((rows * np.diff(self.inputs[0])).max(initial=1))
        return (
            np.empty(buffer), np.empty(max(1, offsets), np.int64), np.empty(num_in, np.int64),
            np.empty(num_in, np.int64), np.empty(width + 1, np.int64),
        )  # fmt: skip


def build_program(graph: Reduction, order: Order) -> Program:
    """Index arrays of an elimination along `order`. Cost: the sum of the cluster sizes times their inputs."""
    from equifactor.solvers.elimination import program_kernels as kernels

    place = np.empty(len(order.variables), np.int64)
    place[order.variables] = np.arange(len(place))
    dim = graph.card[order.variables]
    scope_place = place[graph.scope_vars]
    arity = np.diff(graph.scope_ptr)
    has_scope = np.flatnonzero(arity > 0)
    first = graph.scope_ptr[has_scope]
    home = np.minimum.reduceat(scope_place, first) if len(first) else first
    size = np.diff(graph.table_ptr)[has_scope]
    home_factors = has_scope[np.lexsort((-size, home))]
    home_ptr = pointers(np.bincount(home, minlength=len(dim)))
    sep = order.sep_ptr, order.separators
    groups = kernels.group_factors(home_ptr, home_factors, graph.scope_ptr, scope_place, dim, *sep)
    group, cluster_of, has_ptr, has = groups
    inputs = kernels.lay_out(dim, *sep, order.parent, cluster_of, has_ptr, has)
    stride = _strides(graph)
    axis_ptr, group_dim, member_ptr, members, step_ptr, steps = kernels.factor_steps(
        group, cluster_of, has_ptr, has, graph.scope_ptr, scope_place, stride, dim, *sep
    )
    group_size = np.multiply.reduceat(group_dim, axis_ptr[:-1]) if len(cluster_of) else axis_ptr[:-1]
    axis_dim = dim[order.separators]
    message_size = np.ones(len(dim), np.int64)
    inner = np.flatnonzero(np.diff(order.sep_ptr))  # all but the roots
    if len(inner):
        message_size[inner] = np.multiply.reduceat(axis_dim, order.sep_ptr[inner])
    return Program(
        dim=dim,
        separators=sep,
        axis_dim=axis_dim,
        inputs=inputs,
        op_size=np.concatenate((group_size, message_size)),
        groups=(members, member_ptr, step_ptr, steps, axis_ptr, group_dim),
        table_ptr=graph.table_ptr,
        constants=graph.table_ptr[np.flatnonzero(arity == 0)],
        state_start=pointers(graph.card)[order.variables],
        parent=order.parent,
        variables=order.variables,
    )


def _strides(graph: Reduction) -> IntArray:
    """[e] step in the factor's table when the edge's variable moves by one state, over the states left."""
    from equifactor.solvers.elimination.program_kernels import table_strides

    return table_strides(graph.scope_ptr, graph.scope_vars, graph.card)
