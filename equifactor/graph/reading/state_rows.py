"""Readers of rows of observed states: data to learn from, and many sets of evidence on one graph.

Rows come as columns by name (a frame, or a file), as arrays of state numbers, or as mappings by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError, ModelError, brief
from equifactor.base.number_text import finite_number
from equifactor.base.options import did_you_mean
from equifactor.graph.reading import observations
from equifactor.graph.reading.inputs import as_list, listed
from equifactor.graph.reading.observations import (
    StateNumbers,
    by_variable,
    is_missing,
    named,
    names_agree,
    state_number,
)

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure

# The texts that mark a missing value in a file, unless a state has this name.
_MISSING_TEXT = frozenset(("", "NaN", "nan", "NA", "N/A", "None", "null", "?"))
_SMALL_RANGE = 2**16  # Whole numbers in a range below this are counted instead of sorted. Chosen by hand.
_WANTED = "Evidence sets must be a list of mappings from variable to state, a data frame with a column per variable, or"


# ---- one column -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one variable, one per row."""

    name: Any
    values: Any  # a list, an array, or a series of pandas or another library
    source: str = "data"
    lines: Sequence[int] | None = None  # of a file, by row
    texts: Sequence[str] | None = None  # of a file: its values are places in this list

    def where(self, row: int) -> str:
        """Return the place of a value in errors."""
        if self.lines is not None:
            return f"{self.source}:{self.lines[row]}: column {self.name}"
        return f"{self.source}, row {row}, column {self.name}"


def encoded(s: Structure, variable: int, column: Column, by_name: bool = False) -> IntArray:
    """Return [N] the numbers of the states in a column, -1 where a value is missing.

    `by_name` tells that numbers in the table of the column are names of states.
    """
    codes, values = _factorised(column)
    read: Callable[[Structure, int, Any], int]
    read = _state_in_file if column.lines is not None else _reader_of(s, variable, values, by_name)
    numbers = np.full(len(values) + 1, -1, np.int64)  # the last one is for values that are missing already
    for k, value in enumerate(values):
        try:
            numbers[k] = read(s, variable, value)
        except ModelError as error:
            row = int(np.argmax(codes == k))
            kind = ModelError if column.lines is None else FormatError
            raise kind(f"{column.where(row)}: {error}") from None
    _check_missing_values(s, variable, column, codes, values)
    return numbers[codes]


def _check_missing_values(s: Structure, variable: int, column: Column, codes: IntArray, values: list[Any]) -> None:
    """Refuse missing values beside names of states if pandas reads one of these names as a missing value."""
    if column.lines is not None or observations.state_like_missing(s, variable) is None:
        return
    marks = [k for k, value in enumerate(values) if value is not None and is_missing(value)]
    if len(marks) < len(values) and not any(isinstance(value, str) for value in values):
        return
    missing = np.isin(codes, [-1, *marks])
    if missing.any():
        error = observations.ambiguous_missing(s, variable)
        raise ModelError(f"{column.where(int(np.argmax(missing)))}: {error}", variable=variable)


def _factorised(column: Column) -> tuple[IntArray, list[Any]]:
    """Return the different values of a column and the place of each row's value, -1 if pandas marks it as missing."""
    values = column.values
    if column.texts is not None:
        return values, list(column.texts)
    if hasattr(values, "cat"):  # a categorical column of pandas is factorised already
        return np.asarray(values.cat.codes, np.int64), list(values.cat.categories)
    if getattr(getattr(values, "dtype", None), "kind", "") in "biuf" and hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.dtype.kind in "biuf":  # pandas numbers that may be missing become an array of objects
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
        raise ModelError(f"{column.where(row)}: expected a state, found {brief(rows[row])}.") from None
    return np.fromiter(map(place.__getitem__, rows), np.int64, len(rows)), list(place)


def _factorised_numbers(array: np.ndarray) -> tuple[IntArray, list[Any]]:
    """Do the same as `_factorised` for an array of numbers; small whole numbers need no sorting."""
    if array.dtype.kind in "iu" and len(array):
        low, high = int(array.min()), int(array.max())
        if high - low < _SMALL_RANGE:
            codes = array.astype(np.int64) - low
            present = np.bincount(codes, minlength=high - low + 1) > 0
            return (np.cumsum(present) - 1)[codes], (np.flatnonzero(present) + low).tolist()
    found, codes = np.unique(array, return_inverse=True)
    return codes.ravel(), found.tolist()


def _check_types(column: Column, values: Sequence[Any]) -> None:
    """Refuse True and 1 in one column: Python treats them as equal, and the user may mean different states."""
    types = set(map(type, values))
    if bool in types and types & {int, float}:
        raise ModelError(
            f"{column.source}: column {column.name} mixes True and False with numbers. Give one or the other."
        )


