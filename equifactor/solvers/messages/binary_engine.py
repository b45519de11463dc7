"""The fast path: parallel and residual belief propagation on binary pairwise models, one log ratio per message.

In the gauge used here a message is `(1, e^lam)`, so a unary factor adds its own log ratio to its variable and the
constant `log f(0)` to ln Z and to every score; what is left are the pair factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.layout import LINEAR_RANGE
from equifactor.solvers.messages.binary_answers import log_pair_sums
from equifactor.solvers.messages.binary_kernels import sweep_binary
from equifactor.solvers.messages.binary_residual import sweep_residual
from equifactor.solvers.messages.bp_engine import Answers, Settings
from equifactor.solvers.messages.residual_schedule import new_queue

if TYPE_CHECKING:
    from equifactor.graph import FlatGraph
    from equifactor.typing import FloatArray, IntArray


def applies_to(flat: FlatGraph[np.ndarray]) -> bool:
    """Binary variables, arity at most 2, no zeros, tables of moderate range."""
    shapes = {g.shape for g in flat.groups}
    if (2, 2) not in shapes or not shapes <= {(), (2,), (2, 2)} or flat.has_zeros:
        return False
    if np.any(np.diff(flat.var_ptr) != 2):  # a variable of more states in no factor at all
        return False
    pairs = next(g for g in flat.groups if g.shape == (2, 2))
    columns = np.ascontiguousarray(flat.log_phi[pairs.entries].reshape(-1, 4).T)  # short rows have a price per row
    return bool((np.maximum.reduce(columns) - np.minimum.reduce(columns)).max() <= LINEAR_RANGE)


class BinaryEngine:
    """Log ratios of all pair messages, slot 0 of every factor, then slot 1."""

    def __init__(self, flat: FlatGraph[np.ndarray], settings: Settings) -> None:
        self.flat = flat
        self.settings = settings
        self.is_max = settings.semiring == "max"
        self.pairs = next(g for g in flat.groups if g.shape == (2, 2))
        first, second = self.pairs.edges
        self.var_of_edge = flat.var_of_edge[first.start : second.stop].astype(np.int32)
        self.graph_of_edge = flat.graph_of_var[self.var_of_edge]
        self.log_tables = np.ascontiguousarray(flat.log_phi[self.pairs.entries].reshape(-1, 4).T)  # [4, F]
        self.tables = self.log_tables if self.is_max else np.exp(self.log_tables - self.log_tables.max(axis=0))
        self.unary = np.zeros(flat.num_vars)
        self.constant = np.zeros(flat.num_graphs)
        for group in flat.groups:
            if group.shape in ((), (2,)):
                table = group.table(flat.log_phi).reshape(group.num_factors, -1)
                self.constant += _per_graph(flat.graph_of_factor[group.factors], table[:, 0], flat.num_graphs)
            if group.shape == (2,):
                ratio = table[:, 1] - table[:, 0]
                self.unary += np.bincount(flat.var_of_edge[group.edges[0]], ratio, flat.num_vars)
        self.lam = np.zeros(2 * self.pairs.num_factors)
        self.total = np.zeros((2, flat.num_vars))
        self.residual = None
        if settings.schedule == "residual":
            count = self.pairs.num_factors
            queue = new_queue(flat.num_vars, count, self.var_of_edge, np.tile(np.arange(count), 2))
            self.residual = np.ascontiguousarray(self.tables.T), queue

    def sweep(self, count: int) -> FloatArray:
        """Update every message so many times, or as many messages, the most urgent first."""
        change = np.zeros(self.flat.num_graphs)
        if self.residual is not None:
            tables, queue = self.residual
            sweep_residual(
                count, self.lam, self.total[0], self.unary, self.var_of_edge, tables, self.settings.damping,
                self.is_max, change, self.graph_of_edge, *queue, self.settings.tolerance,
            )  # fmt: skip
            return change
        check = self.settings.tolerance > 0
        sweep_binary(
            count, self.lam, self.total, self.unary, self.var_of_edge, self.tables,
            self.settings.damping, self.is_max, change, self.graph_of_edge, check,
        )  # fmt: skip
        return change if check else np.full_like(change, np.inf)

    def messages(self) -> FloatArray:
        """[S] log ratios as log messages `(0, lam)`; unary factors send their tables."""
        msg = np.zeros(self.flat.num_edge_states)
        for group in self.flat.groups:
            if group.shape == (2,):
                msg[group.slots[0]] = self.flat.log_phi[group.entries]
        first, second = self.pairs.slots
        msg[first.start : second.stop].reshape(-1, 2)[:, 1] = self.lam
        return msg

    def answers(self) -> Answers:
        """Beliefs, ln Z, states and bound: the formulae of `ops.beliefs` and `ops.bounds` in log ratios."""
        total = self.unary + np.bincount(self.var_of_edge, self.lam, self.flat.num_vars)
        p = np.empty((self.flat.num_vars, 2))
        small = np.exp(-np.abs(total))
        p[:, 0] = np.where(total > 0, small, 1.0) / (1.0 + small)
        p[:, 1] = np.where(total > 0, 1.0, small) / (1.0 + small)
        none = np.full(self.flat.num_graphs, np.nan)
        log_z = none if self.is_max else self._bethe_log_z(total)
        bound = self._upper_bound(total) if self.is_max else none
        return Answers(p.ravel(), (total > 0).astype(np.int64), log_z, bound)

    def _bethe_log_z(self, total: FloatArray) -> FloatArray:
        degree = np.bincount(self.var_of_edge, minlength=self.flat.num_vars).astype(np.float64)
        log_z_a = np.empty(self.pairs.num_factors)
        log_pair_sums(self.lam, total, self.var_of_edge, self.log_tables, log_z_a)
        return self._sum_up(log_z_a, (1 - degree) * np.logaddexp(0.0, total))

    def _upper_bound(self, total: FloatArray) -> FloatArray:
        lam_0, lam_1 = self.lam.reshape(2, -1)
        t00, t01, t10, t11 = self.log_tables
        best_a = np.maximum(np.maximum(t00, t01 - lam_1), np.maximum(t10 - lam_0, t11 - lam_0 - lam_1))
        return self._sum_up(best_a, np.maximum(total, 0.0))

    def _sum_up(self, of_pairs: FloatArray, of_vars: FloatArray) -> FloatArray:
        graph, count = self.flat.graph_of_factor[self.pairs.factors], self.flat.num_graphs
        return self.constant + _per_graph(graph, of_pairs, count) + _per_graph(self.flat.graph_of_var, of_vars, count)


def _per_graph(graph: IntArray, values: FloatArray, count: int) -> FloatArray:
    return np.bincount(graph, values, count).astype(np.float64)
