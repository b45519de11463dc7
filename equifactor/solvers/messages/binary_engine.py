"""The fast path: parallel and residual belief propagation on binary pairwise models, one log ratio per message.

In the gauge used here a message is `(1, e^lam)`. A unary factor therefore adds its own log ratio to its variable, and
the constant `log f(0)` to ln Z and to every score. Only the pair factors send messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.cores import Crew, Meeting, num_free_threads
from equifactor.graph.layout import LINEAR_RANGE
from equifactor.kernels.jit import plain
from equifactor.kernels.pointers import by_number, ptr_of
from equifactor.solvers.messages.binary_kernels import (
    CHUNK,
    BinaryPairs,
    log_pair_sums,
    send_pairs,
    sum_pairs,
    sweep_binary,
    sweep_binary_residual,
)
from equifactor.solvers.messages.bp_engine import BpAnswers, BpPart, BpSettings
from equifactor.solvers.messages.schedule_kernels import residual_queue

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph

SHARED_FACTORS = 50_000  # Pair factors from which threads share a sweep: it then takes 0.6 ms, their start 0.1 ms.


def applies_to(flat: FlatGraph[np.ndarray]) -> bool:
    """Return whether variables are binary, arities at most 2, and tables free of zeros and of moderate range."""
    shapes = {g.shape for g in flat.groups}
    if flat.structured or (2, 2) not in shapes or not shapes <= {(), (2,), (2, 2)} or flat.has_zeros:
        return False
    if np.any(np.diff(flat.var_ptr) != 2):  # a variable with more states may be in no factor at all
        return False
    pairs = next(g for g in flat.groups if g.shape == (2, 2))
    # columns, since numpy has a cost per row
    columns = np.ascontiguousarray(flat.log_phi[pairs.entries].reshape(-1, 4).T)
    return bool((np.maximum.reduce(columns) - np.minimum.reduce(columns)).max() <= LINEAR_RANGE)


class BinaryEngine:
    """The log ratios of all pair messages: slot 0 of every factor, then slot 1."""

    name = "numba"

    def __init__(self, flat: FlatGraph[np.ndarray], settings: BpSettings, threads: int | None = 1) -> None:
        self.flat = flat
        self.settings = settings
        self.is_max = settings.semiring == "max"
        self.group = next(g for g in flat.groups if g.shape == (2, 2))
        count = self.group.num_factors
        # [4, F], always a copy: kernels are compiled for writable tables.
        self.log_tables = flat.log_phi[self.group.entries].reshape(-1, 4).T.copy()
        tables = self.log_tables if self.is_max else np.exp(self.log_tables - self.log_tables.max(axis=0))
        residual = settings.schedule == "residual"
        first, second = self.group.edges
        var_of_edge = flat.var_of_edge[first.start : second.stop].astype(np.int32)
        self.constant, unary = unary_factors(flat)
        self.pairs = BinaryPairs(
            lam=np.zeros(2 * count),
            unary=unary,
            var_of_edge=var_of_edge,
            graph_of_edge=flat.graph_of_var[var_of_edge],
            tables=np.ascontiguousarray(tables.T) if residual else tables,
        )
        self.total = np.zeros((2, flat.num_vars))
        self.queue = (
            residual_queue(flat.num_vars, count, var_of_edge, np.tile(np.arange(count), 2)) if residual else None
        )
        size = 1 if residual or count < SHARED_FACTORS else num_free_threads() if threads is None else threads
        self.crew = _PairCrew(self.pairs, size) if size > 1 else None

    def sweep(self, count: int) -> FloatArray:
        """Update every message `count` times, or update the same number of messages, largest residual first."""
        s, pairs, change = self.settings, plain(self.pairs), np.zeros(self.flat.num_graphs)
        if self.queue is not None:
            queue = plain(self.queue)
            sweep_binary_residual(count, pairs, self.total[0], s.damping, self.is_max, queue, s.tolerance, change)
            return change
        check = s.tolerance > 0
        if self.crew is not None:
            self.crew.sweep(count, self.total[0], s.damping, self.is_max, change, check)
            return change if check else np.full_like(change, np.inf)
        sweep_binary(count, pairs, self.total, s.damping, self.is_max, change, check)
        return change if check else np.full_like(change, np.inf)

    def messages(self) -> FloatArray:
        """Return the log ratios as log messages `(0, lam)` [S]; unary factors send their tables."""
        msg = np.zeros(self.flat.num_edge_states)
        for group in self.flat.groups:
            if group.shape == (2,):
                msg[group.slots[0]] = self.flat.log_phi[group.entries]
        first, second = self.group.slots
        msg[first.start : second.stop].reshape(-1, 2)[:, 1] = self.pairs.lam
        return msg

    def take(self, graphs: IntArray) -> BpPart:
        """Return a copy of the messages of some graphs."""
        return BpPart(self.messages()[self.flat.edge_states_of(graphs)], 0)

    def put(self, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs."""
        msg = self.messages()
        msg[self.flat.edge_states_of(graphs)] = part.messages
        first, second = self.group.slots
        pairs = msg[first.start : second.stop].reshape(-1, 2)
        self.pairs.lam[:] = pairs[:, 1] - pairs[:, 0]

    def rest(self, graphs: IntArray) -> None:
        """Do nothing: a graph costs the same for all messages."""

    def answers(self, with_log_z: bool = True) -> BpAnswers:
        """Return beliefs, ln Z, states and bound: the formulae of `tensors` and `map_bounds` in log ratios."""
        num_vars, pairs = self.flat.num_vars, self.pairs
        total = pairs.unary + np.bincount(pairs.var_of_edge, pairs.lam, num_vars)
        p = np.empty((num_vars, 2))
        small = np.exp(-np.abs(total))
        p[:, 0] = np.where(total > 0, small, 1.0) / (1.0 + small)
        p[:, 1] = np.where(total > 0, 1.0, small) / (1.0 + small)
        none = np.full(self.flat.num_graphs, np.nan)
        log_z = none if self.is_max else self._bethe_log_z(total)
        bound = self._upper_bound(total) if self.is_max else none
        return BpAnswers(p.ravel(), (total > 0).astype(np.int64), log_z, bound)

    def _bethe_log_z(self, total: FloatArray) -> FloatArray:
        """Return the Bethe estimate [G] from the log ratios [V] of the beliefs."""
        degree = np.bincount(self.pairs.var_of_edge, minlength=self.flat.num_vars).astype(np.float64)
        log_z_a = np.empty(self.group.num_factors)
        log_pair_sums(self.pairs.lam, total, self.pairs.var_of_edge, self.log_tables, log_z_a)
        return self._sum_up(log_z_a, (1 - degree) * np.logaddexp(0.0, total))

    def _upper_bound(self, total: FloatArray) -> FloatArray:
        """Return the upper bound [G] on the best log score from the log ratios [V] of the beliefs."""
        lam_0, lam_1 = self.pairs.lam.reshape(2, -1)
        t00, t01, t10, t11 = self.log_tables
        best_a = np.maximum(np.maximum(t00, t01 - lam_1), np.maximum(t10 - lam_0, t11 - lam_0 - lam_1))
        return self._sum_up(best_a, np.maximum(total, 0.0))

    def _sum_up(self, of_pairs: FloatArray, of_vars: FloatArray) -> FloatArray:
        """Return the sums [G] over pair factors and variables of each graph, plus the constant of its other factors."""
        flat = self.flat
        sum_of_pairs = flat.sum_per_graph(flat.graph_of_factor[self.group.factors], of_pairs)
        return self.constant + sum_of_pairs + flat.sum_per_graph(flat.graph_of_var, of_vars)


