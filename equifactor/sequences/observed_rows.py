"""Readers of observations of a dynamic network: one sequence or many, with missing values and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.reading.inputs import as_list
from equifactor.graph.reading.observations import is_mapping, is_missing, is_state, named, read_weights, state_number
from equifactor.graph.reading.state_rows import Column, columns_of, is_frame, read_columns, read_numbers

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure

_MOST = 2**31  # The largest number of states in one sequence: 16 GiB. Chosen by hand.
_WANTED = (
    "Observations must be a data frame with a row per slice, a mapping from variable to its states in all slices, a "
    "list with a mapping for each slice, an array [T, V] of state numbers with -1 where missing, or the number of "
    "slices; or a list of those, one for each sequence."
)


@dataclass(frozen=True, eq=False)
class Sequences:
    """The observations of one sequence or many.

    A code below the number of states is a state, and -1 is a missing value. Larger codes are weights: soft evidence.
    Code x of variable i stands for the row `tables[i][x]`.
    """

    codes: list[IntArray]  # [T, V] of each sequence
    tables: list[FloatArray]  # [V] of [rows, states]: the unit rows, the weights, and ones as the last row
    many: bool  # whether a list of sequences was given

    def __len__(self) -> int:
        return len(self.codes)

    def is_complete(self) -> bool:
        """Return whether all values are states."""
        card = [table.shape[1] for table in self.tables]
        return all(((x >= 0) & (x < card)).all() for x in self.codes)

    def batches(self, most: int, one_length: bool = False) -> Iterator[tuple[list[int], IntArray]]:
        """Yield sequences side by side: their numbers and codes [N, T, V], at most `most` in a batch.

        Sequences of similar length go together, padded with slices without observations, or only those of one length.
        """
        order = sorted(range(len(self)), key=lambda n: len(self.codes[n]))
        groups = [list(own) for _, own in groupby(order, key=lambda n: len(self.codes[n]))] if one_length else [order]
        for group in groups:
            for first in range(0, len(group), most):
                chosen = group[first : first + most]
                if len(chosen) == 1:
                    yield chosen, self.codes[chosen[0]][None]
                    continue
                codes = np.full((len(chosen), len(self.codes[chosen[-1]]), len(self.tables)), -1)
                for row, n in zip(codes, chosen, strict=True):
                    row[: len(self.codes[n])] = self.codes[n]
                yield chosen, codes

    def answers(self, found: list[Any]) -> Any:
        """Return the answer about one sequence, or the list of answers about many."""
        return found if self.many else found[0]


def read_sequences(s: Structure, given: Any) -> Sequences:
    """Return the observations that a user gave."""
    reader = _Reader(s)
    many = isinstance(given, (list, tuple)) and bool(given) and not _are_slices(given)
    codes = []
    for n, one in enumerate(given if many else [given]):
        try:
            codes.append(reader.sequence(one))
        except ModelError as error:
            raise ModelError(f"sequence {n}: {error}", variable=error.variable) if many else error from None
    tables = [np.concatenate([*own, np.ones((1, own[0].shape[1]))]) for own in reader.weights]
    return Sequences(codes, tables, many)


def whole_number(name: str, value: object, least: int, share: int = 1) -> int:
    """Return the value if it is a whole number of at least `least`, and at most 2^31 after dividing by `share`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, (bool, np.timedelta64)) or value < least:
        raise ModelError(f"{name} must be a whole number of at least {least}, found {brief(value)}.")
    if value > (most := _MOST // max(1, share)):
        raise ModelError(f"{name} must be at most {most:,}, found {brief(value)}.")
    return int(value)


class _Reader:
    def __init__(self, s: Structure) -> None:
        self.s = s
        self.weights = [[np.eye(d)] for d in s.card.tolist()]  # the tables of `Sequences`, in pieces
        self.counts = [0] * s.num_vars  # of the rows of weights

    def sequence(self, given: Any) -> IntArray:
        """Return the codes [T, V] of one sequence."""
        s = self.s
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            codes = np.full((whole_number("The length of a sequence", given, 0, s.num_vars), s.num_vars), -1)
        elif is_frame(given):
            codes = self._columns(columns_of(given, "observations"), len(given))
        elif isinstance(given, Mapping):
            columns = []
            for name, values in given.items():
                listed = _listed(values)
                if listed is None or isinstance(values, str):
                    raise ModelError(
                        f"The observations of {name} must be a list of states, one per slice, found {brief(values)}."
                    )
                columns.append(Column(name, listed, "observations"))
            codes = self._columns(columns)
        elif isinstance(given, np.ndarray):
            codes = read_numbers(s, given, "observations")
        elif isinstance(given, (list, tuple)):
            rows = [_mapping(one) for one in given]
            names = dict.fromkeys(name for row in rows for name in row)
            columns = [Column(name, [row.get(name) for row in rows], "observations") for name in names]
            codes = self._columns(columns, len(rows))
        else:
            raise ModelError(f"{_WANTED} Found {brief(given)}.")
        if not len(codes):
            raise ModelError(f"A sequence needs at least one slice. {_WANTED}")
        return np.ascontiguousarray(codes)

    def _columns(self, columns: list[Column], rows: int = 0) -> IntArray:
        """Return the codes [T, V] of columns of states and weights."""
        soft = [column for column in columns if _has_weights(column.values)]
        if not soft:
            return read_columns(self.s, columns, rows)
        hidden = [Column(c.name, [None] * len(c.values), c.source) if c in soft else c for c in columns]
        codes = read_columns(self.s, hidden)  # It checks names and lengths.
        for column in soft:
            i = named(self.s, column.name)
            codes[:, i] = self._soft(i, column)
        return codes

    def _soft(self, i: int, column: Column) -> IntArray:
        """Return the codes [T] of a column with weights, and keep their rows."""
        d, found = int(self.s.card[i]), np.full(len(column.values), -1)
        array = np.asarray(column.values) if hasattr(column.values, "__array__") else np.empty(0, object)
        rows: list[FloatArray] = []
        if array.ndim == 2 and array.shape[1] == d and array.dtype.kind in "biuf":
            missing = np.isnan(array).all(axis=1)
            wrong = ~missing & ~((array >= 0.0) & (array < np.inf)).all(axis=1)
            if not wrong.any():
                rows = [array[~missing]]
                found[~missing] = d + self.counts[i] + np.arange(len(rows[0]))
        for t, value in enumerate(() if rows else column.values):
            try:
                if is_state(value) and not is_missing(value):
                    found[t] = state_number(self.s, i, value)
                elif not is_missing(value):
                    found[t] = d + self.counts[i] + len(rows)
                    rows.append(read_weights(self.s, i, value))
            except ModelError as error:
                raise ModelError(f"{column.where(t)}: {error}", variable=i) from None
        self.weights[i].append(np.asarray(rows, np.float64).reshape(-1, d))
        self.counts[i] += len(self.weights[i][-1])
        return found


def _listed(values: Any) -> Any:
    """Return the values of a column as a list, or as an array of one or two axes; None if they are neither."""
    try:
        axes = np.ndim(values) if hasattr(values, "__array__") else 0
        return values if axes == 1 else np.asarray(values) if axes == 2 else as_list(values)
    except Exception:  # a foreign object may raise any error when numpy asks it for numbers
        return None


def _has_weights(values: Any) -> bool:
    """Return whether some value of a column is a row of weights."""
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":
        return np.ndim(values) == 2
    some_of_type = {type(x): x for x in values}
    return any(not is_state(x) and not is_missing(x) for x in some_of_type.values())


def _are_slices(given: Any) -> bool:
    """Return whether a list holds a mapping for each slice, and not a sequence in each place."""
    if not all(is_mapping(one) and not is_frame(one) for one in given):
        return False
    values = [x for one in given for x in dict(one).values()]
    return not values or any(is_state(x) or is_missing(x) or is_mapping(x) or _is_fractions(x) for x in values)


def _is_fractions(value: Any) -> bool:
    """Return whether a value is a list of numbers that cannot all be states: soft evidence on one slice."""
    return any(isinstance(x, (float, np.floating)) and x % 1.0 > 0.0 for x in as_list(value) or [])


def _mapping(one: Any) -> Mapping[Any, Any]:
    if not is_mapping(one):
        raise ModelError(f"{_WANTED} Found a list with {brief(one)}.")
    return one if isinstance(one, Mapping) else dict(one)


def distinct_rows(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the different rows [U, k] of codes [n, k], and the place [n] of each row among them."""
    if not codes.size:
        return codes[:1], np.zeros(len(codes), np.int64)
    low = codes.min(axis=0)
    spans = (codes.max(axis=0) - low + 1).tolist()
    total = 1
    for span in spans:
        total *= span
    if total > 2**62:
        found, index = np.unique(codes, axis=0, return_inverse=True)
        return found, index.ravel()
    keys = np.ravel_multi_index(tuple((codes - low).T), spans)
    if total <= max(4 * len(codes), 2**12):  # Counting takes a tenth of the time of sorting.
        present = np.zeros(total, bool)
        present[keys] = True
        values, index = np.flatnonzero(present), (np.cumsum(present) - 1)[keys]
    else:
        values, index = np.unique(keys, return_inverse=True)
    return np.stack(np.unravel_index(values, spans), axis=1) + low, index
