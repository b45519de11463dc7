"""`Trajectory`: the distributions of the variables of a dynamic network, slice by slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.base.status import Status
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.questions.frames import DataFrame

_SHOWN_SLICES = 20  # Most slices of a printed table; further ones are counted.


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """The distribution of every variable in each slice.

    `trajectory["rain"]` is an array [T, states], and `trajectory["rain", 3]` a mapping from state to probability.
    """

    marginals: Mapping[str, FloatArray]  # [T, states] by variable
    states: Mapping[str, tuple[int | str, ...]]
    log_z: float  # ln p(observations)
    first: int = 0  # the number of the first slice
    status: Status = Status.EXACT

    def __post_init__(self) -> None:
        if self.status is Status.ZERO_PROBABILITY:
            object.__setattr__(self, "marginals", {})

    def __len__(self) -> int:
        return len(next(iter(self.marginals.values()), ()))

    def since(self, first: int) -> Trajectory:
        """Return the same from slice `first` on."""
        return replace(self, marginals={name: p[first:] for name, p in self.marginals.items()}, first=first)

    def __getitem__(self, key: str | tuple[str, int]) -> Any:
        variable, at = key if isinstance(key, tuple) else (key, None)
        if self.status is Status.ZERO_PROBABILITY:
            raise ModelError("The observations of this sequence are impossible, so nothing has a distribution.")
        if variable not in self.marginals:
            raise ModelError(f"The network has no variable {variable!r}; its variables are {', '.join(self.states)}.")
        values = self.marginals[variable]
        if at is None:
            return values
        if not isinstance(at, (int, np.integer)) or not 0 <= at - self.first < len(values):
            raise ModelError(f"There are slices {self.first} to {self.first + len(values) - 1}, found {at}.")
        return dict(zip(self.states[variable], values[at - self.first].tolist(), strict=True))

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each slice and a column for each state of each variable."""
        from equifactor.questions.frames import data_frame

        columns: dict[str, Any] = {"slice": np.arange(self.first, self.first + len(self))}
        for name, values in self.marginals.items():
            for k, state in enumerate(self.states[name]):
                columns[f"{name} = {state}"] = values[:, k]
        return data_frame(columns)

    def __repr__(self) -> str:
        return f"Trajectory({len(self)} slices of {', '.join(self.marginals)}, ln p {self.log_z:.6g})"

    def __str__(self) -> str:
        if self.status is Status.ZERO_PROBABILITY:
            return "The observations are impossible."
        columns = [
            (f"{name} = {x}", v[:, k]) for name, v in self.marginals.items() for k, x in enumerate(self.states[name])
        ]
        rows = [["slice", *(title for title, _ in columns)]]
        for t in range(min(len(self), _SHOWN_SLICES)):
            rows.append([str(self.first + t), *(shown(float(v[t])) for _, v in columns)])
        return _with_rest(rows, len(self))


def _with_rest(rows: list[list[str]], slices: int) -> str:
    """Return a table of the first slices, and the number of the others."""
    text = aligned(rows, right=range(len(rows[0])), rule=True)
    more = slices - _SHOWN_SLICES
    return text if more <= 0 else f"{text}\n.. and {more:,} more"


@dataclass(frozen=True, eq=False)
class StateSequence:
    """The most probable states of all variables, slice by slice, given the observations.

    `sequence["rain"]` is the list of its states.
    """

    states: Mapping[str, list[int | str]] = field(repr=False)
    numbers: IntArray = field(repr=False)  # [T, V]
    log_score: float  # ln p(these states and the observations)
    status: Status = Status.OPTIMAL

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, variable: str) -> list[int | str]:
        if self.status is Status.ZERO_PROBABILITY:
            raise ModelError("The observations of this sequence are impossible, so it has no states.")
        if variable not in self.states:
            raise ModelError(f"The network has no variable {variable!r}; its variables are {', '.join(self.states)}.")
        return self.states[variable]

    def __str__(self) -> str:
        if self.status is Status.ZERO_PROBABILITY:
            return "The observations are impossible."
        rows = zip(*(own[:_SHOWN_SLICES] for own in self.states.values()), strict=True)
        return _with_rest([["slice", *self.states], *([str(t), *map(str, x)] for t, x in enumerate(rows))], len(self))

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each slice and a column for each variable."""
        from equifactor.questions.frames import data_frame

        return data_frame({"slice": np.arange(len(self)), **self.states})
