"""What `sample` returns: states of all variables, drawn from a model."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.status import Status

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph

_ROWS = 2**14  # Rows that are turned into names at a time. Chosen by hand.
_SHOWN_COLUMNS = 12  # Columns that a notebook shows. Chosen by hand.


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Assignments drawn from p(x), or from p(x | evidence).

    With status `exact` the samples are independent and follow the model exactly. With `converged` they are states of
    Markov chains that agree with each other. Neighbouring samples are then not independent, and the message gives the
    number of independent samples that they are worth. Any other status says why samples are missing, or why they
    should not be trusted.
    """

    graph: FactorGraph = field(repr=False)
    states: IntArray = field(repr=False)  # [n, V] the state of every variable, observed ones included
    status: Status
    solver: str
    message: str = ""
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.states)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables; the number of a variable without a name."""
        s = self.graph.structure
        return tuple(s.variable_name(i) for i in range(s.num_vars))

    @checks_types("first", "last")
    def named_columns(self, first: int = 0, last: int | None = None) -> list[list[Any]]:
        """Return the states in rows first:last, a list for each variable, by name if the states have names."""
        names = self.graph.structure.state_names
        part = self.states[first:last]
        columns = []
        for i in range(part.shape[1]):
            own = names[i] if names else None
            columns.append(np.array(own, object)[part[:, i]].tolist() if own else part[:, i].tolist())
        return columns

    def to_frame(self) -> Any:
        """Return a pandas frame with a column per variable, with the names of states if they have names."""
        from equifactor.questions.frames import data_frame

        return data_frame(dict(zip(self.names, self.named_columns(), strict=True)))

    def csv_lines(self) -> Iterator[str]:
        """Yield the samples as text: a line of names, then a line for each sample."""
        for rows in itertools.chain(((self.names,),), self._parts()):
            piece = io.StringIO()
            csv.writer(piece, lineterminator="\n").writerows(rows)
            yield piece.getvalue()

    def _parts(self) -> Iterator[Iterable[tuple[Any, ...]]]:
        for first in range(0, len(self), _ROWS):
            yield zip(*self.named_columns(first, first + _ROWS), strict=True)

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import MOST_ROWS, rows_table

        shown = self.names[:_SHOWN_COLUMNS]
        columns = self.named_columns(0, MOST_ROWS)[: len(shown)]
        more = f", {len(shown)} of {len(self.names):,} variables" if len(shown) < len(self.names) else ""
        return rows_table(f"{self}{more}", shown, zip(*columns, strict=True), count=len(self))

    def __str__(self) -> str:
        return f"{len(self):,} samples by {self.solver}: {self.status}, seconds {self.seconds:.3g}"
