"""Readers of observations of a dynamic network: one sequence or many, with missing values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.reading.inputs import as_list
from equifactor.graph.reading.observations import is_mapping
from equifactor.graph.reading.state_rows import Column, columns_of, is_frame, read_columns, read_numbers, states_of_sets

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure

_WANTED = (
    "Observations must be a data frame with a row per slice, a mapping from variable to its states in all slices, a "
    "list with a mapping for each slice, an array [T, V] of state numbers with -1 where missing, or the number of "
    "slices; or a list of those, one for each sequence."
)


def read_sequences(s: Structure, given: Any) -> tuple[list[IntArray], bool]:
    """Return the states [T, V] of each sequence, -1 where missing, and whether several sequences were given."""
    if isinstance(given, (list, tuple)) and given and not _is_slice(given[0]):
        found = []
        for n, one in enumerate(given):
            try:
                found.append(read_sequence(s, one))
            except ModelError as error:
                raise ModelError(f"sequence {n}: {error}", variable=error.variable) from None
        return found, True
    return [read_sequence(s, given)], False


def read_sequence(s: Structure, given: Any) -> IntArray:
    """Return the states [T, V] of one sequence, -1 where missing."""
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        states = np.full((max(int(given), 0), s.num_vars), -1)
    elif is_frame(given):
        states = read_columns(s, columns_of(given, "observations"), len(given))
    elif isinstance(given, Mapping):
        columns = []
        for name, values in given.items():
            listed = values if hasattr(values, "__array__") and np.ndim(values) == 1 else as_list(values)
            if listed is None or isinstance(values, str):
                raise ModelError(
                    f"The observations of {name} must be a list of states, one per slice, found {brief(values)}."
                )
            columns.append(Column(name, listed, "observations"))
        states = read_columns(s, columns)
    elif isinstance(given, np.ndarray):
        states = read_numbers(s, given, "observations")
    elif isinstance(given, (list, tuple)):
        sets = states_of_sets(s, [{k: x for k, x in one.items() if x is not None} for one in map(_mapping, given)])
        if sets is None:
            raise ModelError("Observations must be states, not weights.")
        states = sets
    else:
        raise ModelError(f"{_WANTED} Found {brief(given)}.")
    if not len(states):
        raise ModelError(f"A sequence needs at least one slice. {_WANTED}")
    return np.ascontiguousarray(states)


def _is_slice(one: Any) -> bool:
    """Return whether a mapping holds the states of one slice, and not of all."""
    if is_frame(one) or not is_mapping(one):
        return False
    return all(isinstance(x, str) or np.ndim(x) == 0 for x in dict(one).values())


def _mapping(one: Any) -> Mapping[Any, Any]:
    if not is_mapping(one):
        raise ModelError(f"{_WANTED} Found a list with {brief(one)}.")
    return one if isinstance(one, Mapping) else dict(one)


def batches(sequences: list[IntArray], most: int, one_length: bool = False) -> Iterator[tuple[list[int], IntArray]]:
    """Yield sequences side by side: their numbers and states [N, T, V], at most `most` in a batch.

    Sequences of similar length go together, padded with slices without observations, or only those of one length.
    """
    order = sorted(range(len(sequences)), key=lambda n: len(sequences[n]))
    groups = [list(own) for _, own in groupby(order, key=lambda n: len(sequences[n]))] if one_length else [order]
    for group in groups:
        for first in range(0, len(group), most):
            chosen = group[first : first + most]
            states = np.full((len(chosen), len(sequences[chosen[-1]]), sequences[0].shape[1]), -1)
            for row, n in zip(states, chosen, strict=True):
                row[: len(sequences[n])] = sequences[n]
            yield chosen, states
