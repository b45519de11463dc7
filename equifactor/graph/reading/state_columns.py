"""One column of observed states: its values as a user has them, and the numbers of the states they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError, ModelError, brief
from equifactor.base.options import did_you_mean
from equifactor.graph.reading.inputs import listed
from equifactor.graph.reading.observations import is_missing, state_number

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure

_MISSING_TEXT = frozenset(("", "NaN", "nan", "NA", "N/A", "None", "null", "?"))  # in files, unless a state is so called
_SMALL_RANGE = 2**16  # whole numbers in a range below this are told apart by counting


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
    if is_missing(value) or (isinstance(value, str) and value == ""):
        return -1
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)  # pandas writes whole numbers beside missing values as floats
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
    near = did_you_mean(text, names)
    raise ModelError(
        f"variable {s.variable_name(variable)} has no state {text!r}; {near}its states are {listed(names)}",
        variable=variable,
    )


def _whole(text: str) -> int | None:
    """The whole number that a text is, as `1` or `1.0`; None where it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None