def _reader_of(s: Structure, variable: int, values: list[Any], by_name: bool) -> Callable[[Structure, int, Any], int]:
    """Return how to read the values of a column in memory.

    Numbers may be places counted from 0, or names such as "1" and "2", which pandas reads from a file as numbers. They
    are names if the whole table or this column shows it. Otherwise each value must be clear by itself.
    """
    names = s.state_names[variable] if s.state_names else None
    if not names or not (by_name or observations.numbers_are_names(s, {variable: values})):
        return _state
    places = ((x, observations.place_by_name(names, x)) for x in values if observations.is_number(x))
    known = {x: place for x, place in places if place is not None}
    return lambda _s, _variable, value: known[value] if observations.is_number(value) else _state(s, variable, value)


def _state(s: Structure, variable: int, value: Any) -> int:
    """Return the state of a value in memory by the rules of evidence, -1 where the value is missing."""
    if is_missing(value) or (isinstance(value, str) and value == ""):
        return -1
    return state_number(s, variable, value)


def _state_in_file(s: Structure, variable: int, text: str) -> int:
    """Return the state in a cell of a file by its name, or its number if states have no names; -1 if it is missing."""
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
        f"variable {s.variable_name(variable)} has no state {text!r}; {near}its states are {listed(names)}.",
        variable=variable,
    )


def _whole(text: str) -> int | None:
    """Return the whole number that a text such as `1` or `1.0` stands for; None for any other text."""
    value = finite_number(text)
    return int(value) if value is not None and value.is_integer() else None


# ---- rows of a frame or an array --------------------------------------------------------------------------


