"""Readers of observed states by number or name; a value with two meanings is refused, never guessed.

Text is a name, and a whole number counts the states (or variables) from 0. Some names are numbers themselves, such as
the states "1" and "2", or words for true and false, such as TRUE and FALSE. A whole number could then mean a place or a
name, and it is refused unless both give the same state. A pandas Series or frame has numbers from a file: if each of
them is a name, and one is not a place, all are names.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.base.number_text import finite_number
from equifactor.base.options import did_you_mean
from equifactor.graph.reading.inputs import as_numbers, listed, variable_number
from equifactor.graph.slicing import slice_tables
from equifactor.graph.structure import Structure, numbered

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.reading.inputs import Evidence, Variable


# The numbers that words for true and false stand for, in upper or lower case.
_TRUTH = {
    "true": 1,
    "false": 0,
    "yes": 1,
    "no": 0,
    "on": 1,
    "off": 0,
    "t": 1,
    "f": 0,
    "y": 1,
    "n": 0,
}
# The names of the types of missing values in pandas. Names are compared, so that pandas is not imported.
_MISSING_TYPES = frozenset(("NAType", "NaTType"))
# The texts that `pandas.read_csv` turns into missing values by default.
_READ_AS_MISSING = frozenset((
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
))  # fmt: skip


class StateNumbers(dict[int, int]):
    """Observed states by variable, both counted from 0, from `FactorGraph.evidence` or an evidence file.

    `FactorGraph.condition` reads them as numbers also where names of variables or states look like numbers.
    """


def by_variable(structure: Structure, given: object, what: str, by_name: bool | None = None) -> dict[int, Any]:
    """Return the values of a mapping from variable to value, or of a pandas Series, by variable number.

    Args:
        structure: of the graph, for the names and the number of variables.
        given: what the user has typed.
        what: the word for it in errors, such as `evidence`.
        by_name: whether numbers in a Series are names of states; None decides it from the Series alone.
    """
    if hasattr(given, "iloc") and getattr(given, "ndim", 1) == 2:
        raise ModelError(
            f"{what} on one graph must be one row such as frame.iloc[0], found a data frame of {len(given)} rows. "  # type: ignore[arg-type]
            "Use `solve(graph, evidence=frame)` to ask about all rows."
        )
    if not is_mapping(given):
        raise ModelError(
            f"{what} must be a mapping from variable to state such as {_example(structure)}, found {brief(given)}."
        )
    found: dict[int, Any] = {}
    keys: dict[int, object] = {}
    for key, value in cast("Mapping[Any, Any]", given).items():
        known = isinstance(given, StateNumbers)
        i = variable_number(key, structure.index_of_name, structure.num_vars) if known else named(structure, key)
        if i in found:
            raise ModelError(
                f"{what} names variable {structure.variable_name(i)} twice, as {keys[i]!r} and as {key!r}. "
                "Give it once.",
                variable=i,
            )
        keys[i], found[i] = key, value
    if by_name is None:
        by_name = not isinstance(given, Mapping) and numbers_are_names(structure, {i: [x] for i, x in found.items()})
    if by_name:
        return {i: _name_of_number(structure, i, x) for i, x in found.items()}
    return found


def _name_of_number(structure: Structure, variable: int, value: object) -> object:
    """Return the state whose name is this number; any other value as it is."""
    names = _state_names(structure, variable)
    place = place_by_name(names, value) if names and is_number(value) else None
    return value if names is None or place is None else names[place]


def _example(structure: Structure) -> str:
    """Return evidence on the first variable as a user would type it, with the names of the graph if it has names."""
    if structure.variable_names is None or not structure.num_vars:
        return "{0: 1}"
    return brief({structure.variable_name(0): structure.states_of(0)[-1]})


def named(structure: Structure, variable: Variable) -> int:
    """Return the number of a variable as a user gives it; refuses a whole number that could also be a name."""
    i = variable_number(variable, structure.index_of_name, structure.num_vars)
    _check_variable_key(structure, variable, i)
    return i


def is_state(value: object) -> bool:
    """Return whether a value stands for one state; anything else is weights."""
    return isinstance(value, (int, float, str, np.number, np.bool_)) and not isinstance(value, np.timedelta64)


def is_missing(value: object) -> bool:
    """Return whether a value is how Python, numpy or pandas writes a missing one."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in _MISSING_TYPES


