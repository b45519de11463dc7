"""Markov networks and conditional random fields by maximum likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from equifactor.errors import ModelError
from equifactor.fitting.fit_checkpoint import FitCheckpoint
from equifactor.fitting.fit_method import FitContext, FitMethod, Fitted
from equifactor.fitting.gradient_quasi_newton import Evaluation, QuasiNewton
from equifactor.fitting.gradient_run import DescentSettings, GradientRun
from equifactor.fitting.likelihood_expectations import expectation_of
from equifactor.fitting.likelihood_tables import LearnedTables, given_variables
from equifactor.fitting.network_tables import dot
from equifactor.options import option

if TYPE_CHECKING:
    from equifactor.fitting.data_table import DataTable
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.typing import FloatArray, IntArray

GIVEN_HELP = "variables whose values are given and not explained: A,B makes it the conditional model p(others | A, B)"
L2_HELP = "weight of the sum of squared log potentials / 2: a Gaussian prior of variance 1 / l2"
L1_HELP = "weight of the sum of absolute log potentials: makes many of them exactly 0"


@dataclass(frozen=True, kw_only=True)
class LikelihoodFit(FitMethod):
    """The log tables that make the rows most probable, by quasi-Newton steps along the gradient of the likelihood.

    The derivative in a log table entry is how often the rows have it minus how often the model expects it, given
    nothing or, for a conditional model, the values of `given` in each row. Missing values are summed out; the problem
    is convex without them. Exact where elimination fits the memory; elsewhere belief propagation stands in, and the
    message says so. Without regularisation, entries that no row has go towards -inf.
    """

    name: ClassVar[str] = "likelihood"
    summary: ClassVar[str] = "Markov networks and conditional random fields, by gradients of the likelihood"

    given: str = option("", GIVEN_HELP)
    l2: float = option(0.1, L2_HELP, low=0.0)
    l1: float = option(0.0, L1_HELP, low=0.0)
    iterations: int = option(500, "most quasi-Newton steps", low=1)
    tolerance: float = option(1e-7, "it has converged when a step gains less than this per row", low=0.0)
    start: Literal["uniform", "structure"] = option("uniform", "start from equal entries, or the structure's tables")
    patience: int = option(5, "steps without a better validation after which it stops; 0: never", low=0)
    memory_limit: float = option(1.0, "GiB for exact inference; above it belief propagation takes over", low=0.0)

    def fit(self, graph: FactorGraph, table: DataTable, context: FitContext) -> Fitted:
        """Descend."""
        loss = _LikelihoodLoss(self, graph, table, context)
        total = float(table.weights.sum())
        settings = DescentSettings(self.iterations, self.tolerance, self.patience, self.l1 / total, self.l2 / total)
        state = QuasiNewton(loss.tables.start(self.start), settings.l1)
        run = GradientRun(context, settings, loss, loss.validate, state)
        run.run(FitCheckpoint.of(str(self), graph, table, context))
        return run.fitted(loss.tables, self.name, loss.expectation.note)


class _LikelihoodLoss:
    """Minus the mean log-likelihood of the rows, and its gradient."""

    def __init__(self, method: LikelihoodFit, graph: FactorGraph, table: DataTable, context: FitContext) -> None:
        self.tables = LearnedTables(graph, context)
        self.context = context
        self.given = given_variables(graph, method.given)
        self.expectation = expectation_of(graph, method.memory_limit)
        self.total = float(table.weights.sum())
        rows = table.merged
        incomplete = rows.is_missing.any(axis=1)
        self.gaps, self.complete = rows.take(np.flatnonzero(incomplete)), rows.take(np.flatnonzero(~incomplete))
        self.seen = self.tables.counts(self.complete)
        self.inputs, self.input_weights = self._inputs(rows.states, rows.weights)
        self.held_out = None if context.validation is None else context.validation.merged
        self.scores_of_others = self._scores_of_others()

    def __call__(self, theta: FloatArray) -> Evaluation | None:
        """The loss per row at parameters [P]; None where the clock stops it."""
        log_phi = self.tables.log_phi(theta)
        clock = self.context.clock
        model = self.expectation.counts(log_phi, self.inputs, self.input_weights, clock)
        if model is None:
            return None
        expected, log_z = model
        if np.any(np.isneginf(log_z)):
            raise ModelError(
                "every assignment of the graph has probability zero: a factor that stays as it is rules all out"
            )
        score = dot(self.seen, log_phi) + self.scores_of_others
        wanted = self.seen
        if self.gaps.num_rows:
            found = self.expectation.counts(log_phi, self.gaps.states, self.gaps.weights, clock)
            if found is None:
                return None
            if np.any(np.isneginf(found[1])):
                raise ModelError(
                    "a row with missing values has probability zero: a factor that stays as it is rules it out"
                )
            wanted = wanted + found[0]
            score += float(self.gaps.weights @ found[1])
        log_likelihood = (score - float(self.input_weights @ log_z)) / self.total
        gradient = self.tables.gathered(expected - wanted) / self.total
        return Evaluation(-log_likelihood, gradient, log_likelihood)

    def validate(self, theta: FloatArray) -> float | None:
        """The mean log-likelihood of the rows held out; None without any, or where the clock stops it."""
        rows = self.held_out
        if rows is None:
            return None
        log_phi, clock = self.tables.log_phi(theta), self.context.clock
        above = self.expectation.counts(log_phi, rows.states, rows.weights, clock)
        inputs, weights = self._inputs(rows.states, rows.weights)
        below = self.expectation.counts(log_phi, inputs, weights, clock)
        if above is None or below is None:
            return None
        return (dot(rows.weights, above[1]) - dot(weights, below[1])) / float(rows.weights.sum())

    def _inputs(self, states: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
        """The different values of the given variables, all others free, and how many rows have each."""
        free = np.full_like(states, -1)
        free[:, self.given] = states[:, self.given]
        different, row = np.unique(free, axis=0, return_inverse=True)
        return different, np.bincount(row.ravel(), weights).astype(float)

    def _scores_of_others(self) -> float:
        """The log score of all complete rows in the factors that stay as they are."""
        if self.tables.others is None or not self.complete.num_rows:
            return 0.0
        scores = self.tables.others.log_score(self.complete.states)
        if np.any(np.isneginf(scores)):
            raise ModelError("a row of the data has probability zero: a factor that stays as it is rules it out")
        return dot(self.complete.weights, np.asarray(scores))