def is_frame(data: object) -> bool:
    """Return whether data are a frame, of pandas or another library."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__")


def columns_of(frame: Any, source: str) -> list[Column]:
    """Return the columns of a frame; each name must be there once."""
    names = list(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ModelError(f"{source}: two columns are called {twice!r}. Keep one of them.")
    return [Column(name, frame[name], source) for name in names]


def read_columns(s: Structure, columns: list[Column], count: int = 0) -> IntArray:
    """Return [N, V] the state numbers, -1 for a missing value or column; `count` rows if there are no columns."""
    column_of: dict[int, Column] = {}
    for column in columns:
        i = _variable(s, column)
        if i in column_of:
            raise ModelError(
                f"{column.source}: two columns, {column_of[i].name!r} and {column.name!r}, are of variable "
                f"{s.variable_name(i)}. Keep one of them."
            )
        column_of[i] = column
    lengths = {len(column.values) for column in columns}
    if len(lengths) > 1:
        source = columns[0].source
        raise ModelError(f"{source}: the columns have different lengths, from {min(lengths)} to {max(lengths)} rows.")
    states = np.full((lengths.pop() if lengths else count, s.num_vars), -1, np.int64, order="F")
    by_name = _numbers_are_names(s, column_of)
    for i, column in column_of.items():
        states[:, i] = encoded(s, i, column, by_name)
    return states


def _numbers_are_names(s: Structure, columns: dict[int, Column]) -> bool:
    """Return whether the numbers in a frame are names of states. Columns are searched only if names are in doubt."""
    names = s.state_names or ()
    if not any(c.lines is None and names and names[i] and not names_agree(names[i]) for i, c in columns.items()):
        return False
    return observations.numbers_are_names(s, {i: _factorised(c)[1] for i, c in columns.items()})


def _variable(s: Structure, column: Column) -> int:
    """Return the variable of a column by the rules of evidence; files hold the numbers of variables as text."""
    name = column.name
    if isinstance(name, str) and s.variable_names is None and name.isascii() and name.isdigit() and len(name) < 18:
        name = int(name)
    try:
        return named(s, name)
    except ModelError as error:
        index = " (an index, which to_csv(.., index=False) of pandas leaves out)" if name in ("", "Unnamed: 0") else ""
        wanted = "" if s.variable_names else "Columns must be called by the numbers of the variables, counted from 0. "
        raise ModelError(
            f"{column.source}: column {column.name!r}{index}: {error} {wanted}Rename the column or leave it out."
        ) from None


def read_numbers(s: Structure, array: np.ndarray, source: str) -> IntArray:
    """Return [N, V] the states from an array of their numbers, in which -1 or NaN marks a missing state."""
    if isinstance(array, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(array), -1, array.data)
    if array.ndim != 2 or array.shape[1] != s.num_vars:
        raise ModelError(
            f"{source}: an array of states needs a row per case and a column per variable, in their order: expected "
            f"shape [N, {s.num_vars}], found {array.shape}. Pass a frame, or mappings by name, to leave variables out."
        )
    if array.dtype.kind in "bOUS":
        columns = [Column(s.variable_name(i), array[:, i].tolist(), source) for i in range(s.num_vars)]
        states = np.empty(array.shape, np.int64, order="F")
        for i, column in enumerate(columns):
            states[:, i] = encoded(s, i, column)
        return states
    if array.dtype.kind not in "iuf":
        raise ModelError(
            f"{source}: an array must hold numbers or names of states, found values of type {array.dtype}."
        )
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        odd = ~missing & (array != np.round(array))
        if odd.any():
            n, i = (int(k) for k in np.argwhere(odd)[0])
            raise ModelError(
                f"{source}, row {n}, column {s.variable_name(i)}: expected a state, found {array[n, i]:g}."
            )
        array = np.where(missing, -1, array)
    low = array.min(axis=0) if len(array) else s.card * 0
    if (low < -1).any() or (len(array) and (array.max(axis=0) >= s.card).any()):
        n, i = (int(k) for k in np.argwhere((array < -1) | (array >= s.card))[0])
        raise ModelError(
            f"{source}, row {n}, column {s.variable_name(i)}: expected a state from 0 to {s.card[i] - 1}, or -1 for a "
            f"missing one, found {array[n, i]:g}.",
            variable=i,
        )
    return array.astype(np.int64, copy=False)


# ---- sets of evidence -------------------------------------------------------------------------------------


def sets_of(given: Any) -> Any:
    """Return sets of evidence as something that can be read twice: a list, unless it is a frame or an array."""
    whole = isinstance(given, (str, bytes, np.ndarray)) or is_frame(given) or observations.is_mapping(given)
    sets = None if whole else as_list(given)
    return given if sets is None else sets


def states_of_sets(structure: Structure, given: Any) -> IntArray | None:
    """Return [B, V] the observed states of every set, -1 where free; None if some set holds weights.

    Args:
        structure: of the graph.
        given: from `sets_of`. A list of mappings as `FactorGraph.condition` takes them; a frame with a column per
            observed variable, free where a value is missing; or whole numbers [B, V], -1 where free.
    """
    if is_frame(given):
        return np.ascontiguousarray(read_columns(structure, columns_of(given, "evidence"), len(given)))
    if isinstance(given, np.ndarray):
        return np.ascontiguousarray(read_numbers(structure, given, "evidence"))
    if not isinstance(given, list):
        raise ModelError(f"{_WANTED} whole numbers [B, {structure.num_vars}], found {brief(given)}.")
    # Small numbers: fifty sets on a chain of 10^6 variables take 50 MB, not 400.
    states = np.full((len(given), structure.num_vars), -1, np.min_scalar_type(-int(structure.card.max(initial=2))))
    known: dict[Any, tuple[int, int]] = {}
    only_states = True
    by_name = _rows_are_names(structure, given)
    for b, one in enumerate(given):
        try:
            only_states &= _read_set(structure, one, states[b], known, by_name)
        except ModelError as error:
            raise ModelError(f"evidence set {b}: {error}", variable=error.variable) from None
    return states if only_states else None


def _rows_are_names(structure: Structure, given: list[Any]) -> bool | None:
    """Return whether the numbers in rows of one frame are names of states; None if some set is not such a row."""
    if not all(observations.is_mapping(one) and not isinstance(one, Mapping) for one in given):
        return None
    values: dict[int, list[Any]] = {}
    for b, one in enumerate(given):
        try:
            found = by_variable(structure, one, "evidence", by_name=False)
        except ModelError as error:
            raise ModelError(f"evidence set {b}: {error}", variable=error.variable) from None
        for i, value in found.items():
            values.setdefault(i, []).append(value)
    return observations.numbers_are_names(structure, values)


def _read_set(
    structure: Structure, given: Any, row: IntArray, known: dict[Any, tuple[int, int]], by_name: bool | None
) -> bool:
    """Write the states of one set into its row [V]; False if it holds weights, which are checked elsewhere.

    Pairs of variable and state that have been read before are in `known` and not read again: most sets repeat them.
    `by_name` tells whether numbers in a Series are names of states; None decides it for each Series.
    """
    if not observations.is_mapping(given):
        raise ModelError(f"{_WANTED} an array [B, {structure.num_vars}]. This one is {brief(given)}.")
    only_states, trusted = True, isinstance(given, StateNumbers)
    typed = isinstance(given, Mapping)
    pairs = given if typed else by_variable(structure, given, "evidence", by_name)
    for key, value in pairs.items():
        # True and 1 are equal, and are read differently; keys of a mapping are as typed.
        pair = key, value.__class__, value, trusted, typed
        try:
            found = known.get(pair)
        except TypeError:  # weights are lists and arrays, which have no hash
            found = None
        if found is None:
            single = StateNumbers({key: value}) if trusted else {key: value}
            ((i, x),) = by_variable(structure, single, "evidence").items() if typed else ((key, value),)
            if observations.is_unobserved(given, x, structure, i):
                continue
            if not observations.is_state(x):
                observations.read_weights(structure, i, x)
                only_states = False
                continue
            read = observations.checked_number if trusted else state_number
            found = known[pair] = i, read(structure, i, x)
        if row[found[0]] >= 0:
            by_variable(structure, given, "evidence")  # It raises: the variable is given twice.
        row[found[0]] = found[1]
    return only_states
