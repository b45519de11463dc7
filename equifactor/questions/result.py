"""What `solve` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from equifactor._version import __version__
from equifactor.base.argument_types import checks_fields
from equifactor.base.status import Status, Task
from equifactor.questions.answer_fields import AnswerField, HasAnswers
from equifactor.show.text_tables import terminal_table
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from rich.console import RenderableType

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals
    from equifactor.questions.entropies import Entropy
    from equifactor.questions.frames import DataFrame
    from equifactor.questions.information import Information
    from equifactor.questions.joint import Joint
    from equifactor.questions.scope_marginals import ScopeMarginals
    from equifactor.questions.solve_settings import SolveSettings

# The numbers of a summary: their labels and their fields.
_NUMBERS = {
    "ln Z": "log_z", "standard error of ln Z": "log_z_error", "log score": "log_score",
    "lower bound": "lower_bound", "upper bound": "upper_bound",
}  # fmt: skip


@checks_fields(
    "status", "message", "marginals", "standard_errors", "marginal_errors", "log_z", "log_z_error", "assignment",
    "log_score", "lower_bound", "upper_bound", "iterations", "stats", "graph", "task", "solver", "seconds", "version",
    "settings",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result(HasAnswers, Estimate):
    """Answers over the original variables, their quality, what ran and how long it took.

    Logarithms are natural. The answers are `marginals`, `log_z`, `assignment` and `log_score`. Reading an answer that
    the result does not have raises `SolveError`, which says why; `hasattr(result, "marginals")` tells whether it has
    one. `marginals["rain"]` is the distribution of one variable, by number or name.

    Bounds are on ln Z for MAR and PR, and on the best log score for MAP. Solvers that sample, or that a sampler checks,
    give the `standard_errors` of the marginals in the same form, and `log_z_error`, the standard error of ln Z. Bounds,
    errors and iterations are None if the solver does not provide them. `fe-net` predicts its `marginal_errors`, also in
    this form: the largest error of a variable should be at most this number for 90 % of the variables. `auto` gives
    `standard_errors` if a sampler ran, and otherwise `marginal_errors` if `fe-net` ran.

    `joint`, `factor_marginals`, `entropy` and `mutual_information` (docs/questions.md) are computed when they are
    first used, by the same solver.
    """

    graph: FactorGraph = field(repr=False)
    task: Task
    solver: str  # the text form, which parses back to the same solver
    marginals: AnswerField[Marginals] = AnswerField()
    log_z: AnswerField[float] = AnswerField()
    assignment: AnswerField[IntArray] = AnswerField()
    log_score: AnswerField[float] = AnswerField()
    seconds: float = 0.0
    version: str = __version__
    settings: SolveSettings | None = field(default=None, repr=False)  # the arguments of `solve`, for further questions

    @property
    def unjudged(self) -> bool:
        """Whether this is an estimate of ln Z without an error and without bounds."""
        known = self.log_z_error, self.lower_bound, self.upper_bound
        sure = self.status in (Status.EXACT, Status.ZERO_PROBABILITY)
        asked = self.task is Task.PR and not sure and hasattr(self, "log_z")
        return asked and all(value is None for value in known)

    @property
    def gap(self) -> float | None:
        """The upper minus the lower bound; 0 proves the answer."""
        if self.lower_bound is None or self.upper_bound is None:
            return None
        return self.upper_bound - self.lower_bound

    def marginal(self, variable: int | str) -> FloatArray:
        """Return the distribution of one variable, given by number or name."""
        return self.marginals[self.graph.variable(variable)]

    def probability(self, variable: int | str, state: int | str) -> float:
        """Return the probability of one state of one variable, by numbers or names as in evidence."""
        return float(self.marginal(variable)[self.graph.state(variable, state)])

    def state(self, variable: int | str) -> int | str:
        """Return the state of one variable in the assignment, by name if states have names."""
        i = self.graph.variable(variable)
        return self.graph.structure.states_of(i)[int(self.assignment[i])]

    @property
    def states(self) -> dict[int | str, int | str]:
        """The assignment: the state of every variable, by name or, without names, by number; for MMAP of the query."""
        names: Sequence[int | str] = self.graph.structure.variable_names or range(self.graph.num_vars)
        of = self.graph.structure.states_of
        states = enumerate(zip(names, self.assignment.tolist(), strict=True))
        return {name: of(i)[x] for i, (name, x) in states if x >= 0}

    def joint(self, *variables: int | str, time_limit: float = 60.0) -> Joint:
        """Return the joint distribution of a few variables, with named axes.

        For an exact result it is computed by elimination. For belief propagation it is the Bethe belief of a factor
        that has all the variables. Otherwise the solver is run given the states of all but one of them.

        Args:
            *variables: by number or name, each once; observed variables are allowed.
            time_limit: seconds that the estimated cost may not exceed.

        Raises `SolveError` with the estimated cost if that exceeds the time or memory limit.
        """
        from equifactor.questions.asking import joint_of

        return joint_of(self, variables, time_limit)

    @cached_property
    def factor_marginals(self) -> ScopeMarginals:
        """The distributions of all scopes: `factor_marginals[3]` has an axis for each variable of factor 3."""
        from equifactor.questions.scope_marginals import ScopeMarginals

        return ScopeMarginals(self)

    def entropy(self) -> Entropy:
        """Return the entropy of the whole distribution in nats, `ln Z - E[log score]`: exact, or the Bethe estimate.

        The attribute `method` of the number tells which. Raises `SolveError` for a solver that gives neither.
        """
        from equifactor.questions.entropies import entropy_of_result

        return entropy_of_result(self)

    def mutual_information(self, target: int | str, *, time_limit: float = 60.0) -> Information:
        """Return the mutual information of a target and every other variable, in nats: which evidence matters most.

        The solver is run once for each state of the target. Raises `SolveError` with the estimated cost if that
        exceeds the time limit in seconds.
        """
        from equifactor.questions.information import information_about

        return information_about(self, target, time_limit)

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame: `variable`, `state`, `probability`, or the states of the MAP."""
        from equifactor.questions.frames import frame_of

        return frame_of(self)

    @property
    def how(self) -> SolveSettings:
        """The arguments of `solve`; a result that was made in another way has only the name of its solver."""
        from equifactor.questions.solve_settings import SolveSettings

        return SolveSettings(self.solver) if self.settings is None else self.settings

    def __getstate__(self) -> dict[str, Any]:
        # Factor marginals can be computed again, so they are not pickled.
        return {name: value for name, value in vars(self).items() if name != "factor_marginals"}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON, with None for missing and infinite numbers."""
        return {
            "model": self.graph.name,
            "task": self.task.value,
            "solver": self.solver,
            "status": self.status.value,
            "message": self.message or self.status.advice,
            "log_z": _finite(getattr(self, "log_z", None)),
            "log_z_error": _finite(self.log_z_error),
            "log_score": _finite(getattr(self, "log_score", None)),
            "lower_bound": _finite(self.lower_bound),
            "upper_bound": _finite(self.upper_bound),
            "assignment": self.assignment.tolist() if hasattr(self, "assignment") else None,
            "marginals": [m.tolist() for m in self.marginals] if hasattr(self, "marginals") else None,
            "standard_errors": None if self.standard_errors is None else [m.tolist() for m in self.standard_errors],
            "marginal_errors": None if self.marginal_errors is None else [m.tolist() for m in self.marginal_errors],
            "iterations": self.iterations,
            "seconds": round(self.seconds, 6),
            "stats": {k: _finite(v) if isinstance(v, float) else v for k, v in self.stats.items()},
            "version": self.version,
        }

    def __str__(self) -> str:
        head = f"{self.task} by {self.solver}: {self.status}"
        return ", ".join([head, *(f"{label} {text}" for label, text in self._facts())])

    def __rich__(self) -> RenderableType:
        return terminal_table(f"{self.task} by {self.solver}", self.facts())

    def _repr_html_(self) -> str:
        from equifactor.show.answer_html import answer_html

        return answer_html(self)

    def plot(self, variables: Sequence[int | str] | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw the marginals as bars, with error bars if there are standard errors; draw a grid as an image.

        Args:
            variables: the variables to draw, by number or name; by default the unobserved ones that fit, the most
                uncertain first.
            ax: the axes to draw into; by default a new figure is made. Needs matplotlib.
        """
        from equifactor.show.answer_picture import draw_answer

        return draw_answer(self, variables, ax)

    def facts(self) -> list[tuple[str, str]]:
        """Return the labels and texts of a summary; the last text explains the status."""
        return [("status", str(self.status)), *self._facts(), ("", self.message or self.status.advice)]

    def _facts(self) -> list[tuple[str, str]]:
        rows = [
            (label, f"{value:.6g}")
            for label, name in _NUMBERS.items()
            if (value := getattr(self, name, None)) is not None
        ]
        if self.unjudged:
            rows.append(("error of ln Z", "not known"))
        if self.iterations is not None:
            rows.append(("iterations", str(self.iterations)))
        return [*rows, ("seconds", f"{self.seconds:.3g}")]


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
