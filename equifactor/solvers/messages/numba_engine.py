"""Belief propagation on Numba kernels: one core, any schedule, several times faster than array code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.factor_messages import add_up, message_state
from equifactor.factors.message_answers import beliefs, reduce_tables, variable_to_factor
from equifactor.factors.structured_kernels import kind_rows_of
from equifactor.factors.table_ranges import message_floor
from equifactor.graph.layout import CARD, SLOT, VAR, Layout, layout_of, tables_of
from equifactor.kernels.jit import plain
from equifactor.solvers.duals.map_bounds import upper_bound_of
from equifactor.solvers.messages.bp_engine import BpAnswers, BpPart, BpSettings
from equifactor.solvers.messages.lanes import lanes_of
from equifactor.solvers.messages.parallel_kernels import sweep_parallel
from equifactor.solvers.messages.schedule_kernels import ResidualQueue, residual_queue, sweep_in_order, sweep_residual

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph

_NO_WEIGHT = np.zeros(0)  # every message counts once


class NumbaEngine:
    """Messages in the flat order of the FlatGraph, updated in place."""

    name = "numba"

    def __init__(self, flat: FlatGraph[np.ndarray], settings: BpSettings) -> None:
        self.flat = flat
        self.settings = settings
        self.is_max = settings.semiring == "max"
        self.layout = layout_of(flat)
        self.kinds = kind_rows_of(flat, self.is_max)
        self.tables, phi = tables_of(flat)
        self.phi = None if self.is_max else phi
        self.state = message_state(first_messages(flat, self.layout, self.is_max), self.layout)
        self.floor = float(message_floor(flat))
        self.random = np.random.default_rng(settings.seed)
        self.orders = self.layout.order.copy(), self.layout.order[::-1].copy()
        self.sweeps = 0
        # Four factors at a time are faster for sums only: the parallel max semiring goes factor by factor.
        in_lanes = settings.schedule == "parallel" and not self.is_max
        self.lanes = lanes_of(flat, phi) if in_lanes else None
        self.queue = self._queue() if settings.schedule == "residual" else None

    def sweep(self, count: int) -> FloatArray:
        """Update every message `count` times; return the change [G] of the last sweep, infinite without a tolerance."""
        change = np.zeros(self.flat.num_graphs)
        s, kinds = self.settings, self.kinds
        phi, maxima = self.phi, True if self.is_max else None
        layout, tables, state = plain(self.layout), plain(self.tables), plain(self.state)
        if s.schedule == "parallel":
            check = s.tolerance > 0
            lanes = None if self.lanes is None else plain(self.lanes)
            sweep_parallel(count, layout, tables, lanes, maxima, kinds, state, s.damping, self.floor, change, check)
            return change if check else np.full_like(change, np.inf)
        queue = None if self.queue is None else plain(self.queue)
        for _ in range(count):
            change[:] = 0.0
            if queue is not None:
                sweep_residual(
                    layout, tables, phi, maxima, kinds, state, s.damping, self.floor, queue, s.tolerance, change
                )
            else:
                order = self._next_order()
                sweep_in_order(
                    layout, tables, phi, maxima, kinds, _NO_WEIGHT, state, s.damping, self.floor, order, change
                )
        return change

    def _next_order(self) -> IntArray:
        """Return the factors in random order, or forwards and backwards in turn: two sweeps solve a chain."""
        if self.settings.schedule == "random":
            return self.random.permutation(self.layout.order)
        self.sweeps += 1
        return self.orders[(self.sweeps - 1) % 2]

    def _queue(self) -> ResidualQueue:
        """Return the queue of the factors whose messages can change."""
        layout = self.layout
        arity = np.diff(layout.factors[:, SLOT])
        changing = arity[layout.factor_of_slot] > 1
        var, factor = layout.slots[changing, VAR], layout.factor_of_slot[changing]
        return residual_queue(self.flat.num_vars, len(arity), var, factor)

    def messages(self) -> FloatArray:
        """Return the messages [S] themselves, not a copy."""
        return self.state.msg

    def take(self, graphs: IntArray) -> BpPart:
        """Return a copy of the messages of some graphs."""
        return BpPart(self.state.msg[self.flat.edge_states_of(graphs)], self.sweeps)

    def put(self, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs and the direction of the next sweep."""
        self.state.msg[self.flat.edge_states_of(graphs)] = part.messages
        self.sweeps = part.sweeps

    def rest(self, graphs: IntArray) -> None:
        """Do nothing: a graph costs the same for all messages."""

    def answers(self, with_log_z: bool = True) -> BpAnswers:
        """Return beliefs, ln Z, states and bound."""
        return answers_of(self.flat, self.state.msg, self.is_max, with_log_z)


def answers_of(flat: FlatGraph[np.ndarray], msg: FloatArray, is_max: bool, with_log_z: bool = True) -> BpAnswers:
    """Return beliefs, states, bound and, unless left out, ln Z from log messages to variables [S], up to constants."""
    layout = layout_of(flat)
    total, zeros = np.zeros(flat.num_states), np.zeros(flat.num_states, np.int64)
    add_up(layout.edges, msg, total, zeros)
    p, log_z_i, states = beliefs(flat.var_ptr, np.where(zeros > 0, -np.inf, total))
    none = np.full(flat.num_graphs, np.nan)
    if is_max:
        return BpAnswers(p, states, none, upper_bound_of(flat, msg))
    if not with_log_z:
        return BpAnswers(p, states, none, none)
    # sum_a ln Z_a + sum_i (1 - d_i) ln Z_i per graph, as in `tensors.bethe_log_z`
    msg_vf = variable_to_factor(layout.edges, msg, total, zeros)
    log_z_a = reduce_tables(plain(layout), kind_rows_of(flat, False), flat.log_phi, msg_vf, False)
    degree = np.diff(layout.neighbour_ptr)
    no_i, no_a = np.isneginf(log_z_i), np.isneginf(log_z_a)
    log_z = flat.sum_per_graph(layout.graph_of_factor, np.where(no_a, 0.0, log_z_a))
    log_z += flat.sum_per_graph(flat.graph_of_var, (1 - degree) * np.where(no_i, 0.0, log_z_i))
    log_z[flat.graph_of_var[no_i]] = -np.inf
    log_z[layout.graph_of_factor[no_a]] = -np.inf
    return BpAnswers(p, states, log_z, none)


def first_messages(flat: FlatGraph[np.ndarray], layout: Layout, is_max: bool) -> FloatArray:
    """Return the first messages [S]: unary factors send their normalised table, the others a uniform message."""
    card = layout.edges[:, CARD]
    msg = np.zeros(flat.num_edge_states) if is_max else -np.log(np.repeat(card, card).astype(float))
    for group in flat.groups:
        if len(group.shape) == 1:
            table = group.table(flat.log_phi)
            scale = table.max(axis=1, keepdims=True)
            scale = np.where(np.isneginf(scale), 0.0, scale)
            if not is_max:
                total = np.exp(table - scale).sum(axis=1, keepdims=True)
                scale = scale + np.log(np.where(total > 0.0, total, 1.0))  # A table of zeros stays one.
            msg[group.slots[0]] = (table - scale).ravel()
    return msg
