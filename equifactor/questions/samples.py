"""What `sample` returns: states of all variables, drawn from a model."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.status import Status
from equifactor.kernels.pointers import picked, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph

_ROWS = 2**14  # Rows that are turned into names at a time. Chosen by hand.
_SHOWN_COLUMNS = 12  # Columns that a notebook shows. Chosen by hand.


def _csv_line(cells: Iterable[Any]) -> str:
    """Return one line of a .csv table."""
    piece = io.StringIO()
    csv.writer(piece, lineterminator="\n").writerow(cells)
    return piece.getvalue()


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
        yield _csv_line(self.names)
        s = self.graph.structure
        if not s.num_vars:
            yield "\n" * len(self)
            return
        cells = []
        for i in range(s.num_vars):
            end = "\n" if i == s.num_vars - 1 else ","
            alone = s.num_vars == 1  # A line with one empty cell is quoted.
            cells += [(_csv_line([x]) if alone else _csv_line([x, ""])[:-2] + end).encode() for x in self._cells_of(i)]
        ptr = ptr_of([len(cell) for cell in cells])
        text = np.frombuffer(b"".join(cells), np.uint8)
        width = int(ptr[1]) if (np.diff(ptr) == ptr[1]).all() else None
        for first in range(0, len(self), _ROWS):
            cell = (self.states[first : first + _ROWS] + s.state_ptr[:-1]).ravel()
            found = text.reshape(-1, width)[cell] if width else text[picked(ptr, cell)[1]]
            yield found.tobytes().decode()

    def _cells_of(self, variable: int) -> list[Any]:
        """Return the states of a variable: their names, or their numbers if they have no names."""
        s = self.graph.structure
        own = s.state_names[variable] if s.state_names else None
        return list(own) if own else list(range(int(s.card[variable])))

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import MOST_ROWS, rows_table

        shown = self.names[:_SHOWN_COLUMNS]
        columns = self.named_columns(0, MOST_ROWS)[: len(shown)]
        more = f", {len(shown)} of {len(self.names):,} variables" if len(shown) < len(self.names) else ""
        return rows_table(f"{self}{more}", shown, zip(*columns, strict=True), count=len(self))

    def __str__(self) -> str:
        return f"{len(self):,} samples by {self.solver}: {self.status}, seconds {self.seconds:.3g}"
