"""Markov networks and conditional random fields by maximum pseudo-likelihood, without sums over assignments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.base.options import option
from equifactor.learning.fitting.fit_method import FitContext, Fitted
from equifactor.learning.fitting.gradient_quasi_newton import Evaluation
from equifactor.learning.fitting.gradient_run import GradientMethod
from equifactor.learning.fitting.learned_parameters import LearnedParameters, given_variables, refuse_gaps

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.learning.fitting.data_rows import DataRows


@dataclass(frozen=True, kw_only=True)
class PseudoLikelihoodFit(GradientMethod):
    """The log tables that make every value most probable given all other values of its row [Besag75].

    `sum_rows sum_i ln p(x_i | all other values)` is concave. As the number of rows grows, its maximum tends to the true
    tables. The cost of a step is O(N E d) for any graph, however large its elimination would be. Rows must be complete.
    """

    name: ClassVar[str] = "pseudo-likelihood"
    summary: ClassVar[str] = "Markov networks and conditional random fields of any size, from complete data"

    memory_limit: float = option(1.0, "GiB for computing the likelihood that is reported at the end", low=0.0)

    def fit(self, graph: FactorGraph, data: DataRows, context: FitContext) -> Fitted:
        """Maximise the pseudo-likelihood.

        The history holds pseudo-likelihoods. The result holds likelihoods if their sums fit.
        """
        refuse_gaps(graph, data, self.name)
        parameters = LearnedParameters(graph, context)
        given = given_variables(graph, self.given)
        loss = _PseudoLoss(parameters, data, given)
        held_out = None
        if context.validation is not None:
            refuse_gaps(graph, context.validation, self.name)
            held_out = _PseudoLoss(parameters, context.validation, given)
        run = self.descend(
            parameters, data, context, loss, lambda theta: None if held_out is None else -held_out(theta).value
        )
        found = run.fitted(parameters, self.name, "")
        return self._with_likelihoods(found, data, context)

    def _with_likelihoods(self, found: Fitted, data: DataRows, context: FitContext) -> Fitted:
        """Return the result with likelihoods in place of pseudo-likelihoods, if exact sums fit."""
        from dataclasses import replace

        from equifactor.learning.fitting.row_likelihood import mean_log_likelihood

        values: list[float | None] = [None, None]
        note = ""
        if self.given:
            note = "The history holds pseudo-likelihoods; the likelihood of a conditional model is not computed here."
        else:
            try:
                for n, rows in enumerate((data, context.validation)):
                    values[n] = None if rows is None else mean_log_likelihood(found.graph, rows, self.memory_limit)
            except SolveError:
                note = "The history holds pseudo-likelihoods; the sums of the likelihood do not fit memory_limit."
        message = " ".join(filter(None, (found.message, note)))
        return replace(found, message=message, log_likelihood=values[0], validation_log_likelihood=values[1])


class _PseudoLoss:
    """Minus the mean log pseudo-likelihood of complete rows, and its gradient."""

    def __init__(self, parameters: LearnedParameters, data: DataRows, given: IntArray) -> None:
        rows = data.merged
        self.parameters, self.states, self.weights = parameters, np.ascontiguousarray(rows.states), rows.weights
        self.total = float(rows.weights.sum())
        s = parameters.graph.structure
        self.free = np.setdiff1d(np.arange(s.num_vars), given).tolist()
        is_learned = np.zeros(s.num_factors, bool)
        is_learned[parameters.factors] = True
        learned = is_learned[s.factor_of_edge]
        self.edges = [np.flatnonzero((s.scope_vars == i) & learned).tolist() for i in self.free]
        code = dict(zip(parameters.factors.tolist(), parameters.codes(self.states), strict=True))
        # The entry of each row if variable i were in its first state, for all learned factors of i.
        self.first = [
            [code[int(s.factor_of_edge[e])] - s.stride[e] * self.states[:, i] for e in edges]
            for i, edges in zip(self.free, self.edges, strict=True)
        ]
        self.others = [self._of_others(i) for i in self.free]

    def __call__(self, theta: FloatArray) -> Evaluation:
        """Return the loss per row at parameters [P]."""
        s = self.parameters.graph.structure
        log_phi = self.parameters.log_phi(theta)
        gradient = np.zeros(len(log_phi))
        value = 0.0
        row = np.arange(len(self.states))
        for n, i in enumerate(self.free):
            d = int(s.card[i])
            of_others = self.others[n]
            logits = np.zeros((len(row), d)) if of_others is None else of_others.copy()
            entries = [
                f[:, None] + s.stride[e] * np.arange(d) for e, f in zip(self.edges[n], self.first[n], strict=True)
            ]
            for e in entries:
                logits += log_phi[e]
            top = logits.max(axis=1, keepdims=True)
            weight = np.exp(logits - top)
            total = weight.sum(axis=1, keepdims=True)
            own = self.states[:, i]
            value -= float(self.weights @ (logits[row, own] - top[:, 0] - np.log(total[:, 0])))
            excess = weight / total
            excess[row, own] -= 1.0
            excess *= self.weights[:, None]
            for e in entries:
                gradient += np.bincount(e.ravel(), excess.ravel(), len(gradient))
        return Evaluation(value / self.total, self.parameters.gathered(gradient) / self.total, -value / self.total)

    def _of_others(self, i: int) -> FloatArray | None:
        """Return the log score [N, d] of the factors that are not learned, for each state of variable i in each row."""
        rest = self.parameters.others
        if rest is None or i not in rest.structure.scope_vars:
            return None
        changed = self.states.copy()
        columns = []
        for state in range(int(rest.card[i])):
            changed[:, i] = state
            columns.append(np.asarray(rest.log_score(changed)))
        found = np.stack(columns, axis=1)
        own = found[np.arange(len(found)), self.states[:, i]]
        if np.any(np.isneginf(own)):
            raise ModelError("A row of the data has probability zero: a factor that is not learned excludes it.")
        return found
