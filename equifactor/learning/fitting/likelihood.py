"""Markov networks and conditional random fields by maximum likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from equifactor.base.options import option
from equifactor.learning.fitting.data_rows import DataRows
from equifactor.learning.fitting.fit_method import FitContext, Fitted
from equifactor.learning.fitting.gradient_quasi_newton import Evaluation
from equifactor.learning.fitting.gradient_run import GradientMethod
from equifactor.learning.fitting.learned_parameters import LearnedParameters, given_variables
from equifactor.learning.fitting.likelihood_expectations import RowExpectation

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph


@dataclass(frozen=True, kw_only=True)
class LikelihoodFit(GradientMethod):
    """The log tables that make the rows most probable, by quasi-Newton steps along the gradient of the likelihood.

    The derivative with respect to a log table entry is the count of the entry in the rows minus its expected count
    under the model. For a conditional model, the expectation is given the values of `given` in each row. Missing values
    are summed out; without them the problem is convex. Sums are exact if elimination fits into memory. Otherwise belief
    propagation approximates the sums, and the message of the result reports it. Without regularisation, entries that
    occur in no row tend to -inf.
    """

    name: ClassVar[str] = "likelihood"
    summary: ClassVar[str] = "Markov networks and conditional random fields, by gradients of the likelihood"

    memory_limit: float = option(1.0, "GiB for exact inference; above this limit belief propagation is used", low=0.0)

    def fit(self, graph: FactorGraph, data: DataRows, context: FitContext) -> Fitted:
        """Maximise the likelihood."""
        loss = _LikelihoodLoss(self, graph, data, context)
        run = self.descend(loss.parameters, data, context, loss, loss.validate)
        return run.fitted(loss.parameters, self.name, loss.note)


class _LikelihoodLoss:
    """Minus the mean log-likelihood of the rows, and its gradient."""

    def __init__(self, method: LikelihoodFit, graph: FactorGraph, data: DataRows, context: FitContext) -> None:
        self.parameters = LearnedParameters(graph, context)
        self.clock = context.clock
        self.given = given_variables(graph, method.given)
        self.total = float(data.weights.sum())
        self.sides = self._sides(graph, data, method.memory_limit)
        held_out = context.validation
        self.held_out = None if held_out is None else self._sides(graph, held_out, method.memory_limit)
        self.held_out_total = 0.0 if held_out is None else float(held_out.weights.sum())

    @property
    def note(self) -> str:
        """A sentence about approximations, or empty text."""
        return next((side.note for side in self.sides if side.note), "")

    def __call__(self, theta: FloatArray) -> Evaluation | None:
        """Return the loss per row at parameters [P]; None if the clock stops it."""
        found = self._difference(self.sides, theta)
        if found is None:
            return None
        counts, log_likelihood = found
        gradient = -self.parameters.gathered(counts) / self.total
        return Evaluation(-log_likelihood / self.total, gradient, log_likelihood / self.total)

    def validate(self, theta: FloatArray) -> float | None:
        """Return the mean log-likelihood of the validation rows; None without such rows, or if the clock stops it."""
        found = None if self.held_out is None else self._difference(self.held_out, theta)
        return None if found is None else found[1] / self.held_out_total

    def _sides(self, graph: FactorGraph, data: DataRows, memory_limit: float) -> tuple[RowExpectation, RowExpectation]:
        """Return the expectations given whole rows, and given only the values of `given`."""
        states = np.full_like(data.states, -1)
        states[:, self.given] = data.states[:, self.given]
        inputs = DataRows(states, data.weights).merged
        return RowExpectation(graph, data, memory_limit), RowExpectation(graph, inputs, memory_limit)

    def _difference(self, sides: tuple[RowExpectation, ...], theta: FloatArray) -> tuple[FloatArray, float] | None:
        """Return the counts of the rows minus the counts expected given the inputs, and the log-likelihood."""
        log_phi = self.parameters.log_phi(theta)
        rows, inputs = (side.counts(log_phi, self.clock) for side in sides)
        if rows is None or inputs is None:
            return None
        return rows[0] - inputs[0], rows[1] - inputs[1]
