"""Markov networks and conditional random fields by maximum likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from equifactor.base.options import option
from equifactor.learning.fitting.data_table import DataTable
from equifactor.learning.fitting.fit_method import FitContext, Fitted
from equifactor.learning.fitting.gradient_quasi_newton import Evaluation
from equifactor.learning.fitting.gradient_run import GradientMethod
from equifactor.learning.fitting.likelihood_expectations import RowExpectation
from equifactor.learning.fitting.likelihood_tables import LearnedTables, given_variables

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph


@dataclass(frozen=True, kw_only=True)
class LikelihoodFit(GradientMethod):
    """The log tables that make the rows most probable, by quasi-Newton steps along the gradient of the likelihood.

    The derivative in a log table entry is how often the rows have it minus how often the model expects it, given
    nothing or, for a conditional model, the values of `given` in each row. Missing values are summed out; the problem
    is convex without them. Exact where elimination fits the memory; elsewhere belief propagation stands in, and the
    message says so. Without regularisation, entries that no row has go towards -inf.
    """

    name: ClassVar[str] = "likelihood"
    summary: ClassVar[str] = "Markov networks and conditional random fields, by gradients of the likelihood"

    memory_limit: float = option(1.0, "GiB for exact inference; above it belief propagation takes over", low=0.0)

    def fit(self, graph: FactorGraph, table: DataTable, context: FitContext) -> Fitted:
        """Descend."""
        loss = _LikelihoodLoss(self, graph, table, context)
        run = self.descend(loss.tables, table, context, loss, loss.validate)
        return run.fitted(loss.tables, self.name, loss.note)


class _LikelihoodLoss:
    """Minus the mean log-likelihood of the rows, and its gradient."""

    def __init__(self, method: LikelihoodFit, graph: FactorGraph, table: DataTable, context: FitContext) -> None:
        self.tables = LearnedTables(graph, context)
        self.clock = context.clock
        self.given = given_variables(graph, method.given)
        self.total = float(table.weights.sum())
        self.sides = self._sides(graph, table, method.memory_limit)
        held_out = context.validation
        self.held_out = None if held_out is None else self._sides(graph, held_out, method.memory_limit)
        self.held_out_total = 0.0 if held_out is None else float(held_out.weights.sum())

    @property
    def note(self) -> str:
        """What is not exact, or nothing."""
        return next((side.note for side in self.sides if side.note), "")

    def __call__(self, theta: FloatArray) -> Evaluation | None:
        """The loss per row at parameters [P]; None where the clock stops it."""
        found = self._difference(self.sides, theta)
        if found is None:
            return None
        counts, log_likelihood = found
        gradient = -self.tables.gathered(counts) / self.total
        return Evaluation(-log_likelihood / self.total, gradient, log_likelihood / self.total)

    def validate(self, theta: FloatArray) -> float | None:
        """The mean log-likelihood of the rows held out; None without any, or where the clock stops it."""
        found = None if self.held_out is None else self._difference(self.held_out, theta)
        return None if found is None else found[1] / self.held_out_total

    def _sides(
        self, graph: FactorGraph, table: DataTable, memory_limit: float
    ) -> tuple[RowExpectation, RowExpectation]:
        """The rows as they are, and with the values of `given` alone."""
        states = np.full_like(table.states, -1)
        states[:, self.given] = table.states[:, self.given]
        inputs = DataTable(states, table.weights).merged
        return RowExpectation(graph, table, memory_limit), RowExpectation(graph, inputs, memory_limit)

    def _difference(self, sides: tuple[RowExpectation, ...], theta: FloatArray) -> tuple[FloatArray, float] | None:
        """Counts of the rows less those expected given the inputs, and the same of log scores: the log-likelihood."""
        log_phi = self.tables.log_phi(theta)
        rows, inputs = (side.counts(log_phi, self.clock) for side in sides)
        if rows is None or inputs is None:
            return None
        return rows[0] - inputs[0], rows[1] - inputs[1]
