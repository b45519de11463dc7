"""Data of any form as one array of state numbers: frames, arrays, lists of dicts and `.csv` files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import ModelError, brief
from equifactor.fitting.data_columns import Column, encoded, read_csv
from equifactor.graph.inputs import as_list, listed
from equifactor.samples import Samples

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.inputs import Variable
    from equifactor.graph.structure import Structure
    from equifactor.typing import BoolArray, FloatArray, IntArray

_FORMS = (
    "a pandas frame, an array with one column per variable, a list of dicts, a mapping from variable to column, or the "
    "path of a .csv file"
)


@dataclass(frozen=True, eq=False)
class DataTable:
    """Rows of observed states."""

    states: IntArray  # [N, V] the number of the state, -1 where it is missing; columns are contiguous
    weights: FloatArray  # [N] how many rows each row stands for

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.states)

    @cached_property
    def is_missing(self) -> BoolArray:
        """[N, V] where there is no value."""
        found: BoolArray = self.states < 0
        return found

    @cached_property
    def hidden(self) -> BoolArray:
        """[V] the variables without any value."""
        return np.asarray(self.is_missing.all(axis=0))

    @cached_property
    def has_gaps(self) -> BoolArray:
        """[V] the variables of which some value is missing."""
        return np.asarray(self.is_missing.any(axis=0))

    @cached_property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return not self.is_missing.any()

    def take(self, rows: IntArray) -> DataTable:
        """Some rows, in the given order."""
        return DataTable(np.asfortranarray(self.states[rows]), self.weights[rows])

    @cached_property
    def merged(self) -> DataTable:
        """The different rows, each with the weight of all that are equal to it."""
        small = np.ascontiguousarray(self.states, np.int32 if self.states.max(initial=0) > 2**15 - 1 else np.int16)
        if not small.shape[1]:
            return DataTable(self.states[:1], np.array([self.weights.sum()]))
        rows = small.view(np.dtype((np.void, small.itemsize * small.shape[1]))).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        return DataTable(
            np.asfortranarray(self.states[first]), np.bincount(inverse.ravel(), self.weights).astype(float)
        )


def read_table(graph: FactorGraph, data: object, hidden: Iterable[Variable] | None = None) -> DataTable:
    """The data that a user gives, checked against the names of variables and states.

    Args:
        graph: the structure, whose variables are the columns.
        data: see `fit`.
        hidden: variables that are meant to have no values; None lets every variable without a column be hidden.

    Raises `ModelError` with row and column, or `FormatError` with the line of a file.
    """
    if isinstance(data, DataTable):
        table = data
        if table.states.shape[1] != graph.num_vars:
            raise ModelError(f"the data have {table.states.shape[1]} columns for {graph.num_vars} variables")
    elif (array := _as_array(data)) is not None:
        table = _table(_read_numbers(graph.structure, array))
    else:
        table = _table(_read_columns(graph.structure, _columns(graph.structure, data)))
    if not table.num_rows:
        raise ModelError("the data have no rows; at least one is needed")
    if hidden is not None:
        _check_hidden(graph, table, hidden)
    return table


def _table(states: IntArray) -> DataTable:
    return DataTable(states, np.ones(len(states)))


# ---- arrays of state numbers ----------------------------------------------------------------------------


def _as_array(data: object) -> np.ndarray | None:
    """The array where the data are one of numbers [N, V], as of `numpy` or `torch`, samples, or a list of rows."""
    if isinstance(data, Samples):
        return data.states
    if isinstance(data, np.ndarray) or (hasattr(data, "__array__") and not hasattr(data, "columns")):
        found = np.asarray(data)
    elif isinstance(data, (list, tuple)) and data and all(isinstance(row, (list, tuple, np.ndarray)) for row in data):
        if len({len(row) for row in data}) > 1:
            raise ModelError("the rows of the data have different lengths")
        found = np.asarray(data)
    else:
        return None
    if isinstance(data, np.ma.MaskedArray):
        found = np.where(np.ma.getmaskarray(data), -1, data.data)
    if found.ndim != 2:
        raise ModelError(
            f"data in an array have one row per case and one column per variable, found shape {found.shape}"
        )
    return found


def _read_numbers(s: Structure, array: np.ndarray) -> IntArray:
    """The state numbers [N, V] of an array, -1 or NaN where a value is missing."""
    if array.shape[1] != s.num_vars:
        raise ModelError(
            f"data in an array have one column per variable, in their order: expected {s.num_vars} columns, found "
            f"{array.shape[1]}; give a frame or a mapping with names where some are hidden"
        )
    if array.dtype.kind not in "iuf":
        if array.dtype.kind in "bOUS":
            columns = [Column(s.variable_name(i), array[:, i].tolist()) for i in range(s.num_vars)]
            return _read_columns(s, columns)
        raise ModelError(f"data in an array are state numbers or names, found values of type {array.dtype}")
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        odd = ~missing & (array != np.round(array))
        if odd.any():
            n, i = (int(k) for k in np.argwhere(odd)[0])
            raise ModelError(f"data, row {n}, column {s.variable_name(i)}: expected a state, found {array[n, i]:g}")
        array = np.where(missing, -1, array)
    wrong = (array < -1) | (array >= s.card)
    if wrong.any():
        n, i = (int(k) for k in np.argwhere(wrong)[0])
        raise ModelError(
            f"data, row {n}, column {s.variable_name(i)}: expected a state from 0 to {s.card[i] - 1}, or -1 where "
            f"it is missing, found {array[n, i]:g}",
            variable=i,
        )
    return np.asfortranarray(array, np.int64)


# ---- named columns --------------------------------------------------------------------------------------


def _columns(s: Structure, data: Any) -> list[Column]:
    """The columns of a file, a frame, a mapping or a list of dicts."""
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        return read_csv(data)
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return [Column(name, data[name]) for name in data.columns]
    if isinstance(data, Mapping):
        return [Column(name, _values(name, values)) for name, values in data.items()]
    rows = as_list(data)
    if rows is None or not all(isinstance(row, Mapping) for row in rows):
        raise ModelError(f"data are {_FORMS}; found {brief(data)}")
    names: dict[Any, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return [Column(name, [row.get(name) for row in rows]) for name in names]


def _values(name: object, values: object) -> Sequence[Any]:
    found = values if hasattr(values, "dtype") else as_list(values)
    if found is None or getattr(found, "ndim", 1) != 1:
        raise ModelError(f"column {name} of the data must be a list of values, found {brief(values)}")
    return found  # type: ignore[return-value]


def _read_columns(s: Structure, columns: list[Column]) -> IntArray:
    """The state numbers [N, V]; variables without a column are missing in every row."""
    by_variable: dict[int, Column] = {}
    for column in columns:
        i = _variable(s, column)
        if i in by_variable:
            raise ModelError(f"{column.source}: two columns are called {column.name!r}; keep one of them")
        by_variable[i] = column
    lengths = {len(column.values) for column in columns}
    if len(lengths) > 1:
        raise ModelError(f"the columns of the data have different lengths, from {min(lengths)} to {max(lengths)} rows")
    states = np.full((lengths.pop() if lengths else 0, s.num_vars), -1, np.int64, order="F")
    for i, column in by_variable.items():
        states[:, i] = encoded(s, i, column)
    return states


def _variable(s: Structure, column: Column) -> int:
    """The variable of a column; text is a name, and a whole number counts where variables have no names."""
    name = column.name
    if s.variable_names is None:
        text = str(name)
        if text.isascii() and text.isdigit() and int(text) < s.num_vars:
            return int(text)
        have = f"they have no names, and columns are called 0 to {s.num_vars - 1}"
    else:
        if isinstance(name, str) and name in s.index_of_name:
            return s.index_of_name[name]
        have = f"they are {listed(s.variable_names)}"
    index = " (an index, which pandas leaves out by to_csv(.., index=False))" if name in ("", "Unnamed: 0") else ""
    raise ModelError(
        f"{column.source}: column {name!r}{index} is none of the variables of the structure: {have}; rename it or "
        "leave it out"
    )


def _check_hidden(graph: FactorGraph, table: DataTable, hidden: Iterable[Variable]) -> None:
    given = as_list(hidden)
    if given is None:
        raise ModelError(f"hidden is a list of variables, found {brief(hidden)}")
    wanted = {graph.variable(i) for i in given}
    found = set(np.flatnonzero(table.hidden).tolist())
    name = graph.structure.variable_name
    if wanted - found:
        raise ModelError(f"variable {name(min(wanted - found))} is said to be hidden, but the data have values of it")
    if found - wanted:
        raise ModelError(
            f"variable {name(min(found - wanted))} has no values in the data and is not said to be hidden; name it in "
            "hidden, or give its column"
        )
