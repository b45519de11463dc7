"""What every way of fitting shares: what it is given, and what it gives back."""

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
    from equifactor.learning.fitting.data_table import DataTable


@dataclass(frozen=True, kw_only=True)
class FitContext(RunContext):
    """What a fit is given in addition to the graph, the data and the settings of its method."""

    validation: DataTable | None = None  # rows that are not fitted; a method that iterates stops early by them
    tied: tuple[tuple[int, ...], ...] = ()  # groups of factors that share one table, each of at least two
    fixed: frozenset[int] = frozenset()  # factors that stay as they are
    checkpoint: PathLike | None = None  # a file to go on from where it exists, and to keep the progress in


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A graph with learned potentials, how well it explains the data, and how the run went."""

    graph: FactorGraph = field(repr=False)
    method: str  # the text form of the method with its settings
    status: Status
    message: str = ""  # sentences beyond the status, where there is something to say
    log_likelihood: float | None = None  # the mean over the rows that were fitted, None where it is not known
    validation_log_likelihood: float | None = None  # the same over the rows of validation
    history: tuple[dict[str, Any], ...] = field(default=(), repr=False)  # one entry per iteration
    num_rows: float = 0.0  # the sum of the weights of the rows that were fitted
    seconds: float = 0.0

    @property
    def iterations(self) -> int:
        """The number of entries of the history."""
        return len(self.history)

    def score(self, data: object) -> float:
        """The mean log-likelihood per row of other data, in any form that `fit` takes; summed over missing values."""
        from equifactor.learning.fitting.data_table import read_table
        from equifactor.learning.fitting.row_likelihood import mean_log_likelihood

        return mean_log_likelihood(self.graph, read_table(self.graph, data))

    def __str__(self) -> str:
        return ", ".join(f"{label} {text}".strip() for label, text in self.facts()[:-1])

    def __rich__(self) -> RenderableType:
        return terminal_table(f"Fitted by {self.method}", self.facts())

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import facts_table

        return facts_table(f"Fitted by {self.method}", self.facts())

    def facts(self) -> list[tuple[str, str]]:
        """Labels and texts: what a summary shows, the message last."""
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
    """A way of fitting; its fields are its settings, made by `option`, and are checked when it is made."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line that says what it is for

    def __post_init__(self) -> None:
        check_options(self)

    def __str__(self) -> str:
        return format_method(self)

    @abstractmethod
    def fit(self, graph: FactorGraph, table: DataTable, context: FitContext) -> Fitted:
        """The graph with potentials that explain the table.

        Args:
            graph: the structure; its potentials are the start where the method needs one, and else ignored.
            table: the rows with their weights, -1 where a value is missing.
            context: clock, seed, validation, ties and so on.
        """
