"""What `k_best` returns: the best assignments in order, with their scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from equifactor.base.status import Status
from equifactor.show.graph_display import counted
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.questions.frames import DataFrame

_SHOWN_ROWS, _SHOWN_COLUMNS = 40, 8  # Most rows, and most variables, of a printed table. Chosen by hand.


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking(Sequence["dict[int | str, int | str]"]):
    """The k best assignments, the best first: `ranking[0]` is the state of every variable in the most probable one.

    With status `optimal` the list is proven: no assignment that is missing has a higher score than the last one. With
    another status, this holds for the first `proven` rows. A list that is shorter than k holds all possible
    assignments. With `apart` above 1, every row is the best assignment at this distance from all rows before it.
    """

    graph: FactorGraph = field(repr=False)
    states: IntArray = field(repr=False)  # [n, V] the state of every variable, observed ones included
    log_scores: FloatArray  # [n]
    status: Status
    solver: str  # the method that found them
    proven: int  # the number of rows, from the first on, that are proven to be in their place
    ties: int = 0  # further assignments with the score of the last row; at least this many if not `ties_counted`
    ties_counted: bool = False  # whether `ties` is the exact number
    apart: int = 1  # variables in which every two rows differ at least
    message: str = ""
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.states)

    @overload
    def __getitem__(self, n: int) -> dict[int | str, int | str]: ...
    @overload
    def __getitem__(self, n: slice) -> list[dict[int | str, int | str]]: ...
    def __getitem__(self, n: int | slice) -> Any:
        if isinstance(n, slice):
            return [self[k] for k in range(*n.indices(len(self)))]
        s = self.graph.structure
        return {name: s.states_of(i)[x] for i, (name, x) in enumerate(zip(self._names, self.states[n], strict=True))}

    @cached_property
    def log_z(self) -> float | None:
        """ln Z, if exact elimination fits in memory; computed when it is first asked for."""
        from equifactor.questions.solve import solve

        if self.status is Status.ZERO_PROBABILITY:
            return None
        found = solve(self.graph, "PR", "exact")
        return found.log_z if found.status is Status.EXACT else None

    @property
    def probabilities(self) -> FloatArray | None:
        """The probability [n] of each assignment given the evidence; None if ln Z is not known."""
        return None if self.log_z is None else np.exp(self.log_scores - self.log_z)

    @property
    def guarantee(self) -> str:
        """What is proven about the list, in a sentence."""
        if self.status is Status.ZERO_PROBABILITY:
            return Status.ZERO_PROBABILITY.advice
        if not len(self) and not self.status.solved:
            return f"No assignment was found: {self.status}. {self.message}".strip()
        if self.proven < len(self):
            first = f"Proven for the first {self.proven} of {len(self)} assignments."
            return f"{first if self.proven else 'It is not proven that no other is better.'} {self.message}".strip()
        if self.apart > 1:
            return f"Each is the best assignment that differs from all before it in {self.apart} variables or more."
        tied = f"{self.ties:,}" if self.ties_counted else f"at least {self.ties:,}" if self.ties else ""
        more = f" Further assignments with the score of the last one: {tied}." if tied and self.ties else ""
        return f"No other assignment has a higher score than the last one.{more} {self.message}".strip()

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame: `rank`, `log_score`, `probability` if it is known, and a column per variable."""
        from equifactor.questions.frames import data_frame

        columns: dict[Any, Any] = {"rank": np.arange(1, len(self) + 1), "log_score": np.array(self.log_scores)}
        if self.probabilities is not None:
            columns["probability"] = self.probabilities
        s = self.graph.structure
        for i, name in enumerate(self._names):
            columns[name] = [s.states_of(i)[x] for x in self.states[:, i].tolist()]
        return data_frame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the list as plain values for JSON."""
        p = self.probabilities
        return {
            "model": self.graph.name,
            "task": "MAP",
            "k": len(self),
            "apart": self.apart,
            "solver": self.solver,
            "status": self.status.value,
            "message": self.guarantee,
            "proven": self.proven,
            "ties": self.ties,
            "ties_counted": self.ties_counted,
            "log_z": self.log_z,
            "log_scores": self.log_scores.tolist(),
            "probabilities": None if p is None else p.tolist(),
            "assignments": self.states.tolist(),
            "seconds": round(self.seconds, 6),
        }

    def table(self, variables: Sequence[int] | None = None, rows: int | None = None) -> str:
        """Return a table of some variables; by default of the first ones in which the assignments differ."""
        chosen = self.shown_variables(_SHOWN_COLUMNS) if variables is None else list(variables)
        titles = self._titles(chosen)
        return aligned([titles, *self._cells(chosen, rows)], right=range(len(titles) - len(chosen)), rule=True)

    def __str__(self) -> str:
        more, columns = len(self) - _SHOWN_ROWS, self.columns_shown(_SHOWN_COLUMNS)
        told = f"{self.guarantee} {columns}".strip()
        lines = [f"{len(self):,} best assignments by {self.solver}: {self.status}. {told}"]
        if len(self):
            lines.append(self.table(rows=_SHOWN_ROWS))
        if more > 0:
            lines.append(f".. and {more:,} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Ranking({len(self)} assignments, {self.status})"

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import MOST_ROWS, rows_table

        chosen = self.shown_variables(_SHOWN_COLUMNS)
        titles = self._titles(chosen)
        right = list(range(len(titles) - len(chosen)))
        told = f"{self.guarantee} {self.columns_shown(_SHOWN_COLUMNS)}".strip()
        return rows_table(told, titles, self._cells(chosen, MOST_ROWS), count=len(self), right=right)

    @property
    def _names(self) -> Sequence[int | str]:
        return self.graph.structure.variable_names or range(self.graph.num_vars)

    def shown_variables(self, most: int) -> list[int]:
        """Return the first variables in which the assignments differ, or the first ones if they do not differ."""
        differs = self._differing
        return (differs if len(differs) else self.graph.free_vars)[:most].tolist()

    def columns_shown(self, most: int) -> str:
        """Return a sentence about the variables that a table with at most `most` of them leaves out; empty if none."""
        count, free = len(self._differing), len(self.graph.free_vars)
        shown = min(count or free, most)
        if not len(self) or shown == free:
            return ""
        first = "the" if shown == (count or free) else f"the first {shown} of the"
        differ = "in which they differ" if count else "of the model"
        return f"The columns are {first} {counted(count or free, 'variable')} {differ}."

    @property
    def _differing(self) -> IntArray:
        """The variables in which the assignments differ."""
        return np.flatnonzero((self.states != self.states[:1]).any(axis=0)) if len(self) else np.zeros(0, np.int64)

    def _titles(self, variables: Sequence[int]) -> list[str]:
        known = [] if self.probabilities is None else ["probability"]
        return ["rank", "log score", *known, *(str(self._names[i]) for i in variables)]

    def _cells(self, variables: Sequence[int], rows: int | None) -> Iterator[list[str]]:
        s, p = self.graph.structure, self.probabilities
        for n, x in enumerate(self.states[:rows].tolist()):
            known = [] if p is None else [shown(float(p[n]))]
            score = float(self.log_scores[n])
            yield [str(n + 1), f"{score:.6f}" if math.isfinite(score) else str(score), *known] + [
                str(s.states_of(i)[x[i]]) for i in variables
            ]
