"""Rows of observed states, from columns by name or from arrays: data to learn from and evidence for many questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.reading.observations import named
from equifactor.graph.reading.state_rows import Column, encoded

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure


def is_frame(data: object) -> bool:
    """Whether data are a frame, of pandas or another library."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__")


def columns_of(frame: Any, source: str) -> list[Column]:
    """The columns of a frame; each name must be there once."""
    names = list(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ModelError(f"{source}: two columns are called {twice!r}; keep one of them")
    return [Column(name, frame[name], source) for name in names]


def read_columns(s: Structure, columns: list[Column], count: int = 0) -> IntArray:
    """[N, V] the numbers of the states, -1 where there is no value or no column; `count` rows without any column."""
    by_variable: dict[int, Column] = {}
    for column in columns:
        i = _variable(s, column)
        if i in by_variable:
            raise ModelError(
                f"{column.source}: two columns, {by_variable[i].name!r} and {column.name!r}, are of variable "
                f"{s.variable_name(i)}; keep one of them"
            )
        by_variable[i] = column
    lengths = {len(column.values) for column in columns}
    if len(lengths) > 1:
        source = columns[0].source
        raise ModelError(f"{source}: the columns have different lengths, from {min(lengths)} to {max(lengths)} rows")
    states = np.full((lengths.pop() if lengths else count, s.num_vars), -1, np.int64, order="F")
    for i, column in by_variable.items():
        states[:, i] = encoded(s, i, column)
    return states


def _variable(s: Structure, column: Column) -> int:
    """The variable of a column, named as evidence is; in files numbers are text as well."""
    name = column.name
    if isinstance(name, str) and s.variable_names is None and name.isascii() and name.isdigit() and len(name) < 18:
        name = int(name)
    try:
        return named(s, name)
    except ModelError as error:
        index = " (an index, which pandas leaves out by to_csv(.., index=False))" if name in ("", "Unnamed: 0") else ""
        raise ModelError(
            f"{column.source}: column {column.name!r}{index}: {error}; rename it or leave it out"
        ) from None


def read_numbers(s: Structure, array: np.ndarray, source: str) -> IntArray:
    """[N, V] the states in an array of their numbers, -1 or NaN where there is none."""
    if isinstance(array, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(array), -1, array.data)
    if array.ndim != 2 or array.shape[1] != s.num_vars:
        raise ModelError(
            f"{source}: an array of states has a row per case and a column per variable, in their order: expected "
            f"shape [N, {s.num_vars}], found {array.shape}; give a frame, or mappings by name, to leave variables out"
        )
    if array.dtype.kind in "bOUS":
        columns = [Column(s.variable_name(i), array[:, i].tolist(), source) for i in range(s.num_vars)]
        states = np.empty(array.shape, np.int64, order="F")
        for i, column in enumerate(columns):
            states[:, i] = encoded(s, i, column)
        return states
    if array.dtype.kind not in "iuf":
        raise ModelError(f"{source}: an array holds numbers or names of states, found values of type {array.dtype}")
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        odd = ~missing & (array != np.round(array))
        if odd.any():
            n, i = (int(k) for k in np.argwhere(odd)[0])
            raise ModelError(f"{source}, row {n}, column {s.variable_name(i)}: expected a state, found {array[n, i]:g}")
        array = np.where(missing, -1, array)
    low = array.min(axis=0) if len(array) else s.card * 0
    if (low < -1).any() or (len(array) and (array.max(axis=0) >= s.card).any()):
        n, i = (int(k) for k in np.argwhere((array < -1) | (array >= s.card))[0])
        raise ModelError(
            f"{source}, row {n}, column {s.variable_name(i)}: expected a state from 0 to {s.card[i] - 1}, or -1 where "
            f"there is none, found {array[n, i]:g}",
            variable=i,
        )
    return array.astype(np.int64, copy=False)