def is_unobserved(given: object, value: object, structure: Structure, variable: int) -> bool:
    """Return whether a value marks an unobserved variable: a missing value; None and "" only in a Series."""
    if isinstance(given, Mapping) and value is None:
        return False
    if is_missing(value):
        if value is not None and state_like_missing(structure, variable) is not None:
            raise ambiguous_missing(structure, variable)
        return True
    return isinstance(value, str) and value == "" and not isinstance(given, Mapping)


def state_like_missing(structure: Structure, variable: int) -> str | None:
    """Return the first state, such as NA, whose name `pandas.read_csv` reads as a missing value; None without one."""
    return next((name for name in _state_names(structure, variable) or () if name in _READ_AS_MISSING), None)


def ambiguous_missing(structure: Structure, variable: int) -> ModelError:
    """Return the error for a missing value of a variable with such a state."""
    return ModelError(
        f"a value of variable {structure.variable_name(variable)} is missing, or it is the state "
        f"{state_like_missing(structure, variable)!r}, which pandas.read_csv reads as missing. Read the file with "
        "keep_default_na=False; empty cells are then not observed.",
        variable=variable,
    )


def state_number(structure: Structure, variable: int, state: object) -> int:
    """Return the number of a variable's state, given as the user types it.

    Text is the exact name of a state. A whole number such as 1 or 1.0 counts from 0. This is ambiguous if a state name
    is a number other than its own place, or a word for true (1) or false (0) at another place. A number is then read as
    a name if the state of that name is at this place, or if no state is. Other numbers are refused. True and False are
    the states with these names, in lower or upper case, as pandas reads them from a file. For two states without names
    they are 1 and 0. Otherwise they are refused.
    """
    label, names = structure.variable_name(variable), _state_names(structure, variable)
    have = f"its states are {listed(names)}" if names else f"it has {_numbered_states(structure, variable)}"
    if isinstance(state, str):
        if not names:
            raise ModelError(
                f"variable {label} has no state {state!r}; its states have no names, and {have}.", variable=variable
            )
        if state not in names:
            near = did_you_mean(state, names)
            raise ModelError(f"variable {label} has no state {state!r}; {near}{have}.", variable=variable)
        return names.index(state)
    if isinstance(state, (bool, np.bool_)):
        word = str(bool(state))
        same = [name for name in names or () if name == word] or [n for n in names or () if n.lower() == word.lower()]
        if names and len(same) == 1:
            return names.index(same[0])
        if names or structure.card[variable] != 2:
            raise ModelError(
                f"variable {label} has no state {bool(state)}; {have}. Give one of these.", variable=variable
            )
        return int(state)
    numeric = is_number(state)
    place = place_by_name(names, state) if names and numeric else None
    if place is not None and (place == state or not is_place(state, len(names or ()))):
        return place
    if not numeric or state % 1 != 0:  # type: ignore[operator]
        raise ModelError(
            f"The state of variable {label} must be a whole number or a name, found {brief(state)}.",
            variable=variable,
        )
    if names and not names_agree(names):
        raise ModelError(
            f"state {state} of variable {label} can be read as a name or as a place counted from 0; {have}. Give one "
            "of these as text.",
            variable=variable,
        )
    return checked_number(structure, variable, int(state))  # type: ignore[call-overload]


def is_number(value: object) -> bool:
    """Return whether a value is a number that may stand for a state: not a truth value, a time span or missing."""
    given = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64))
    return given and not is_missing(value)


