"""One column of data: its values as a user has them, and the numbers of the states they stand for."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
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
_CSV_BLOCK = 1_000  # rows of a file that are turned into numbers at a time
_SMALL_RANGE = 2**16  # whole numbers in a range below this are told apart by counting
_MISSING_TYPES = frozenset(("NAType", "NaTType"))  # of pandas, which is not imported for them


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one variable, one per row."""

    name: Any
    values: Any  # a list, an array, or a series of pandas or another library
    source: str = "data"
    lines: Sequence[int] | None = None  # of a file, by row
    texts: Sequence[str] | None = None  # of a file: its values are places in this list

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
    if column.texts is not None:
        return values, list(column.texts)
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
    """The columns of a `.csv` file (`.tsv`: with tabs) whose first line has the names; `.gz` and `.xz` are unpacked.

    Rows are turned into numbers block by block, so that a file of a million rows needs little more than its text.
    """
    where, suffix = label(path), split_name(path)[1]
    if suffix not in (".csv", ".tsv", "") and os.fspath(path) != "-":
        raise FormatError(f"{where}: data are read from .csv and .tsv files, found {suffix}")
    text = io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8", newline="")
    reader = csv.reader(text, delimiter="\t" if suffix == ".tsv" else ",", strict=True)
    try:
        names = [name.strip() for name in next(filter(None, reader), [])]
        _check_names(where, names)
        places = [_Numbering() for _ in names]
        codes: list[list[IntArray]] = [[] for _ in names]
        lines: list[int] = []
        while block := [(reader.line_num, row) for row in islice(reader, _CSV_BLOCK)]:
            rows = [row for _, row in block if row]  # an empty line is none
            block_lines = [line for line, row in block if row]
            _check_lengths(where, names, rows, block_lines)
            lines += block_lines
            for place, own, column in zip(places, codes, zip(*rows, strict=True), strict=False):
                own.append(np.fromiter(map(place.__getitem__, column), np.int64, len(column)))
    except csv.Error as error:
        raise FormatError(f"{where}:{reader.line_num}: not a table: {error}") from None
    except UnicodeDecodeError:
        raise FormatError(f"{where}:{reader.line_num + 1}: expected text in UTF-8, found other bytes") from None
    return [
        Column(name, np.concatenate([np.zeros(0, np.int64), *own]), where, lines, list(place))
        for name, place, own in zip(names, places, codes, strict=True)
    ]


class _Numbering(dict[str, int]):
    """Numbers texts 0, 1, .. in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def _check_names(where: str, names: list[str]) -> None:
    if not names:
        raise FormatError(f"{where}: expected a line with the names of variables, found an empty file")
    if len(names) == 1 and ";" in names[0]:
        raise FormatError(f"{where}:1: expected columns with commas between them, found semicolons")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FormatError(f"{where}:1: two columns are called {twice!r}")


def _check_lengths(where: str, names: list[str], rows: list[list[str]], lines: list[int]) -> None:
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise FormatError(f"{where}:{line}: expected {len(names)} values as in the first line, found {len(row)}")
