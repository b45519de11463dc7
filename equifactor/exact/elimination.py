"""Two passes over the clusters of a plan: up to the roots, back down to every variable. All in the log domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.clock import Clock
    from equifactor.exact.plan import Plan
    from equifactor.graph import FactorGraph

    FloatArray = NDArray[np.float64]


class Elimination:
    """Cluster tables of one graph under one plan.

    Axes of every table are in the plan's order (latest elimination first), so a separator's axes are a
    subsequence of its parent's and tables combine by broadcasting.
    """

    def __init__(self, graph: FactorGraph, plan: Plan, clock: Clock) -> None:
        self.graph = graph
        self.plan = plan
        self.clock = clock
        self.position = {v: n for n, v in enumerate(plan.order)}
        self.constant = 0.0  # product of the arity-0 factors
        self.factors_of: list[list[int]] = [[] for _ in plan.order]
        ptr = graph.structure.scope_ptr
        for a in range(graph.num_factors):
            scope = graph.structure.scope_vars[ptr[a] : ptr[a + 1]].tolist()
            if scope:
                self.factors_of[min(self.position[v] for v in scope)].append(a)
            else:
                self.constant += float(graph.log_table(a))

    def log_z_and_marginals(self) -> tuple[float, dict[int, FloatArray]] | None:
        """ln Z and the distribution of every free variable; None when the clock stopped the work."""
        up = self._collect(_logsumexp)
        if up is None:
            return None
        tables, messages, log_z = up
        if np.isneginf(log_z):
            return log_z, {}
        marginals: dict[int, FloatArray] = {}
        for n in range(len(self.plan.order) - 1, -1, -1):
            if self.clock.stopped:
                return None
            parent = self.plan.parent[n]
            if parent >= 0:
                inside = _reduce_to(tables[parent], self.plan.clusters[parent], self.plan.clusters[n][:-1])
                # what the parent knows beyond this cluster's own message; 0/0 is impossible, so it stays 0
                with np.errstate(invalid="ignore"):
                    outside = np.where(np.isneginf(messages[n]), -np.inf, inside - messages[n])
                tables[n] += outside[..., None]
            p = tables[n].reshape(-1, tables[n].shape[-1])
            p = np.exp(p - p.max()).sum(axis=0)
            marginals[self.plan.order[n]] = p / p.sum()
        return log_z, marginals

    def best_assignment(self) -> tuple[float, dict[int, int]] | None:
        """Best log score and its states; None when the clock stopped the work."""
        up = self._collect(lambda table: table.max(axis=-1))
        if up is None:
            return None
        tables, _, score = up
        states: dict[int, int] = {}
        for n in range(len(self.plan.order) - 1, -1, -1):
            row = tables[n][tuple(states[v] for v in self.plan.clusters[n][:-1])]
            states[self.plan.order[n]] = int(np.argmax(row))
        return score, states

    def _collect(
        self, reduce: Callable[[FloatArray], FloatArray]
    ) -> tuple[list[FloatArray], list[FloatArray], float] | None:
        """Upward pass: cluster tables, separator messages, and the total over all roots."""
        tables: list[FloatArray] = []
        messages: list[FloatArray] = []
        total = self.constant
        waiting: list[list[int]] = [[] for _ in self.plan.order]
        for n, cluster in enumerate(self.plan.clusters):
            if self.clock.stopped:
                return None
            table = np.zeros(tuple(self.graph.card[list(cluster)]))
            for a in self.factors_of[n]:
                scope = self.graph.structure.scope(a).tolist()
                order = sorted(range(len(scope)), key=lambda k: -self.position[scope[k]])
                aligned = self.graph.log_table(a).transpose(order)
                table += _expand(aligned, [scope[k] for k in order], cluster)
            for child in waiting[n]:
                table += _expand(messages[child], self.plan.clusters[child][:-1], cluster)
            message = reduce(table)
            if self.plan.parent[n] >= 0:
                waiting[self.plan.parent[n]].append(n)
            else:
                total += float(message)
            tables.append(table)
            messages.append(message)
        return tables, messages, total


def _expand(table: FloatArray, scope: list[int] | tuple[int, ...], cluster: tuple[int, ...]) -> FloatArray:
    """Insert axes of length one so that a table over part of a cluster broadcasts over all of it."""
    shape = iter(table.shape)
    inside = set(scope)
    return table.reshape([next(shape) if v in inside else 1 for v in cluster])


def _reduce_to(table: FloatArray, cluster: tuple[int, ...], separator: tuple[int, ...]) -> FloatArray:
    """Sum a cluster table down to a separator."""
    inside = set(separator)
    axes = tuple(k for k, v in enumerate(cluster) if v not in inside)
    return _logsumexp(table, axes) if axes else table


def _logsumexp(table: FloatArray, axes: int | tuple[int, ...] = -1) -> FloatArray:
    top = table.max(axis=axes, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(table - top).sum(axis=axes)) + top.squeeze(axes)
