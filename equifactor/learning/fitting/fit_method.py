"""Classes that all methods of fitting share: the context of a run, its result, and the base class of methods."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from equifactor.base.options import check_options, format_method
from equifactor.base.run_context import RunContext
from equifactor.base.status import Status
from equifactor.show.text_tables import terminal_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from equifactor.base.files import PathLike
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.learning.fitting.data_rows import DataRows


@dataclass(frozen=True, kw_only=True)
class FitContext(RunContext):
    """The inputs of a fit other than the graph, the data and the settings of its method."""

    validation: DataRows | None = None  # Rows that are not fitted; EM and gradient methods use them to stop early.
    tied: tuple[tuple[int, ...], ...] = ()  # Groups of at least two factors that share one table.
    fixed: frozenset[int] = frozenset()  # Factors that are not learned.
    checkpoint: PathLike | None = None  # A file for the progress; if it exists, the run continues from it.


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """The result of `fit`: a graph with learned potentials, its likelihoods, and the status of the run."""

    graph: FactorGraph = field(repr=False)
    method: str  # The text form of the method.
    status: Status
    message: str = ""  # Further sentences about the run.
    log_likelihood: float | None = None  # The mean over the fitted rows; None if it is not known.
    validation_log_likelihood: float | None = None  # The mean over the validation rows.
    history: tuple[dict[str, Any], ...] = field(default=(), repr=False)  # One entry for each iteration.
    num_rows: float = 0.0  # The total weight of the fitted rows.
    seconds: float = 0.0

    @property
    def iterations(self) -> int:
        """The number of iterations in the history."""
        return len(self.history)

    def score(self, data: object) -> float:
        """Return the mean log-likelihood per row of other data, in any form that `fit` takes.

        Missing values are summed out.
        """
        from equifactor.learning.fitting.data_rows import read_data
        from equifactor.learning.fitting.row_likelihood import mean_log_likelihood

        return mean_log_likelihood(self.graph, read_data(self.graph, data))

    def __str__(self) -> str:
        return ", ".join(f"{label} {text}".strip() for label, text in self.facts()[:-1])

    def __rich__(self) -> RenderableType:
        return terminal_table(f"Fitted by {self.method}", self.facts())

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import facts_table

        return facts_table(f"Fitted by {self.method}", self.facts())

    def facts(self) -> list[tuple[str, str]]:
        """Return the labels and texts of a summary, with the message last."""
        rows = [("method", self.method), ("status", str(self.status)), ("rows", f"{self.num_rows:,.10g}")]
        for label, value in (
            ("log-likelihood per row", self.log_likelihood),
            ("validation log-likelihood per row", self.validation_log_likelihood),
        ):
            if value is not None:
                rows.append((label, f"{value:.6g}" if math.isfinite(value) else "-inf (a row has probability zero)"))
        if self.history:
            rows.append(("iterations", str(self.iterations)))
        return [*rows, ("seconds", f"{self.seconds:.3g}"), ("", self.message or self.status.advice)]


@dataclass(frozen=True, kw_only=True)
class FitMethod(ABC):
    """A method of fitting. Its fields are its settings, made by `option`, and are checked on creation."""

    name: ClassVar[str]
    summary: ClassVar[str]  # The purpose of the method in one line.

    def __post_init__(self) -> None:
        check_options(self)

    def __str__(self) -> str:
        return format_method(self)

    @abstractmethod
    def fit(self, graph: FactorGraph, data: DataRows, context: FitContext) -> Fitted:
        """Return the graph with potentials that explain the data.

        Args:
            graph: the structure. Its potentials are ignored unless the method starts from them.
            data: the rows with their weights, -1 for a missing value.
            context: clock, seed, validation, ties and so on.
        """
