"""The run of a gradient method: iterations, validation, checkpoints, deadline, and the result."""

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
    from equifactor.learning.fitting.data_rows import DataRows
    from equifactor.learning.fitting.learned_parameters import LearnedParameters

    Validation = Callable[[FloatArray], float | None]  # The mean log-likelihood of the validation rows.

_SAVE_EVERY = 10.0  # The number of seconds between two checkpoints. Chosen by hand.
_EARLY = "The fit stopped early: the likelihood of the validation rows had not risen for some iterations."
_UNSETTLED = "The fit had not converged at the limit of iterations. Raise iterations or tolerance."


GIVEN_HELP = "variables that are given and not explained: with A,B the model is conditional, p(others | A, B)"


@dataclass(frozen=True, kw_only=True)
class GradientMethod(FitMethod):
    """The base class of methods that descend the gradient of a regularised loss over rows."""

    given: str = option("", GIVEN_HELP)
    l2: float = option(
        0.1, "weight of the sum of squared log potentials / 2: a Gaussian prior of variance 1 / l2", low=0.0
    )
    l1: float = option(0.0, "weight of the sum of absolute log potentials, which makes many of them exactly 0", low=0.0)
    iterations: int = option(500, "largest number of quasi-Newton steps", low=1)
    tolerance: float = option(1e-7, "the fit has converged when a step gains less than this per row", low=0.0)
    start: Literal["uniform", "structure"] = option(
        "uniform", "start from equal entries (uniform), or from the tables of the structure"
    )
    patience: int = option(5, "steps without a better validation after which the fit stops; 0 means never", low=0)

    def descend(
        self, parameters: LearnedParameters, data: DataRows, context: FitContext, loss: Objective, validate: Validation
    ) -> GradientRun:
        """Minimise a loss per row, and return the run."""
        total = float(data.weights.sum())
        settings = DescentSettings(self.iterations, self.tolerance, self.patience, self.l1 / total, self.l2 / total)
        run = GradientRun(context, settings, loss, validate, QuasiNewton(parameters.start(self.start), settings.l1))
        run.run(FitCheckpoint.of(str(self), parameters.graph, data, context))
        return run


@dataclass(frozen=True)
class DescentSettings:
    """The stopping rules of a descent, and the regularisation of its function."""

    iterations: int
    tolerance: float  # gain of a step per row
    patience: int
    l1: float  # per row
    l2: float  # per row


@dataclass
class GradientRun:
    """A descent of `objective`, the loss per row, from the point of `state`."""

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
        """Iterate until the descent has converged or the clock stops it."""
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

    def fitted(self, parameters: LearnedParameters, method: str, note: str) -> Fitted:
        """Return the best parameters so far with their likelihoods and the status of the run."""
        theta = self.state.x if self.best is None else self.best
        known = [entry for entry in self.history if entry.get("best")]
        status = Status.CONVERGED if self.message != _UNSETTLED else Status.ITERATION_LIMIT
        if not self.done:
            status = self.context.clock.status or Status.TIME_LIMIT
        return Fitted(
            graph=parameters.with_tables(theta),
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
