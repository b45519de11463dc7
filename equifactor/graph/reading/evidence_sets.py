"""Many sets of evidence on one graph, read into rows of states: mappings by name, a pandas frame, or an array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.reading import observations
from equifactor.graph.reading.observations import StateNumbers, by_variable, state_number
from equifactor.graph.reading.state_rows import columns_of, is_frame, read_columns, read_numbers

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure

_WANTED = "evidence sets are a list of mappings from variable to state, a data frame with a column per variable, or"


def sets_of(given: Any) -> Any:
    """Sets of evidence of any form, as something that can be gone through twice: a list, unless a frame or an array."""
    whole = isinstance(given, (str, bytes, np.ndarray)) or is_frame(given) or observations.is_mapping(given)
    return list(given) if isinstance(given, Iterable) and not whole else given


def states_of_sets(structure: Structure, given: Any) -> IntArray | None:
    """[B, V] the observed states of every set, -1 where free; None where some set holds weights.

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
        raise ModelError(f"{_WANTED} whole numbers [B, {structure.num_vars}]; found {brief(given)}")
    states = np.full((len(given), structure.num_vars), -1)
    known: dict[Any, tuple[int, int]] = {}
    only_states = True
    for b, one in enumerate(given):
        try:
            only_states &= _read_set(structure, one, states[b], known)
        except ModelError as error:
            raise ModelError(f"evidence set {b}: {error}", variable=error.variable) from None
    return states if only_states else None


def _read_set(structure: Structure, given: Any, row: IntArray, known: dict[Any, tuple[int, int]]) -> bool:
    """Write the states of one set into its row [V]; False where it holds weights, which are checked alone.

    Pairs of variable and state that have been read before are in `known` and not read again: most sets repeat them.
    """
    if not observations.is_mapping(given):
        raise ModelError(f"{_WANTED} an array [B, {structure.num_vars}]; this one is {brief(given)}")
    only_states, trusted = True, isinstance(given, StateNumbers)
    for key, value in given.items():
        pair = key, value.__class__, value, trusted  # True and 1 are equal, and are read differently
        try:
            found = known.get(pair)
        except TypeError:  # weights are lists and arrays, which have no hash
            found = None
        if found is None:
            single = StateNumbers({key: value}) if trusted else {key: value}
            ((i, x),) = by_variable(structure, single, "evidence").items()
            if not observations.is_state(x):
                observations.read_weights(structure, i, x)
                only_states = False
                continue
            read = observations.checked_number if trusted else state_number
            found = known[pair] = i, read(structure, i, x)
        if row[found[0]] >= 0:
            by_variable(structure, given, "evidence")  # says that the variable is there twice
        row[found[0]] = found[1]
    return only_states
