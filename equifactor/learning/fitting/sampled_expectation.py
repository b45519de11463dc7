"""EM with sampled missing values (Gibbs), for models whose exact sums over missing values do not fit.

Rows are completed by sampling, and their counts replace expected counts. The counts are averaged over iterations with
decreasing weights: stochastic approximation EM [Delyon99]. Every row keeps its completion for the next iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.base.status import Status
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.fitting.data_rows import DataRows
from equifactor.learning.fitting.em_progress import EmProgress
from equifactor.learning.fitting.fit_method import FitContext, Fitted
from equifactor.learning.fitting.table_codes import table_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.typing import FloatArray
    from equifactor.learning.fitting.conditional_tables import ConditionalTables, Prior
    from equifactor.learning.fitting.fit_checkpoint import FitCheckpoint

SAMPLED_ITERATIONS = 120  # The largest number of iterations, of which the last 100 are averaged. Chosen by hand.
_BURN_IN = 20  # The number of first iterations that are not averaged. Chosen by hand.
_FALL = 0.8  # Iteration k after the burn-in has weight k ** -_FALL; [Delyon99] needs a power between 0.5 and 1.


def fit_by_samples(
    cpts: ConditionalTables,
    data: DataRows,
    prior: Prior,
    log_phi: FloatArray,
    iterations: int,
    context: FitContext,
    checkpoint: FitCheckpoint | None,
) -> Fitted:
    """Return the tables after some iterations, or when the clock stops.

    Args:
        cpts: the tables that are learned.
        data: the rows.
        prior: the counts before any data.
        log_phi: [T] the log tables of the start.
        iterations: the number of iterations.
        context: clock, seed and progress.
        checkpoint: a file for the tables; if it exists, the run continues from its tables with new samples.
    """
    graph = cpts.graph
    progress = EmProgress.load(checkpoint)
    if progress.log_phi is None:
        progress.log_phi = log_phi
    samples = SampledExpectation(graph, data, context.seed + progress.iteration)
    while progress.iteration < iterations and not context.clock.stopped:
        progress.log_phi = cpts.maximised(samples.counts(progress.log_phi), prior, progress.log_phi)
        progress.iteration += 1
        context.report(progress.iteration, iterations, "missing values are sampled")
    if checkpoint is not None:
        progress.save(checkpoint)
    done = progress.iteration >= iterations
    return Fitted(
        graph=FactorGraph.trusted(graph.structure, progress.log_phi, None, graph.name),
        method="em",
        status=Status.ITERATION_LIMIT if done else context.clock.status or Status.TIME_LIMIT,
        message=f"Missing values were sampled in {progress.iteration} iterations. The tables have sampling noise, and "
        "the likelihood is not known.",
    )


class SampledExpectation:
    """Rows whose missing values are sampled, variable after variable, given all other values of the row.

    Args:
        graph: the structure, with dense tables only.
        data: the rows.
        seed: the seed of the samples.

    Raises `SolveError` for structured factors, because their zeros would keep the samples from moving.
    """

    def __init__(self, graph: FactorGraph, data: DataRows, seed: int) -> None:
        s = self._structure = graph.structure
        if s.kinds is not None:
            raise SolveError("Missing values can be sampled in dense tables only. Write structured factors as tables.")
        self._rng = np.random.default_rng([seed, 3])
        self._missing = [np.flatnonzero(data.is_missing[:, i]) for i in range(s.num_vars)]
        states = data.states.copy(order="F")
        for i, rows in enumerate(self._missing):
            states[rows, i] = self._rng.integers(0, s.card[i], len(rows))
        self._table = DataRows(states, data.weights)
        by_variable = np.argsort(s.scope_vars, kind="stable")
        self._edges = np.split(by_variable, np.cumsum(np.bincount(s.scope_vars, minlength=s.num_vars))[:-1])
        self._average: FloatArray | None = None
        self._iteration = 0

    def counts(self, log_phi: FloatArray) -> FloatArray:
        """Make one more sweep under these log tables, and return the average counts [T] so far."""
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
        """Draw new values of one variable in all rows that miss it."""
        rows, card = self._missing[variable], int(self._structure.card[variable])
        states = self._table.states
        log_p = np.zeros((len(rows), card))
        for first, steps, stride in self._factors_of(variable):
            code = np.full(len(rows), first)
            for other, step in steps:
                code += step * states[rows, other]
            log_p += log_phi[code[:, None] + stride * np.arange(card)]
        top = log_p.max(axis=1, keepdims=True)
        # In these rows, zeros of fixed tables exclude all states; any state may lead to a possible one.
        log_p[np.isneginf(top[:, 0])] = 0.0
        p = np.cumsum(np.exp(log_p - np.where(np.isneginf(top), 0.0, top)), axis=1)
        states[rows, variable] = (self._rng.random((len(rows), 1)) * p[:, -1:] > p[:, :-1]).sum(axis=1)

    def _factors_of(self, variable: int) -> Iterator[tuple[int, list[tuple[int, int]], int]]:
        """Yield first entry, other variables with their strides, and own stride, for each factor of a variable."""
        s = self._structure
        for e in self._edges[variable].tolist():
            a = int(s.factor_of_edge[e])
            edges = range(int(s.scope_ptr[a]), int(s.scope_ptr[a + 1]))
            others = [(int(s.scope_vars[k]), int(s.stride[k])) for k in edges if k != e]
            yield int(s.table_ptr[a]), others, int(s.stride[e])