def numbers_are_names(structure: Structure, values: Mapping[int, Iterable[Any]]) -> bool:
    """Return whether the numbers in one table, by variable, are names of states, as pandas reads them from a file.

    They are if each of them is a name, and one of them is not a place. States without names do not count.
    """
    some = False
    for variable, own in values.items():
        names = _state_names(structure, variable)
        for number in filter(is_number, own) if names else ():
            if place_by_name(names, number) is None:  # type: ignore[arg-type]
                return False
            some = some or not is_place(number, len(names))  # type: ignore[arg-type]
    return some


def is_place(number: Any, card: int) -> bool:
    """Return whether a number is the place of one of `card` states, counted from 0."""
    return bool(number % 1 == 0 and 0 <= number < card)


def place_by_name(names: tuple[str, ...], number: Any) -> int | None:
    """Return the place of the name that is this number, such as "1" or "01" for 1.0; None unless there is one only."""
    equal = [k for k, name in enumerate(names) if finite_number(name) == number]
    return equal[0] if len(equal) == 1 else None


def checked_number(structure: Structure, variable: int, state: int) -> int:
    """Return a state that is known to be a number and not a name; it must be in range."""
    if not 0 <= state < structure.card[variable]:
        raise out_of_range(structure, variable, state)
    return state


def out_of_range(structure: Structure, variable: int, state: int | np.integer) -> ModelError:
    """Return the error for a state that a variable does not have."""
    name, have = structure.variable_name(variable), _numbered_states(structure, variable)
    return ModelError(f"state {state} of variable {name} is out of range. The variable has {have}.", variable=variable)


def read_weights(structure: Structure, variable: int, value: object) -> FloatArray:
    """Return the weights [card] that are soft evidence on one variable: in the order of its states, or by state."""
    card = int(structure.card[variable])
    try:
        given = _weights_by_state(structure, variable, value) if is_mapping(value) else value
        weights = as_numbers(given)
    except ValueError:
        weights = np.zeros(0)
    if value is None:
        raise ModelError(
            f"evidence on variable {structure.variable_name(variable)} must be a state, and None is not a state. Leave "
            "out variables that are not observed.",
            variable=variable,
        )
    if weights.shape != (card,) or not np.all((weights >= 0) & (weights < np.inf)):
        raise ModelError(
            f"evidence on variable {structure.variable_name(variable)} must be a state or one weight >= 0 "
            f"for each of its {card} states, found {brief(value)}.",
            variable=variable,
        )
    return weights


def read_assignments(structure: Structure, assignments: ArrayLike) -> IntArray:
    """Return one assignment [V] or many [N, V] as integers; every state must be in range."""
    wanted = f"An assignment must have one state for each of the {structure.num_vars} variables"
    try:
        x = np.asarray(assignments)
    except Exception as error:  # a foreign object may raise any error when numpy asks it for numbers
        ragged = isinstance(error, ValueError)
        raise ModelError(f"{wanted}, found {'rows of different lengths' if ragged else brief(assignments)}.") from None
    if x.ndim not in (1, 2) or x.shape[-1] != structure.num_vars:
        raise ModelError(f"{wanted}, found shape {x.shape}.")
    if x.size and not np.issubdtype(x.dtype, np.integer):
        raise ModelError(f"An assignment must hold whole numbers, found dtype {x.dtype}.")
    bad = (x < 0) | (x >= structure.card)
    if bad.any():
        place = tuple(np.argwhere(bad)[0].tolist())
        raise out_of_range(structure, place[-1], x[place])
    return x.astype(np.int64, copy=False)


def _weights_by_state(structure: Structure, variable: int, value: object) -> list[object]:
    weights = {state_number(structure, variable, s): w for s, w in cast("Mapping[Any, Any]", value).items()}
    if len(weights) != len(value) or len(weights) != structure.card[variable]:  # type: ignore[arg-type]
        raise ValueError("some states have no weight, or two")
    return [weights[x] for x in range(len(weights))]


