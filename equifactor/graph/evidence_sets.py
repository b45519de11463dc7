"""Many sets of evidence on one graph, read into rows of states: mappings by name, a pandas frame, or an array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import ModelError, brief
from equifactor.graph import observations
from equifactor.graph.observations import StateNumbers, by_variable, out_of_range, state_number

if TYPE_CHECKING:
    from equifactor.graph.structure import Structure
    from equifactor.typing import IntArray

_WANTED = "evidence sets are a list of mappings from variable to state, a data frame with a column per variable, or"


def states_of_sets(structure: Structure, given: Any) -> IntArray | None:
    """[B, V] the observed states of every set, -1 where free; None where some set holds weights.

    Args:
        structure: of the graph.
        given: a list of mappings as `FactorGraph.condition` takes them; a pandas frame with a column per observed
            variable, free where a value is missing; or whole numbers [B, V], -1 where free.
    """
    if hasattr(given, "columns") and hasattr(given, "items"):
        return _of_frame(structure, given)
    if isinstance(given, np.ndarray) and given.dtype != object:
        return checked_rows(structure, given)
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ModelError(f"{_WANTED} whole numbers [B, {structure.num_vars}]; found {brief(given)}")
    return _of_mappings(structure, list(given))


def checked_rows(structure: Structure, given: Any) -> IntArray:
    """Rows of states [B, V], -1 where free, as whole numbers in range."""
    rows = np.asarray(given)
    if rows.ndim != 2 or rows.shape[1] != structure.num_vars or (rows.size and rows.dtype.kind not in "iu"):
        raise ModelError(
            f"rows of evidence are whole numbers [B, {structure.num_vars}], the state of every variable and -1 where "
            f"it is free; found {rows.dtype} of shape {rows.shape}"
        )
    if (rows.max(axis=0, initial=-1) >= structure.card).any() or rows.min(initial=-1) < -1:
        b, i = np.argwhere((rows >= structure.card) | (rows < -1))[0].tolist()
        raise out_of_range(structure, i, rows[b, i])
    return rows


def _of_mappings(structure: Structure, sets: list[Any]) -> IntArray | None:
    """Pairs of variable and state that have been read before are not read again: most sets repeat them."""
    states = np.full((len(sets), structure.num_vars), -1)
    known: dict[Any, tuple[int, int]] = {}
    for b, given in enumerate(sets):
        row = states[b]
        trusted = isinstance(given, StateNumbers)
        for key, value in _items(structure, given, b):
            pair = key, value.__class__, value, trusted  # True and 1 are equal, and are read differently
            try:
                found = known.get(pair)
            except TypeError:  # weights are lists and arrays, which have no hash
                found = None
            if found is None:
                if not observations.is_state(value):
                    return None
                single = StateNumbers({key: value}) if trusted else {key: value}
                ((i, x),) = by_variable(structure, single, "evidence").items()
                read = observations.checked_number if trusted else state_number
                found = known[pair] = i, read(structure, i, x)
            if row[found[0]] >= 0:
                by_variable(structure, given, "evidence")  # says that the variable is there twice
            row[found[0]] = found[1]
    return states


def _items(structure: Structure, given: Any, b: int) -> Iterable[tuple[Any, Any]]:
    if isinstance(given, Mapping) or (hasattr(given, "items") and getattr(given, "ndim", 1) == 1):
        items: Iterable[tuple[Any, Any]] = given.items()
        return items
    raise ModelError(f"{_WANTED} an array [B, {structure.num_vars}]; set {b} is {brief(given)}")


def _of_frame(structure: Structure, frame: Any) -> IntArray:
    states = np.full((len(frame), structure.num_vars), -1)
    for i, column in by_variable(structure, dict(frame.items()), "the frame of evidence").items():
        codes, values = column.factorize()
        numbers = [state_number(structure, i, _plain(value)) for value in values]
        states[:, i] = np.array([*numbers, -1])[codes]  # the code of a missing value is -1, the last place
    return states


def _plain(value: Any) -> Any:
    """A whole number where a column of them has become floating point because values are missing."""
    return int(value) if isinstance(value, (float, np.floating)) and value == int(value) else value
