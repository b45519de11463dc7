"""The run of a method that descends a gradient: iterations, validation, checkpoints, deadline, and the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equifactor.base.options import option
from equifactor.base.status import Status
from equifactor.learning.fitting.fit_checkpoint import FitCheckpoint
from equifactor.learning.fitting.fit_method import FitContext, FitMethod, Fitted
from equifactor.learning.fitting.gradient_quasi_newton import Evaluation, Objective, QuasiNewton

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.learning.fitting.data_table import DataTable
    from equifactor.learning.fitting.likelihood_tables import LearnedTables

    Validation = Callable[[FloatArray], float | None]  # the mean log-likelihood of the rows held out

_SAVE_EVERY = 10.0  # seconds between two checkpoints
_EARLY = "It stopped early: the likelihood of the rows held out had not risen for some iterations."
_UNSETTLED = "It had not settled at the limit of iterations: raise iterations or tolerance."


GIVEN_HELP = "variables whose values are given and not explained: A,B makes it the conditional model p(others | A, B)"


@dataclass(frozen=True, kw_only=True)
class GradientMethod(FitMethod):
    """What methods share that descend the gradient of a loss over rows, with regularisation."""

    given: str = option("", GIVEN_HELP)
    l2: float = option(
        0.1, "weight of the sum of squared log potentials / 2: a Gaussian prior of variance 1 / l2", low=0.0
    )
    l1: float = option(0.0, "weight of the sum of absolute log potentials: makes many of them exactly 0", low=0.0)
    iterations: int = option(500, "most quasi-Newton steps", low=1)
    tolerance: float = option(1e-7, "it has converged when a step gains less than this per row", low=0.0)
    start: Literal["uniform", "structure"] = option("uniform", "start from equal entries, or the structure's tables")
    patience: int = option(5, "steps without a better validation after which it stops; 0: never", low=0)

    def descend(
        self, tables: LearnedTables, table: DataTable, context: FitContext, loss: Objective, validate: Validation
    ) -> GradientRun:
        """The run of a loss per row to its end."""
        total = float(table.weights.sum())
        settings = DescentSettings(self.iterations, self.tolerance, self.patience, self.l1 / total, self.l2 / total)
        run = GradientRun(context, settings, loss, validate, QuasiNewton(tables.start(self.start), settings.l1))
        run.run(FitCheckpoint.of(str(self), tables.graph, table, context))
        return run


@dataclass(frozen=True)
class DescentSettings:
    """When a descent ends, and what is added to the function that it descends."""

    iterations: int
    tolerance: float  # of the function, per row
    patience: int
    l1: float  # per row
    l2: float  # per row


@dataclass
class GradientRun:
    """A descent of `objective`, the loss per row, from `theta`."""

    context: FitContext
    settings: DescentSettings
    objective: Objective
    validate: Validation
    state: QuasiNewton
    history: list[dict[str, Any]] = field(default_factory=list)
    best: FloatArray | None = None
    best_value: float = math.inf
    stale: int = 0
    done: bool = False
    message: str = ""

    def run(self, checkpoint: FitCheckpoint | None) -> None:
        """Iterate until it has settled, or the clock stops it."""
        self._load(checkpoint)
        clock = self.context.clock
        saved = clock.seconds
        while not self.done and not (clock.stopped and self.best is not None):
            gain = self.state.advance(self._regularised)
            if gain is None:
                break
            self._record(gain)
            if checkpoint is not None and clock.seconds - saved > _SAVE_EVERY:
                self._save(checkpoint)
                saved = clock.seconds
        if checkpoint is not None:
            self._save(checkpoint)

    def fitted(self, tables: LearnedTables, method: str, note: str) -> Fitted:
        """The best parameters so far, with what is known of them."""
        theta = self.state.x if self.best is None else self.best
        known = [entry for entry in self.history if entry.get("best")]
        status = Status.CONVERGED if self.message != _UNSETTLED else Status.ITERATION_LIMIT
        if not self.done:
            status = self.context.clock.status or Status.TIME_LIMIT
        return Fitted(
            graph=tables.with_tables(theta),
            method=method,
            status=status,
            message=" ".join(filter(None, (self.message, note))),
            log_likelihood=known[-1]["log_likelihood"] if known else None,
            validation_log_likelihood=known[-1]["validation"] if known else None,
            history=tuple(self.history),
        )

    def _regularised(self, theta: FloatArray) -> Evaluation | None:
        found = self.objective(theta)
        if found is None or self.settings.l2 == 0.0:
            return found
        value = found.value + 0.5 * self.settings.l2 * float(theta @ theta)
        return found._replace(value=value, gradient=found.gradient + self.settings.l2 * theta)

    def _record(self, gain: float) -> None:
        state, settings = self.state, self.settings
        assert state.at is not None
        total = state.total(state.x, state.at)
        validation = self.validate(state.x)
        judged = total if validation is None else -validation
        better = judged < self.best_value or self.best is None
        if better:
            self.best, self.best_value = state.x, judged
        self.stale = 0 if better else self.stale + 1
        step = len(self.history) + 1
        slope = float(np.abs(state.slope()).max(initial=0.0))
        self.history.append(
            {
                "iteration": step, "objective": -total, "log_likelihood": state.at.log_likelihood, "slope": slope,
                "validation": validation, "best": better,
            }
        )  # fmt: skip
        self.context.report(step, settings.iterations, f"objective {-total:.6g}")
        converged = gain < settings.tolerance
        early = validation is not None and 0 < settings.patience <= self.stale
        self.done = converged or early or step >= settings.iterations
        if self.done and not converged:
            self.message = _EARLY if early else _UNSETTLED

    # ---- the file ---------------------------------------------------------------------------------------

    def _save(self, checkpoint: FitCheckpoint) -> None:
        state = self.state
        values = {
            "history": self.history, "best_value": self.best_value, "stale": self.stale, "done": self.done,
            "message": self.message,
        }  # fmt: skip
        steps, turns = state.pairs.arrays(len(state.x))
        best = np.zeros((0, len(state.x))) if self.best is None else self.best
        arrays = {"x": state.x, "steps": steps, "turns": turns, "best": best}
        checkpoint.save(values, arrays)

    def _load(self, checkpoint: FitCheckpoint | None) -> None:
        found = checkpoint.load() if checkpoint is not None else None
        if found is None:
            return
        values, arrays = found
        self.history, self.best_value, self.stale = values["history"], values["best_value"], values["stale"]
        self.done, self.message = values["done"], values["message"]
        self.best = arrays["best"] if arrays["best"].ndim == 1 else None
        self.state.x = arrays["x"]
        for step, turn in zip(arrays["steps"], arrays["turns"], strict=True):
            self.state.pairs.remember(step, turn)
