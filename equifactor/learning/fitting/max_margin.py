"""Structured support vector machines: tables that score the labels of the data above all other labels by a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equifactor.base.options import option
from equifactor.base.status import Status
from equifactor.learning.fitting.fit_checkpoint import FitCheckpoint
from equifactor.learning.fitting.fit_method import FitContext, FitMethod, Fitted
from equifactor.learning.fitting.gradient_run import GIVEN_HELP
from equifactor.learning.fitting.learned_parameters import LearnedParameters, given_variables, refuse_gaps
from equifactor.learning.fitting.max_margin_oracle import MarginOracle

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.learning.fitting.data_rows import DataRows

_CHANGES = 1000  # The largest number of changes of the active planes in an iteration. Chosen by hand.


@dataclass(frozen=True, kw_only=True)
class MaxMarginFit(FitMethod):
    """min l2/2 |theta|^2 + sum over rows of max_y (share of wrong labels in y + score(y) - score(row)).

    This is a bundle method [Teo10]. The worst labels of all rows are found by MAP problems with the loss in their
    unaries. They give a plane below the function. The next parameters minimise the maximum of all planes. The gap
    between this lower bound and the function is known in every iteration, and the fit ends when the gap falls below the
    tolerance.
    """

    name: ClassVar[str] = "max-margin"
    summary: ClassVar[str] = "scores for MAP prediction, from complete data: structured support vector machines"

    given: str = option("", GIVEN_HELP)
    l2: float = option(1.0, "weight of the sum of squared log potentials / 2, relative to the sum of losses", low=1e-12)
    iterations: int = option(300, "largest number of planes", low=1)
    tolerance: float = option(
        1e-3, "the fit has converged when the loss per row is within this of the minimum", low=0.0
    )
    solver: str = option("srmp", "solver of the MAP problems if exact MAP does not fit")
    memory_limit: float = option(1.0, "GiB for exact MAP", low=0.0)

    def fit(self, graph: FactorGraph, data: DataRows, context: FitContext) -> Fitted:
        """Add planes until the gap is below the tolerance."""
        refuse_gaps(graph, data, self.name)
        parameters = LearnedParameters(graph, context)
        given = given_variables(graph, self.given)
        oracle = MarginOracle(parameters, data, given, self.solver, self.memory_limit)
        weight = self.l2 / float(data.weights.sum())
        run = _Bundle(weight, np.zeros(parameters.size))
        checkpoint = FitCheckpoint.of(str(self), graph, data, context)
        run.load(checkpoint)
        while not run.done and not (context.clock.stopped and run.history):
            if not run.add_plane(oracle, self.tolerance, context):
                break
            run.done = run.done or len(run.history) >= self.iterations
            context.report(len(run.history), self.iterations, f"gap {run.gap:.3g}")
        run.save(checkpoint)
        fitted = parameters.with_tables(run.best)
        status = Status.CONVERGED if run.gap <= self.tolerance else Status.ITERATION_LIMIT
        if not run.done:
            status = context.clock.status or Status.TIME_LIMIT
        wrong = oracle.share_wrong(run.best)
        message = f"MAP gets {wrong:.2%} of the labels of the rows wrong"
        if context.validation is not None:
            refuse_gaps(graph, context.validation, self.name)
            other = MarginOracle(parameters, context.validation, given, self.solver, self.memory_limit)
            message += f", and {other.share_wrong(run.best):.2%} of the labels of the validation rows"
        return Fitted(
            graph=fitted,
            method=self.name,
            status=status,
            message=f"{message}. The tables are scores for MAP, not probabilities.{oracle.note}",
            history=tuple(run.history),
        )


@dataclass
class _Bundle:
    """The planes so far. The loss per row is at least b_k + <a_k, theta> for each plane k."""

    weight: float  # weight of |theta|^2 / 2, per row
    theta: FloatArray  # [P] the point of the next plane
    slopes: list[FloatArray] = field(default_factory=list)  # a_k [P]
    offsets: list[float] = field(default_factory=list)  # b_k
    alpha: FloatArray = field(default_factory=lambda: np.zeros(0))  # [K] weights of the planes, on the simplex
    best: FloatArray = field(default_factory=lambda: np.zeros(0))
    best_value: float = math.inf
    gap: float = math.inf
    done: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    def add_plane(self, oracle: MarginOracle, tolerance: float, context: FitContext) -> bool:
        """Make one iteration; return False if the clock stops it."""
        found = oracle.plane(self.theta, context.clock)
        if found is None:
            self.best = self.theta if not len(self.best) else self.best
            return False
        slope, offset = found
        value = 0.5 * self.weight * float(self.theta @ self.theta) + offset + float(slope @ self.theta)
        if value < self.best_value:
            self.best, self.best_value = self.theta, value
        self.slopes.append(slope)
        self.offsets.append(offset)
        lower = self._minimise_planes(0.1 * tolerance)
        self.gap = self.best_value - lower
        self.history.append({"iteration": len(self.history) + 1, "objective": self.best_value, "gap": self.gap})
        self.done = self.gap <= tolerance
        return True

    def _minimise_planes(self, tolerance: float) -> float:
        """Move to the minimum of the highest plane plus weight |theta|^2 / 2, and return its value.

        The dual is max_alpha <b, alpha> - |A^T alpha|^2 / (2 weight) on the simplex. A plane whose derivative exceeds
        the weighted mean becomes active. The weights of active planes move to their maximum, or to the point where the
        first weight becomes zero. Any weights give a lower bound, so that the gap is always valid.
        """
        slopes, b = np.array(self.slopes), np.array(self.offsets)
        gram = slopes @ slopes.T / self.weight
        gram[np.diag_indices_from(gram)] *= 1.0 + 1e-12  # Equal planes then share their weight.
        alpha = np.append(self.alpha, 0.0) if len(self.alpha) else np.ones(1)
        for _ in range(_CHANGES):
            rise = b - gram @ alpha
            up = int(np.argmax(rise))
            if rise[up] - float(alpha @ rise) <= tolerance:
                break
            used = alpha > 0.0
            used[up] = True
            alpha = _moved(gram, b, alpha, used)
        self.alpha = alpha
        self.theta = -(alpha @ slopes) / self.weight
        return float(b @ alpha) - 0.5 * self.weight * float(self.theta @ self.theta)

    def save(self, checkpoint: FitCheckpoint | None) -> None:
        """Write the state to the checkpoint, if there is one."""
        if checkpoint is None:
            return
        values = {
            "offsets": self.offsets, "best_value": self.best_value, "gap": self.gap, "done": self.done,
            "history": self.history,
        }  # fmt: skip
        slopes = np.array(self.slopes).reshape(-1, len(self.theta))
        checkpoint.save(values, {"theta": self.theta, "best": self.best, "alpha": self.alpha, "slopes": slopes})

    def load(self, checkpoint: FitCheckpoint | None) -> None:
        """Read the state from the checkpoint, if there is one."""
        found = checkpoint.load() if checkpoint is not None else None
        if found is None:
            return
        values, arrays = found
        for name, value in values.items():
            setattr(self, name, value)
        self.theta, self.best, self.alpha = arrays["theta"], arrays["best"], arrays["alpha"]
        self.slopes = list(arrays["slopes"])


def _moved(gram: FloatArray, b: FloatArray, alpha: FloatArray, used: BoolArray) -> FloatArray:
    """Return the weights at the maximum among the active planes; planes with negative weights are dropped."""
    for _ in range(len(b)):
        k = np.flatnonzero(used)
        one = np.ones((len(k), 1))
        system = np.block([[gram[np.ix_(k, k)], one], [one.T, np.zeros((1, 1))]])
        wanted = np.linalg.lstsq(system, np.append(b[k], 1.0), rcond=None)[0][:-1]
        if np.all(wanted >= 0.0):
            moved = np.zeros_like(alpha)
            moved[k] = wanted / wanted.sum()
            return moved
        falling = wanted < alpha[k]
        limits = np.where(falling, alpha[k] / np.where(falling, alpha[k] - wanted, 1.0), np.inf)
        step = min(1.0, float(limits[wanted < 0.0].min()))
        moved = alpha[k] + step * (wanted - alpha[k])
        moved[(wanted < 0.0) & (limits <= step)] = 0.0
        alpha = np.zeros_like(alpha)
        alpha[k] = np.maximum(moved, 0.0)
        used = alpha > 0.0
    return alpha
