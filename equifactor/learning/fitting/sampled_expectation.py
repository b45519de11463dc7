"""EM where exact sums over missing values do not fit: the values are sampled instead (Gibbs).

In place of expected counts stand those of rows that are completed by sampling, averaged over iterations with weights
that fall: stochastic approximation EM [Delyon99]. Every row keeps its completion from one iteration to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.base.status import Status
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.fitting.data_table import DataTable
from equifactor.learning.fitting.em_progress import EmProgress
from equifactor.learning.fitting.fit_method import FitContext, Fitted
from equifactor.learning.fitting.table_codes import table_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.typing import FloatArray
    from equifactor.learning.fitting.fit_checkpoint import FitCheckpoint
    from equifactor.learning.fitting.network_tables import NetworkTables, Prior

SAMPLED_ITERATIONS = 120  # by default, of which the last 100 are averaged
_BURN_IN = 20  # iterations that are forgotten
_FALL = 0.8  # Later ones count with weight k ** -_FALL.


def fit_by_samples(
    tables: NetworkTables,
    table: DataTable,
    prior: Prior,
    log_phi: FloatArray,
    iterations: int,
    context: FitContext,
    checkpoint: FitCheckpoint | None,
) -> Fitted:
    """The tables after some iterations, or when the clock stops.

    Args:
        tables: what is learned.
        table: the rows.
        prior: counts before any data.
        log_phi: [T] the start.
        iterations: how many.
        context: clock, seed and progress.
        checkpoint: it goes on with the tables in it and new samples.
    """
    graph = tables.graph
    progress = EmProgress.load(checkpoint)
    if progress.log_phi is None:
        progress.log_phi = log_phi
    samples = SampledExpectation(graph, table, context.seed + progress.iteration)
    while progress.iteration < iterations and not context.clock.stopped:
        progress.log_phi = tables.maximised(samples.counts(progress.log_phi), prior, progress.log_phi)
        progress.iteration += 1
        context.report(progress.iteration, iterations, "missing values are sampled")
    if checkpoint is not None:
        progress.save(checkpoint)
    done = progress.iteration >= iterations
    return Fitted(
        graph=FactorGraph.trusted(graph.structure, progress.log_phi, None, graph.name),
        method="em",
        status=Status.ITERATION_LIMIT if done else context.clock.status or Status.TIME_LIMIT,
        message=f"Missing values were sampled in {progress.iteration} iterations: the tables have sampling noise, and "
        "the likelihood is not known.",
    )


class SampledExpectation:
    """Rows whose missing values are sampled, variable after variable, given all other values of the row.

    Args:
        graph: the structure, of tables alone.
        table: the rows.
        seed: of the samples.

    Raises `SolveError` where factors are no tables: their zeros would hold the samples where they are.
    """

    def __init__(self, graph: FactorGraph, table: DataTable, seed: int) -> None:
        s = self._structure = graph.structure
        if s.kinds is not None:
            raise SolveError("missing values can be sampled in tables only; write other factors as tables")
        self._rng = np.random.default_rng([seed, 3])
        self._missing = [np.flatnonzero(table.is_missing[:, i]) for i in range(s.num_vars)]
        states = table.states.copy(order="F")
        for i, rows in enumerate(self._missing):
            states[rows, i] = self._rng.integers(0, s.card[i], len(rows))
        self._table = DataTable(states, table.weights)
        by_variable = np.argsort(s.scope_vars, kind="stable")
        self._edges = np.split(by_variable, np.cumsum(np.bincount(s.scope_vars, minlength=s.num_vars))[:-1])
        self._average: FloatArray | None = None
        self._iteration = 0

    def counts(self, log_phi: FloatArray) -> FloatArray:
        """[T] the average so far, after one more sweep under these tables."""
        for i in range(self._structure.num_vars):
            if len(self._missing[i]):
                self._draw(i, log_phi)
        s = self._structure
        now = table_counts(s, np.arange(s.num_factors), self._table)
        self._iteration += 1
        late = self._iteration - _BURN_IN
        if self._average is None or late <= 1:
            self._average = now
        else:
            self._average = self._average + late**-_FALL * (now - self._average)
        return self._average

    def _draw(self, variable: int, log_phi: FloatArray) -> None:
        """New values of one variable in all rows that miss it."""
        rows, card = self._missing[variable], int(self._structure.card[variable])
        states = self._table.states
        log_p = np.zeros((len(rows), card))
        for first, steps, stride in self._factors_of(variable):
            code = np.full(len(rows), first)
            for other, step in steps:
                code += step * states[rows, other]
            log_p += log_phi[code[:, None] + stride * np.arange(card)]
        top = log_p.max(axis=1, keepdims=True)
        log_p[np.isneginf(top[:, 0])] = 0.0  # Zeros of fixed tables rule all states out: any may lead to a way around.
        p = np.cumsum(np.exp(log_p - np.where(np.isneginf(top), 0.0, top)), axis=1)
        states[rows, variable] = (self._rng.random((len(rows), 1)) * p[:, -1:] > p[:, :-1]).sum(axis=1)

    def _factors_of(self, variable: int) -> Iterator[tuple[int, list[tuple[int, int]], int]]:
        """For each factor of a variable: its first entry, the other variables and their strides, and its own stride."""
        s = self._structure
        for e in self._edges[variable].tolist():
            a = int(s.factor_of_edge[e])
            edges = range(int(s.scope_ptr[a]), int(s.scope_ptr[a + 1]))
            others = [(int(s.scope_vars[k]), int(s.stride[k])) for k in edges if k != e]
            yield int(s.table_ptr[a]), others, int(s.stride[e])
