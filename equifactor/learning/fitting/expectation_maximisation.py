"""Bayesian networks from data with missing values and hidden variables: expectation maximisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.base.options import option
from equifactor.base.status import Status
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.fitting.conditional_tables import ConditionalTables
from equifactor.learning.fitting.counts import PRIOR_HELP
from equifactor.learning.fitting.data_rows import DataRows
from equifactor.learning.fitting.em_progress import EmProgress
from equifactor.learning.fitting.em_starts import start_tables
from equifactor.learning.fitting.expected_blocks import BlockExpectation
from equifactor.learning.fitting.fit_checkpoint import FitCheckpoint
from equifactor.learning.fitting.fit_method import FitContext, FitMethod, Fitted
from equifactor.learning.fitting.learned_kinds import as_tables, with_learned

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_SHORT = 10  # The number of iterations after which starts are compared. Chosen by hand.
_HIDDEN_STARTS = 5  # The default number of starts if there are hidden variables. Chosen by hand.
_ROUNDING = 1e-9  # Rounding may let the objective fall by this share of itself. Chosen by hand.
_SAVE_EVERY = 10.0  # The number of seconds between two checkpoints. Chosen by hand.


@dataclass(frozen=True, kw_only=True)
class ExpectationMaximisation(FitMethod):
    """EM: alternate between expected counts under the present tables and the tables most probable given these counts.

    The objective is the log-likelihood plus the log density of the prior. Every iteration checks that the objective
    does not fall. EM may end in a local optimum. Of several random starts, the best after ten iterations continues.
    """

    name: ClassVar[str] = "em"
    summary: ClassVar[str] = "Bayesian networks from data with missing values and hidden variables"

    prior: float | Literal["k2", "bdeu", "none"] | None = option(1.0, PRIOR_HELP, low=0.0)
    iterations: int = option(500, "largest number of iterations of the best start", low=1)
    tolerance: float = option(1e-5, "EM has converged when the objective per row gains less than this", low=0.0)
    restarts: int = option(
        0,
        "number of random starts, of which the best one continues; 0 means 5 with hidden variables, otherwise 1",
        low=0,
    )
    start: Literal["data", "structure"] = option(
        "data", "start from counts and noise (data), or from the tables of the structure"
    )
    patience: int = option(5, "iterations without a better validation after which EM stops; 0 means never", low=0)
    memory_limit: float = option(4.0, "GiB for exact sums over missing values", low=0.0)
    inference: Literal["auto", "exact", "gibbs"] = option(
        "auto", "sums over missing values: exact, by samples (gibbs), or auto: exact if they fit, otherwise gibbs"
    )

    def fit(self, graph: FactorGraph, data: DataRows, context: FitContext) -> Fitted:
        """Try the starts, then run the best start to the end."""
        dense, structured = as_tables(graph, context.fixed)
        cpts = ConditionalTables.of(dense, context, self.name, structured)
        found = self._fit(cpts, data, context)
        message = " ".join(filter(None, (found.message, cpts.about_kept(context.fixed))))
        return replace(found, graph=with_learned(graph, found.graph, structured), message=message)

    def _fit(self, cpts: ConditionalTables, data: DataRows, context: FitContext) -> Fitted:
        if self.inference == "gibbs":
            return self._fit_by_samples(cpts, data, context, "")
        try:
            run = _EmRun(self, cpts, data, context)
        except SolveError as error:
            if self.inference == "exact":
                raise
            return self._fit_by_samples(
                cpts, data, context, f"Exact sums over missing values do not fit: {str(error).rstrip('.')}."
            )
        checkpoint = self._checkpoint(cpts.graph, data, context)
        progress = EmProgress.load(checkpoint)
        if progress.message == _UNSETTLED and progress.iteration < self.iterations:
            progress.done, progress.message = False, ""
        saved = context.clock.seconds
        while not progress.done and run.iterate(progress):
            if checkpoint is not None and context.clock.seconds - saved > _SAVE_EVERY:
                progress.save(checkpoint)
                saved = context.clock.seconds
        if checkpoint is not None:
            progress.save(checkpoint)
        return run.fitted(progress)

    def _checkpoint(self, graph: FactorGraph, data: DataRows, context: FitContext) -> FitCheckpoint | None:
        """Return the checkpoint of this fit. A larger `iterations` continues the same fit."""
        return FitCheckpoint.of(str(replace(self, iterations=1)), graph, data, context)

    def _fit_by_samples(self, cpts: ConditionalTables, data: DataRows, context: FitContext, reason: str) -> Fitted:
        from equifactor.learning.fitting.sampled_expectation import SAMPLED_ITERATIONS, fit_by_samples

        start = self.start_tables(cpts, data, context.seed, 0)
        iterations = min(self.iterations, SAMPLED_ITERATIONS)
        checkpoint = self._checkpoint(cpts.graph, data, context)
        found = fit_by_samples(cpts, data, self.prior, start, iterations, context, checkpoint)
        return replace(found, message=" ".join(filter(None, (reason, found.message))))

    def start_tables(self, cpts: ConditionalTables, data: DataRows, seed: int, number: int) -> FloatArray:
        """Return the log tables [T] of a start."""
        if self.start == "structure":
            with np.errstate(over="ignore"):
                return cpts.log_tables(cpts.shared(np.exp(cpts.graph.log_phi)))
        return start_tables(cpts, data, seed, number)


class _Step(NamedTuple):
    """The result of the expectation step for some tables."""

    counts: FloatArray  # [T] expected counts over all rows
    log_likelihood: float  # sum over all rows
    objective: float


class _EmRun:
    """One fit: the expectations of its rows, and the iterations."""

    def __init__(self, method: ExpectationMaximisation, cpts: ConditionalTables, data: DataRows, context: FitContext):
        self.method, self.cpts, self.data, self.context = method, cpts, data, context
        graph = cpts.graph
        self.expectation = BlockExpectation(graph, data, method.memory_limit)
        self.total = self.expectation.total
        held_out = context.validation
        self.validation = None if held_out is None else BlockExpectation(graph, held_out, method.memory_limit)
        wanted = method.restarts or (_HIDDEN_STARTS if data.hidden.any() else 1)
        self.starts = 1 if method.start == "structure" else wanted

    # ---- iterations -------------------------------------------------------------------------------------

    def iterate(self, progress: EmProgress) -> bool:
        """Make one iteration; return False, and change nothing, if the clock stops it."""
        p, method = progress, self.method
        if p.log_phi is None:
            p.log_phi = self.method.start_tables(self.cpts, self.data, self.context.seed, p.start)
        if self.context.clock.stopped and p.best is not None:
            return False
        step = self._expect(p.log_phi)
        if step is None:
            return False
        validation = None if self.validation is None else self.validation.mean_log_score(p.log_phi)
        self._check_rise(p, step)
        gain = step.objective - p.objective
        p.iteration += 1
        p.history.append(
            {
                "start": p.start, "iteration": p.iteration, "log_likelihood": step.log_likelihood / self.total,
                "objective": step.objective / self.total, "validation": validation,
            }
        )  # fmt: skip
        self._keep_best(p, step, validation)
        p.log_phi = self.cpts.maximised(step.counts, method.prior, p.log_phi)
        p.objective = step.objective
        converged = gain < method.tolerance * self.total
        shown = f"log-likelihood {step.log_likelihood / self.total:.6g}"
        if p.is_final or self.starts == 1:
            self.context.report(p.iteration, method.iterations, shown)
            stale = validation is not None and 0 < method.patience <= p.stale
            p.done = converged or stale or p.iteration >= method.iterations
            if p.done and not converged:
                p.message = _EARLY if stale else _UNSETTLED
        else:
            self.context.report(p.iteration, method.iterations, f"start {p.start + 1} of {self.starts}, {shown}")
            if converged or p.iteration >= min(_SHORT, method.iterations):
                p.end_start()
                if p.start == self.starts:
                    p.go_on()
        return True

    def _expect(self, log_phi: FloatArray) -> _Step | None:
        """Return the expected counts under some tables; None if the clock stops it."""
        found = self.expectation.counts(log_phi, self.context.clock)
        if found is None:
            return None
        counts, log_likelihood = found
        return _Step(counts, log_likelihood, log_likelihood + self.cpts.log_prior(log_phi, self.method.prior))

    def _check_rise(self, p: EmProgress, step: _Step) -> None:
        if step.objective < p.objective - _ROUNDING * (1.0 + abs(p.objective)):
            raise SolveError(
                f"The objective of EM fell in iteration {p.iteration + 1}, from {p.objective:.12g} to "
                f"{step.objective:.12g}. This is an error of the program: please report it with the structure and data."
            )

    def _keep_best(self, p: EmProgress, step: _Step, validation: float | None) -> None:
        if validation is not None:
            better = p.best_validation is None or validation > p.best_validation
        else:
            better = step.objective > p.best_objective or p.best is None
        p.stale = 0 if better else p.stale + 1
        if better:
            p.best, p.best_objective, p.best_validation = p.log_phi, step.objective, validation
            p.best_log_likelihood = step.log_likelihood / self.total

    # ---- the end ----------------------------------------------------------------------------------------

    def fitted(self, progress: EmProgress) -> Fitted:
        """Return the best tables with their likelihoods and the status of the run."""
        p = progress
        log_phi = p.best if p.best is not None else p.log_phi
        assert log_phi is not None
        graph = FactorGraph.trusted(self.cpts.graph.structure, log_phi, None, self.cpts.graph.name)
        status = Status.CONVERGED if p.done and p.message != _UNSETTLED else Status.ITERATION_LIMIT
        if not p.done:
            status = self.context.clock.status or Status.TIME_LIMIT
        return Fitted(
            graph=graph,
            method=self.method.name,
            status=status,
            message=p.message,
            log_likelihood=p.best_log_likelihood,
            validation_log_likelihood=p.best_validation,
            history=tuple(p.history),
        )


_EARLY = "EM stopped early: the likelihood of the validation rows had not risen for some iterations."
_UNSETTLED = "EM had not converged at the limit of iterations. Raise iterations or tolerance."
