"""One column of data: its values as a user has them, and the numbers of the states they stand for."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import FormatError, ModelError, brief
from equifactor.graph.inputs import listed
from equifactor.graph.observations import state_number
from equifactor.io.files import label, read_bytes, split_name

if TYPE_CHECKING:
    from equifactor.graph.structure import Structure
    from equifactor.io.files import PathLike
    from equifactor.typing import IntArray

_MISSING_TEXT = frozenset(("", "NaN", "nan", "NA", "N/A", "None", "null", "?"))  # in files, unless a state is so called
_SMALL_RANGE = 2**16  # whole numbers in a range below this are told apart by counting
_MISSING_TYPES = frozenset(("NAType", "NaTType"))  # of pandas, which is not imported for them


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one variable, one per row."""

    name: Any
    values: Any  # a list, an array, or a series of pandas or another library
    source: str = "data"
    lines: Sequence[int] | None = None  # of a file, by row; its values are text

    def where(self, row: int) -> str:
        """The place of a value in errors."""
        if self.lines is not None:
            return f"{self.source}:{self.lines[row]}: column {self.name}"
        return f"{self.source}, row {row}, column {self.name}"


def encoded(s: Structure, variable: int, column: Column) -> IntArray:
    """[N] the numbers of the states in a column, -1 where a value is missing."""
    codes, values = _factorised(column)
    read: Callable[[Structure, int, Any], int] = _state_in_file if column.lines is not None else _state
    numbers = np.full(len(values) + 1, -1, np.int64)  # the last one is for values that are missing already
    for k, value in enumerate(values):
        try:
            numbers[k] = read(s, variable, value)
        except ModelError as error:
            row = int(np.argmax(codes == k))
            kind = ModelError if column.lines is None else FormatError
            raise kind(f"{column.where(row)}: {error}") from None
    return numbers[codes]


def _factorised(column: Column) -> tuple[IntArray, list[Any]]:
    """The different values of a column, and for each row which it is, -1 where pandas knows that it is missing."""
    values = column.values
    if hasattr(values, "cat"):  # a categorical column of pandas has counted them already
        return np.asarray(values.cat.codes, np.int64), list(values.cat.categories)
    if getattr(getattr(values, "dtype", None), "kind", "") in "biuf" and hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.dtype.kind in "biuf":  # and not numbers of pandas that may be missing
            return _factorised_numbers(array)
    if hasattr(values, "factorize"):
        if values.dtype != object:  # Text of pandas takes twice the time.
            values = values.astype(object)
        codes, found = values.factorize()
        _check_types(column, found)
        return np.asarray(codes, np.int64), list(found)
    rows = values.tolist() if hasattr(values, "tolist") else values.to_list() if hasattr(values, "to_list") else values
    if column.lines is None:
        _check_types(column, rows)
    try:
        place = {value: k for k, value in enumerate(dict.fromkeys(rows))}
    except TypeError:
        row = next(n for n, v in enumerate(rows) if type(v).__hash__ is None)
        raise ModelError(f"{column.where(row)}: expected a state, found {brief(rows[row])}") from None
    return np.fromiter(map(place.__getitem__, rows), np.int64, len(rows)), list(place)


def _factorised_numbers(array: np.ndarray) -> tuple[IntArray, list[Any]]:
    """The same for numbers; small whole ones need no sorting."""
    if array.dtype.kind in "iu" and len(array):
        low, high = int(array.min()), int(array.max())
        if high - low < _SMALL_RANGE:
            codes = array.astype(np.int64) - low
            present = np.bincount(codes, minlength=high - low + 1) > 0
            return (np.cumsum(present) - 1)[codes], (np.flatnonzero(present) + low).tolist()
    found, codes = np.unique(array, return_inverse=True)
    return codes.ravel(), found.tolist()


def _check_types(column: Column, values: Sequence[Any]) -> None:
    """Refuse True beside 1, which are equal to Python and may be different states to the user."""
    types = set(map(type, values))
    if bool in types and types & {int, float}:
        raise ModelError(
            f"{column.source}: column {column.name} mixes True and False with numbers; give one or the other"
        )


def _state(s: Structure, variable: int, value: Any) -> int:
    """The state of a value in memory, -1 where it is missing; read as evidence is."""
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return -1
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return -1
        if value == int(value) if np.isfinite(value) else False:
            value = int(value)  # pandas writes whole numbers beside missing values as floats
    if isinstance(value, str) and value == "":
        return -1
    return state_number(s, variable, value)


def _state_in_file(s: Structure, variable: int, text: str) -> int:
    """The state of a cell of a file, -1 where it is missing: the name of a state, or its number where it has none."""
    names, text = s.state_names[variable] if s.state_names else None, text.strip()
    if names and text in names:
        return names.index(text)
    if text in _MISSING_TEXT:
        return -1
    number = _whole(text)
    if names is None:
        return state_number(s, variable, text if number is None else number)
    equal = [] if number is None else [k for k, name in enumerate(names) if _whole(name) == number]
    if len(equal) == 1:  # 1.0 is how programs write the state called 1 beside missing values
        return equal[0]
    raise ModelError(
        f"variable {s.variable_name(variable)} has no state {text!r}; its states are {listed(names)}", variable=variable
    )


def _whole(text: str) -> int | None:
    """The whole number that a text is, as `1` or `1.0`; None where it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None


def read_csv(path: PathLike) -> list[Column]:
    """The columns of a `.csv` file (`.tsv`: with tabs) whose first line has the names; `.gz` and `.xz` are unpacked."""
    where, suffix = label(path), split_name(path)[1]
    if suffix not in (".csv", ".tsv", "") and os.fspath(path) != "-":
        raise FormatError(f"{where}: data are read from .csv and .tsv files, found {suffix}")
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: expected text in UTF-8, found other bytes at byte {error.start}") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",", strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if row:  # an empty line is none
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise FormatError(f"{where}:{reader.line_num}: not a table: {error}") from None
    if not rows:
        raise FormatError(f"{where}: expected a line with the names of variables, found an empty file")
    names = [name.strip() for name in rows.pop(0)]
    lines.pop(0)
    _check_rows(where, names, rows, lines)
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return [Column(name, column, where, lines) for name, column in zip(names, columns, strict=True)]


def _check_rows(where: str, names: list[str], rows: list[list[str]], lines: list[int]) -> None:
    if len(names) == 1 and ";" in names[0]:
        raise FormatError(f"{where}:1: expected columns with commas between them, found semicolons")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FormatError(f"{where}:1: two columns are called {twice!r}")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise FormatError(f"{where}:{line}: expected {len(names)} values as in the first line, found {len(row)}")
