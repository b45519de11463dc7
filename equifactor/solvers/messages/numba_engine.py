"""Belief propagation on Numba kernels: one core, any schedule, several times faster than array code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.layout import CARD, SLOT, VAR, Layout, Tables, layout_of, tables_of
from equifactor.numerics import message_answers as read_off
from equifactor.solvers.messages import schedule_kernels as schedules
from equifactor.solvers.messages.bp_engine import Answers, Settings, message_floor
from equifactor.solvers.messages.lanes import lanes_of
from equifactor.solvers.messages.parallel_kernels import sweep_parallel
from equifactor.solvers.messages.residual_schedule import new_queue
from equifactor.solvers.optimise.map_bounds import upper_bound_of

if TYPE_CHECKING:
    from equifactor.graph import FlatGraph
    from equifactor.solvers.messages.residual_schedule import Queue
    from equifactor.typing import FloatArray, IntArray


class NumbaEngine:
    """Messages in the flat order of the FlatGraph, updated in place."""

    def __init__(self, flat: FlatGraph[np.ndarray], settings: Settings) -> None:
        self.flat = flat
        self.settings = settings
        self.is_max = settings.semiring == "max"
        self.layout: Layout = layout_of(flat)
        self.tables: Tables = tables_of(flat, self.layout)
        self.msg = first_messages(flat, self.layout, self.is_max)
        self.floor = message_floor(flat)
        self.total = np.zeros(flat.num_states)
        self.zeros = np.zeros(flat.num_states, np.int64)
        arity = self.layout.max_arity
        self.scratch = (
            np.empty_like(self.msg), np.empty_like(self.msg), np.empty(arity, np.int64), np.empty(arity + 1)
        )  # fmt: skip
        self.random = np.random.default_rng(settings.seed)
        self.sweeps = 0
        # Four factors at a time pay for sums only: the parallel max semiring goes factor by factor.
        in_lanes = settings.schedule == "parallel" and not self.is_max
        self.lanes = lanes_of(flat, self.tables.phi) if in_lanes else (None, None, None)
        self.queue = self._queue() if settings.schedule == "residual" else None

    def sweep(self, count: int) -> FloatArray:
        """Update every message so many times; [G] change of the last sweep, infinite when there is no tolerance."""
        change = np.zeros(self.flat.num_graphs)
        s, lay, tab = self.settings, self.layout, self.tables
        check = s.tolerance > 0
        state = (
            lay.factors, lay.slots, tab.log_phi, None if self.is_max else tab.phi, tab.wide, self.msg, self.total,
            self.zeros, *self.scratch, s.damping, self.floor,
        )  # fmt: skip
        if s.schedule == "parallel":
            sweep_parallel(
                count, *state, lay.first_pair_state, lay.edges, self.flat.var_ptr, self.flat.state_of_edge_state,
                lay.graph_of_state, change, check, *self.lanes,
            )  # fmt: skip
            return change if check else np.full_like(change, np.inf)
        for _ in range(count):
            change[:] = 0.0
            schedules.add_up(lay.edges, self.msg, self.total, self.zeros)
            if self.queue is not None:
                schedules.sweep_residual(*state, lay.graph_of_factor, change, *self.queue, s.tolerance)
            else:
                schedules.sweep_in_order(*state, lay.graph_of_factor, change, self._next_order())
        return change

    def _next_order(self) -> IntArray:
        """Factors in random order, or there and back: a chain is solved by one pair of sweeps."""
        self.sweeps += 1
        if self.settings.schedule == "random":
            return self.random.permutation(self.layout.order)
        return self.layout.order if self.sweeps % 2 else self.layout.order[::-1].copy()

    def _queue(self) -> Queue:
        """Of the factors whose messages can change."""
        lay = self.layout
        arity = np.diff(lay.factors[:, SLOT])
        factor_of_slot = np.repeat(np.arange(len(arity)), arity)
        changing = arity[factor_of_slot] > 1
        return new_queue(self.flat.num_vars, len(arity), lay.slots[changing, VAR], factor_of_slot[changing])

    def messages(self) -> FloatArray:
        """[S] the messages themselves, not a copy."""
        return self.msg

    def answers(self) -> Answers:
        """Beliefs, ln Z, states and bound."""
        lay, g = self.layout, self.flat
        schedules.add_up(lay.edges, self.msg, self.total, self.zeros)
        log_b_v = np.where(self.zeros > 0, -np.inf, self.total)
        p, log_z_i, states = read_off.beliefs(g.var_ptr, log_b_v)
        none = np.full(g.num_graphs, np.nan)
        log_z = none if self.is_max else self._bethe_log_z(log_z_i)
        return Answers(p, states, log_z, upper_bound_of(g, lay, self.msg) if self.is_max else none)

    def _bethe_log_z(self, log_z_i: FloatArray) -> FloatArray:
        """sum_a ln Z_a + sum_i (1 - d_i) ln Z_i per graph, as in `ops.bethe_log_z`."""
        lay, count = self.layout, self.flat.num_graphs
        msg_vf = read_off.variable_to_factor(lay.edges, self.msg, self.total, self.zeros)
        log_z_a = read_off.reduce_tables(lay.factors, lay.slots, self.tables.log_phi, msg_vf, False)
        degree = np.diff(lay.neighbour_ptr)
        if np.isneginf(log_z_i).any() or np.isneginf(log_z_a).any():
            dead = np.zeros(count, bool)
            dead[self.flat.graph_of_var[np.isneginf(log_z_i)]] = True
            dead[lay.graph_of_factor[np.isneginf(log_z_a)]] = True
            log_z_i = np.where(np.isneginf(log_z_i), 0.0, log_z_i)
            log_z_a = np.where(np.isneginf(log_z_a), 0.0, log_z_a)
        else:
            dead = np.zeros(count, bool)
        log_z = _sum_per_graph(lay.graph_of_factor, log_z_a, count)
        log_z += _sum_per_graph(self.flat.graph_of_var, (1 - degree) * log_z_i, count)
        log_z[dead] = -np.inf
        return log_z


def _sum_per_graph(graph: IntArray, values: FloatArray, count: int) -> FloatArray:
    return np.bincount(graph, values, count).astype(np.float64)  # of nothing at all, bincount makes integers


def first_messages(flat: FlatGraph[np.ndarray], layout: Layout, is_max: bool) -> FloatArray:
    """[S] unary factors send their normalised table, the others a uniform message."""
    card = layout.edges[:, CARD]
    msg = np.zeros(flat.num_edge_states) if is_max else -np.log(np.repeat(card, card).astype(float))
    for group in flat.groups:
        if len(group.shape) == 1:
            table = group.table(flat.log_phi)
            scale = table.max(axis=1, keepdims=True)
            scale = np.where(np.isneginf(scale), 0.0, scale)
            if not is_max:
                scale = scale + np.log(np.exp(table - scale).sum(axis=1, keepdims=True))
            msg[group.slots[0]] = (table - scale).ravel()
    return msg
