"""`Joint`: the distribution of a few variables together, with named axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, brief
from equifactor.base.status import Status
from equifactor.graph.reading import observations
from equifactor.graph.reading.inputs import variable_number
from equifactor.graph.structure import Structure
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from equifactor.base.typing import FloatArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.questions.frames import DataFrame

_SHOWN_ROWS = 60  # Most rows of a printed table; further rows are counted. Chosen by hand.


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """The probabilities of all combinations of states of some variables; one axis per variable, in the requested order.

    `joint["yes", "wet"]` is the probability of one combination. `joint[{"rain": "yes"}]` is the probability of an
    event: the sum over all variables that are not given. States are read like evidence, by name or by number, and never
    guessed.

    Examples:
        >>> from equifactor import FactorGraph, solve
        >>> g = FactorGraph({"rain": ["no", "yes"], "grass": ["dry", "wet"]}, [
        ...     (["rain"], [0.8, 0.2]), (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]])])
        >>> joint = solve(g, "MAR", "exact").joint("grass", "rain")
        >>> print(joint)
        grass  rain  probability
        ------------------------
        dry    no       0.720000
        dry    yes      0.010000
        wet    no       0.080000
        wet    yes      0.190000
        >>> round(float(joint["wet", "yes"]), 6), round(joint[{"grass": "wet"}], 6)
        (0.19, 0.27)
    """

    values: FloatArray  # [states of the first variable, states of the second, ..] sums to 1
    structure: Structure = field(repr=False)  # structure of these variables alone: their states and names
    numbers: tuple[int, ...]  # numbers of the variables in their graph
    status: Status  # status of the answer that it came from
    method: str  # how it was found, in words

    @property
    def variables(self) -> tuple[int | str, ...]:
        """The variables by name, or by number if they have no names."""
        return self.numbers if self.structure.variable_names is None else self.structure.variable_names

    @property
    def states(self) -> tuple[tuple[int | str, ...], ...]:
        """The states of each variable by name, or by number if they have no names."""
        return tuple(tuple(self.structure.states_of(n)) for n in range(self.structure.num_vars))

    def __getitem__(self, states: Any) -> float:
        if isinstance(states, Mapping):
            return float(self.values[self._slices(states)].sum())
        given = states if isinstance(states, tuple) else (states,)
        if len(given) != len(self.numbers):
            raise ModelError(
                f"Give one state for each of {self._names()}, not {len(given)}. A mapping such as "
                f"{{{self.variables[0]!r}: {self.states[0][0]!r}}} may leave some out."
                if self.numbers
                else f"A joint of no variables takes no states, but got {len(given)}."
            )
        at = tuple(observations.state_number(self.structure, n, state) for n, state in enumerate(given))
        return float(self.values[at])

    def marginal(self, *variables: Variable) -> Joint:
        """Return the joint of fewer variables: the others are summed out."""
        axes = [self._axis(variable) for variable in variables]
        _check_once(axes, variables)
        others = tuple(n for n in range(self.values.ndim) if n not in axes)
        left = [n for n in range(self.values.ndim) if n in axes]
        summed = self.values.sum(axis=others) if others else self.values
        return self._of_axes(axes, summed.transpose([left.index(n) for n in axes]))

    def given(self, states: Mapping[Any, Any]) -> Joint:
        """Return the joint of the other variables given states of some; `ModelError` if these have probability 0."""
        if not observations.is_mapping(states):
            raise ModelError(f"Expected a mapping from variable to state, found {brief(states)}.")
        slices = self._slices(states)
        axes = [n for n, at in enumerate(slices) if isinstance(at, slice)]
        part = self.values[slices]
        total = part.sum()
        if not total > 0:
            raise ModelError(f"{dict(states)} has probability 0, so there is no distribution given these states.")
        return self._of_axes(axes, part / total)

    def mutual_information(self) -> float:
        """Return the mutual information of two variables in nats, or the total correlation of more than two.

        It is the divergence of the joint from the product of its marginals, and 0 if the variables are independent.
        """
        ndim = self.values.ndim
        single = [self.values.sum(axis=tuple(m for m in range(ndim) if m != n)) for n in range(ndim)]
        return max(0.0, sum(map(entropy_of, single)) - entropy_of(self.values))

    def entropy(self) -> float:
        """Return the entropy of the combination of states, in nats."""
        return entropy_of(self.values)

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a column per variable, `probability` last, and a row per combination."""
        from equifactor.questions.frames import data_frame

        if "probability" in self.variables:
            raise ModelError("A variable is called 'probability', like the column of the numbers. Use to_dict().")
        where = np.unravel_index(np.arange(self.values.size), self.values.shape)
        columns = {
            str(v): [own[x] for x in at.tolist()] for v, own, at in zip(self.variables, self.states, where, strict=True)
        }
        return data_frame({**columns, "probability": self.values.ravel()})

    def to_dict(self) -> dict[str, Any]:
        """Return the joint as plain values for JSON."""
        return {
            "variables": list(self.variables),
            "states": [list(own) for own in self.states],
            "probabilities": self.values.tolist(),
            "status": self.status.value,
            "method": self.method,
        }

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.values, dtype, copy=copy)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape)) or "1"
        return f"Joint({self._names()}: {shape}, {self.status}, {self.method})"

    def __str__(self) -> str:
        return self.table(_SHOWN_ROWS)

    @checks_types("most")
    def table(self, most: int | None = None) -> str:
        """Return the combinations and their probabilities as aligned text: all rows, or the first `most`."""
        count = self.values.size if most is None else min(max(most, 0), self.values.size)
        text = aligned(self._cells(count), right=[len(self.numbers)], rule=True)
        return text if count == self.values.size else f"{text}\n.. and {self.values.size - count:,} more"

    def _cells(self, count: int) -> list[list[str]]:
        """Return the titles, and the first `count` combinations with their probabilities."""
        at = np.stack(np.unravel_index(np.arange(count), self.values.shape), axis=1).tolist()
        states, p = self.states, self.values.ravel()[:count].tolist()
        rows = [[*(str(own[x]) for own, x in zip(states, row, strict=True)), shown(p[n])] for n, row in enumerate(at)]
        return [[*map(str, self.variables), "probability"], *rows]

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import MOST_ROWS, rows_table

        titles, *rows = self._cells(min(MOST_ROWS, self.values.size))
        return rows_table("", titles, rows, count=self.values.size, right=[len(self.numbers)])

    def _names(self) -> str:
        return ", ".join(map(str, self.variables))

    def _axis(self, variable: Variable) -> int:
        """Return the axis of a variable, which is named as in its graph."""
        if isinstance(variable, str):
            return variable_number(variable, self.structure.index_of_name, len(self.numbers))
        if str(variable) in self.structure.index_of_name:
            raise ModelError(f"Variable {variable} can be read as a name or as a number. Give the name as text.")
        if not isinstance(variable, (int, np.integer)) or variable not in self.numbers:
            raise ModelError(f"This joint has no variable {brief(variable)}. It is over {self._names()}.")
        return self.numbers.index(variable)

    def _slices(self, states: Mapping[Any, Any]) -> tuple[int | slice, ...]:
        found: list[int | slice] = [slice(None)] * len(self.numbers)
        axes = [self._axis(variable) for variable in states]
        _check_once(axes, tuple(states))
        for n, state in zip(axes, states.values(), strict=True):
            found[n] = observations.state_number(self.structure, n, state)
        return tuple(found)

    def _of_axes(self, axes: list[int], values: FloatArray) -> Joint:
        numbers = tuple(self.numbers[n] for n in axes)
        return Joint(values, part_of(self.structure, axes), numbers, self.status, self.method)


def part_of(structure: Structure, variables: list[int]) -> Structure:
    """Return the structure of some variables, without any factors."""
    names, states = structure.variable_names, structure.state_names
    return Structure.build(
        structure.card[variables],
        [0],
        [],
        variable_names=None if names is None else [names[i] for i in variables],
        state_names=None if states is None else [states[i] for i in variables],
    )


def entropy_of(p: FloatArray) -> float:
    """Return the entropy of a distribution of any shape, in nats."""
    positive = p[p > 0]
    return max(0.0, -float(positive @ np.log(positive)))


def _check_once(axes: list[int], variables: tuple[Any, ...]) -> None:
    for n, axis in enumerate(axes):
        if axis in axes[:n]:
            raise ModelError(f"Variable {variables[n]!r} is given twice. Give it once.")