def is_mapping(value: object) -> bool:
    """Return whether a value is a mapping or a pandas Series; a data frame is not, as its columns hold many values."""
    return isinstance(value, Mapping) or (
        hasattr(value, "keys") and hasattr(value, "items") and getattr(value, "ndim", 1) == 1
    )


def _check_variable_key(structure: Structure, key: object, variable: int) -> None:
    """Refuse a whole number that is the name of another variable, or a place whose name is another number."""
    if isinstance(key, str) or structure.variable_names is None:
        return
    name = structure.variable_names[variable]
    other = structure.index_of_name.get(str(key), variable)
    if other != variable or finite_number(name) not in (None, variable):
        raise ModelError(
            f"variable {key} can be read as a name or as a place counted from 0, where variable {name!r} is. "
            "Give the name as text.",
            variable=variable,
        )


def _state_names(structure: Structure, variable: int) -> tuple[str, ...] | None:
    return structure.state_names[variable] if structure.state_names else None


def _numbered_states(structure: Structure, variable: int) -> str:
    return numbered(int(structure.card[variable]), "state")


@functools.lru_cache(maxsize=1024)
def names_agree(names: tuple[str, ...]) -> bool:
    """Return whether every name that is a number, or a word for 1 or 0, is at its own place.

    A single letter counts as a word only beside a word for the opposite: F is false beside T, but not beside A or M.
    """
    words = [name.lower() for name in names]
    meant = {_TRUTH[word] for word in words if word in _TRUTH}
    truth = _TRUTH if len(meant) == 2 else {word: value for word, value in _TRUTH.items() if len(word) > 1}
    return all(truth.get(word, finite_number(word)) in (None, x) for x, word in enumerate(words))


def _numbers_of_row(structure: Structure, row: np.ndarray) -> StateNumbers:
    """Return the states in an array [V] of their numbers, such as one row of samples; -1 and NaN are not observed."""
    if row.shape != (structure.num_vars,) or row.dtype.kind not in "iuf":
        raise ModelError(
            f"Evidence as an array must hold the number of the state of each of the {structure.num_vars} variables, "
            f"or -1; found shape {row.shape} and dtype {row.dtype}."
        )
    seen = np.flatnonzero((row != -1) & (row == row))
    odd = seen[row[seen] % 1 != 0]
    if len(odd):
        raise ModelError(f"The state of variable {structure.variable_name(odd[0])} is {row[odd[0]]:g}. Give a number.")
    return StateNumbers(zip(seen.tolist(), row[seen].astype(np.int64).tolist(), strict=True))


def conditioned(given: FactorGraph, evidence: Evidence | IntArray) -> FactorGraph:
    """Return what `FactorGraph.condition` returns; its docstring says which forms of evidence are allowed."""
    observed = np.full(given.num_vars, -1) if given.observed is None else given.observed.copy()
    if isinstance(evidence, np.ndarray):
        evidence = _numbers_of_row(given.structure, evidence)
    read = checked_number if isinstance(evidence, StateNumbers) else state_number
    any_hard = False
    soft: list[tuple[list[int], FloatArray]] = []
    for i, value in by_variable(given.structure, evidence, "evidence").items():
        if is_unobserved(evidence, value, given.structure, i):
            continue
        if is_state(value):
            state = read(given.structure, i, value)
            if observed[i] not in (-1, state):
                name = given.structure.variable_name(i)
                own = given.structure.states_of(i)
                raise ModelError(
                    f"variable {name} is already observed in state {own[observed[i]]}, not {own[state]}.", variable=i
                )
            observed[i] = state
            any_hard = True
            continue
        weights = read_weights(given.structure, i, value)
        if given.observed is None or given.observed[i] < 0:
            soft.append(([i], weights))
        else:  # a weight for a variable that is already fixed only scales
            soft.append(([], weights[given.observed[i]]))
    graph = given.with_factors(soft) if soft else given
    if not any_hard:
        return graph
    structure, log_phi = slice_tables(graph.structure, graph.log_phi, observed)
    return given.trusted(structure, log_phi, observed, given.name)
