"""Data of any form as one array of state numbers: frames, arrays, lists of dicts and `.csv` files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.formats.csv_columns import read_csv
from equifactor.graph.reading.inputs import as_list
from equifactor.graph.reading.state_rows import Column, columns_of, is_frame, read_columns, read_numbers
from equifactor.questions.samples import Samples

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.reading.inputs import Variable

_FORMS = (
    "a pandas frame, an array with one column per variable, a list of dicts, a mapping from variable to column, or the "
    "path of a .csv file"
)


@dataclass(frozen=True, eq=False)
class DataRows:
    """N rows of observed states."""

    states: IntArray  # [N, V] the number of the state, -1 for a missing value; columns are contiguous
    weights: FloatArray  # [N] the number of equal rows that each row represents

    @property
    def num_rows(self) -> int:
        """N, the number of rows."""
        return len(self.states)

    @cached_property
    def is_missing(self) -> BoolArray:
        """[N, V] whether the value is missing."""
        found: BoolArray = self.states < 0
        return found

    @cached_property
    def hidden(self) -> BoolArray:
        """[V] the variables without any value."""
        return np.asarray(self.is_missing.all(axis=0))

    @cached_property
    def has_gaps(self) -> BoolArray:
        """[V] the variables with at least one missing value."""
        return np.asarray(self.is_missing.any(axis=0))

    @cached_property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return not self.is_missing.any()

    def take(self, rows: IntArray) -> DataRows:
        """Return some rows, in the given order."""
        return DataRows(np.asfortranarray(self.states[rows]), self.weights[rows])

    @cached_property
    def merged(self) -> DataRows:
        """The distinct rows, each with the total weight of all rows equal to it."""
        small = np.ascontiguousarray(self.states, np.int32 if self.states.max(initial=0) > 2**15 - 1 else np.int16)
        if not small.shape[1]:
            return DataRows(self.states[:1], np.array([self.weights.sum()]))
        rows = small.view(np.dtype((np.void, small.itemsize * small.shape[1]))).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        return DataRows(np.asfortranarray(self.states[first]), np.bincount(inverse.ravel(), self.weights).astype(float))


def read_data(graph: FactorGraph, data: object, hidden: Iterable[Variable] | None = None) -> DataRows:
    """Read the data that a user gives, and check them against the names of variables and states.

    Args:
        graph: the structure, whose variables are the columns.
        data: see `fit`.
        hidden: variables that have no values on purpose; None allows every variable without a column to be hidden.

    Raises `ModelError` with row and column, or `FormatError` with the line of a file.
    """
    if isinstance(data, DataRows):
        rows = data
        if rows.states.shape[1] != graph.num_vars:
            raise ModelError(
                f"The data have {rows.states.shape[1]} columns, but the model has {graph.num_vars} variables."
            )
    elif (array := _as_array(data)) is not None:
        rows = _of_states(np.asfortranarray(read_numbers(graph.structure, array, "data")))
    else:
        rows = _of_states(read_columns(graph.structure, _columns(data), len(data) if is_frame(data) else 0))  # type: ignore[arg-type]
    if not rows.num_rows:
        raise ModelError("The data have no rows. At least one row is needed.")
    if rows.hidden.all() and graph.num_vars:
        raise ModelError("The data have no value of any variable, so nothing can be learned from them.")
    if hidden is not None:
        _check_hidden(graph, rows, hidden)
    return rows


def _of_states(states: IntArray) -> DataRows:
    return DataRows(states, np.ones(len(states)))


# ---- arrays of state numbers ----------------------------------------------------------------------------


def _as_array(data: object) -> np.ndarray | None:
    """Return state numbers [N, V] from an array, a tensor, samples or a list of rows; None for other data."""
    if isinstance(data, Samples):
        return data.states
    if isinstance(data, np.ndarray) or (hasattr(data, "__array__") and not hasattr(data, "columns")):
        return _asked(data)
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, (list, tuple, np.ndarray)) for row in data):
        if len({len(row) for row in data}) > 1:
            raise ModelError("The rows of the data have different lengths. Every row needs one value per variable.")
        return _asked(data)
    return None


def _asked(data: Any) -> np.ndarray:
    """Return data as an array; a foreign object may raise any error when numpy asks it for numbers."""
    try:
        return np.asanyarray(data)
    except Exception as error:
        raise ModelError(
            f"The data {brief(data)} cannot be read as an array of states [N, V]: {brief(error)}."
        ) from None


# ---- named columns --------------------------------------------------------------------------------------


def _columns(data: Any) -> list[Column]:
    """Return the columns of a file, a frame, a mapping or a list of dicts."""
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        return read_csv(data)
    if is_frame(data):
        return columns_of(data, "data")
    if isinstance(data, Mapping):
        return [Column(name, _values(name, values)) for name, values in data.items()]
    rows = as_list(data)
    if rows is None or not all(isinstance(row, Mapping) for row in rows):
        raise ModelError(f"Data must be {_FORMS}; found {brief(data)}.")
    names: dict[Any, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return [Column(name, [row.get(name) for row in rows]) for name in names]


def _values(name: object, values: object) -> Sequence[Any]:
    found = values if hasattr(values, "dtype") else as_list(values)
    if found is None or getattr(found, "ndim", 1) != 1:
        raise ModelError(f"Column {name} of the data must be a list of values, found {brief(values)}.")
    return found  # type: ignore[return-value]


def _check_hidden(graph: FactorGraph, rows: DataRows, hidden: Iterable[Variable]) -> None:
    given = as_list(hidden)
    if given is None:
        raise ModelError(f"hidden must be a list of variables, found {brief(hidden)}.")
    wanted = {graph.variable(i) for i in given}
    found = set(np.flatnonzero(rows.hidden).tolist())
    name = graph.structure.variable_name
    if wanted - found:
        raise ModelError(f"Variable {name(min(wanted - found))} is listed in hidden, but the data have values of it.")
    if found - wanted:
        raise ModelError(
            f"Variable {name(min(found - wanted))} has no values in the data and is not listed in hidden. List the "
            "variable in hidden, or give its column."
        )
