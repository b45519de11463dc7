"""`ConditionalTable`: the distribution of one variable given its parents, with the names of rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.reading import observations
from equifactor.graph.structure import Structure
from equifactor.show.html_tables import MOST_ROWS, rows_table
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from equifactor.base.typing import FloatArray
    from equifactor.questions.frames import DataFrame

_SHOWN_ROWS = 60  # Most rows of a printed table; further rows are counted. Chosen by hand.


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalTable:
    """The probabilities of a variable for every combination of states of its parents.

    `table[{"rain": "yes", "sprinkler": "on"}]` is one row, as a mapping from state to probability. `numpy.asarray`
    gives the numbers [*parents, states of the variable].
    """

    values: FloatArray  # [*states of the parents, states of the variable]; the sum over the last axis is 1
    structure: Structure = field(repr=False)  # of the parents and, last, the variable: their states and names
    names: tuple[int | str, ...]  # of the parents and, last, the variable

    @property
    def variable(self) -> int | str:
        """The variable whose distribution this is."""
        return self.names[-1]

    @property
    def parents(self) -> tuple[int | str, ...]:
        """The parents, in the order of the axes."""
        return self.names[:-1]

    @property
    def states(self) -> dict[int | str, tuple[int | str, ...]]:
        """The states of the parents and, last, of the variable."""
        return {name: tuple(self.structure.states_of(n)) for n, name in enumerate(self.names)}

    def __getitem__(self, given: Mapping[Any, Any]) -> dict[int | str, float]:
        if not isinstance(given, Mapping) or set(given) != set(self.parents):
            wanted = ", ".join(f"{p!r}: .." for p in self.parents)
            raise ModelError(
                f"A row of {self.variable} needs a state of each parent, {{{wanted}}}, not {brief(given)}."
            )
        at = tuple(observations.state_number(self.structure, n, given[p]) for n, p in enumerate(self.parents))
        return dict(zip(self.states[self.variable], self.values[at].tolist(), strict=True))

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each combination of parents and a column for each state."""
        from equifactor.questions.frames import data_frame

        rows, states = self._rows(), self.states
        columns: dict[str, Any] = {str(p): [states[p][row[n]] for row in rows] for n, p in enumerate(self.parents)}
        flat = self.values.reshape(len(rows), -1)
        for k, state in enumerate(states[self.variable]):
            columns[f"{self.variable} = {state}"] = flat[:, k]
        return data_frame(columns)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.values, dtype, copy=copy)

    def __repr__(self) -> str:
        given = f" | {', '.join(map(str, self.parents))}" if self.parents else ""
        return f"ConditionalTable({self.variable}{given}: {' x '.join(map(str, self.values.shape))})"

    def __str__(self) -> str:
        rows = self._cells(_SHOWN_ROWS)
        text, count = aligned(rows, right=range(len(self.parents), len(rows[0])), rule=True), self._num_rows
        return text if count < len(rows) else f"{text}\n.. and {count - _SHOWN_ROWS:,} more"

    def _repr_html_(self) -> str:
        titles, *rows = self._cells(MOST_ROWS)
        right = range(len(self.parents), len(titles))
        return rows_table("", titles, rows, count=self._num_rows, right=right)

    @property
    def _num_rows(self) -> int:
        return self.values.size // self.values.shape[-1]

    def _rows(self, most: int | None = None) -> list[list[int]]:
        """Return the states of the parents in each row, or in the first rows."""
        count = self._num_rows if most is None else min(most, self._num_rows)
        where = np.unravel_index(np.arange(count), self.values.shape[:-1]) if self.parents else ()
        return np.stack(where, axis=1).tolist() if self.parents else [[]] * count

    def _cells(self, most: int) -> list[list[str]]:
        rows, states = self._rows(most), self.states
        flat = self.values.reshape(self._num_rows, -1)
        title = [*map(str, self.parents), *(f"{self.variable} = {state}" for state in states[self.variable])]
        body = [
            [*(str(states[p][row[n]]) for n, p in enumerate(self.parents)), *map(shown, flat[k].tolist())]
            for k, row in enumerate(rows)
        ]
        return [title, *body]