class _PairCrew:
    """Threads that share a sweep. Every sum has the order of `sweep_binary`, so their number does not matter."""

    def __init__(self, pairs: BinaryPairs, threads: int) -> None:
        self.pairs = pairs
        self.crew = Crew(threads)
        num_vars, count = len(pairs.unary), len(pairs.lam) // 2
        chunks = np.linspace(0, -(-count // CHUNK), threads + 1).astype(int)
        self.factors = np.minimum(chunks * CHUNK, count).tolist()  # The borders of the parts of the threads.
        self.variables = np.linspace(0, num_vars, threads + 1).astype(int).tolist()
        # The edges of each variable in the order of their factors.
        by_factor = np.arange(2 * count, dtype=np.int32).reshape(2, count).T.ravel()
        self.edges = by_factor[by_number(pairs.var_of_edge[by_factor])]
        self.edge_ptr = ptr_of(np.bincount(pairs.var_of_edge, minlength=num_vars))

    def sweep(
        self, count: int, total: FloatArray, damping: float, is_max: bool, change: FloatArray, check: bool
    ) -> None:
        """Update all messages `count` times; `total` [V] is scratch, and `change` [G] is raised if `check` is set."""
        pairs = plain(self.pairs)
        changes = np.zeros((self.crew.size, len(change)))
        together = Meeting(self.crew.size)

        def run(thread: int) -> None:
            own, variables = self.factors[thread : thread + 2], self.variables[thread : thread + 2]
            try:
                for n in range(count):
                    sum_pairs(*variables, pairs, self.edge_ptr, self.edges, total)
                    together.wait()
                    send_pairs(*own, pairs, total, damping, is_max, changes[thread], check and n == count - 1)
                    together.wait()
            except BaseException:
                together.abort()  # Otherwise the other threads would wait forever.
                raise

        self.crew.run(run, together.abort)
        np.maximum(change, changes.max(axis=0), out=change)


def unary_factors(flat: FlatGraph[np.ndarray]) -> tuple[FloatArray, FloatArray]:
    """Return the constant [G] that tables of at most one binary variable add to scores, and their log ratios [V]."""
    constant, ratio = np.zeros(flat.num_graphs), np.zeros(flat.num_vars)
    for group in flat.groups:
        if len(group.shape) < 2:
            table = flat.log_phi[group.entries].reshape(group.num_factors, -1)
            constant += flat.sum_per_graph(flat.graph_of_factor[group.factors], table[:, 0])
        if len(group.shape) == 1:
            ratio += np.bincount(flat.var_of_edge[group.edges[0]], table[:, 1] - table[:, 0], flat.num_vars)
    return constant, ratio
