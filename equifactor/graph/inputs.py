"""What a user types, checked and turned into arrays: variables, scopes, tables, states, assignments, evidence.

Everything that does not fit raises a `ModelError` that says what was expected and what was found.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import ModelError
from equifactor.graph.structure import Structure, numbered

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.typing import FloatArray, IntArray

    Variable = int | str  # by number or name
    Variables = Sequence[int] | IntArray | Mapping[str, int | Sequence[str]]
    Factors = Iterable[tuple[Sequence[Variable], ArrayLike]]
    Evidence = Mapping[Any, int | str | Sequence[float] | FloatArray]
    Names = list[str] | None
    StateNames = list[Sequence[str] | None] | None

_SHOWN_NAMES = 8  # how many valid names an error lists


def read_variables(variables: Variables) -> tuple[ArrayLike, Names, StateNames]:
    """The cardinalities [V], the names of the variables and those of their states; None where there are no names."""
    if isinstance(variables, Mapping):
        return _read_named(variables)
    try:
        card = np.asarray(list(variables) if isinstance(variables, Iterator) else variables)
    except ValueError:  # rows of different lengths
        card = np.zeros((0, 0))
    if card.ndim != 1:
        raise ModelError(
            "variables are a list of cardinalities such as [2, 3], or a mapping such as {'rain': 2, 'grass': "
            f"['dry', 'wet']}}; found {reprlib.repr(variables)}"
        )
    return card, None, None


def _read_named(variables: Mapping[str, int | Sequence[str]]) -> tuple[list[int], Names, StateNames]:
    card: list[int] = []
    states: list[Sequence[str] | None] = []
    for name, value in variables.items():
        if _is_whole(value):
            card.append(int(value))  # type: ignore[arg-type]
            states.append(None)
            continue
        if isinstance(value, (str, bytes, bool)) or not isinstance(value, Iterable):
            raise ModelError(
                f"variable {name!r} needs its number of states or a list of their names, found {reprlib.repr(value)}"
            )
        states.append(list(value))
        card.append(len(states[-1] or ()))
    return card, list(variables), states if any(states) else None


def read_factors(factors: Factors) -> list[tuple[Any, Any]]:
    """The factors as a list, in which every element is known to be a pair (scope, table)."""
    if not isinstance(factors, Iterable):
        raise ModelError(f"factors are a list of pairs (scope, table), found {reprlib.repr(factors)}")
    pairs = list(factors)
    for a, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ModelError(f"factor {a} must be a pair (scope, table), found {reprlib.repr(pair)}", factor=a)
    return pairs


def read_scope(factor: int, scope: Iterable[Variable], index: Mapping[str, int], num_vars: int) -> list[int]:
    """The numbers of the variables of one factor."""
    if isinstance(scope, (str, bytes)) or not isinstance(scope, Iterable):
        raise ModelError(
            f"the scope of factor {factor} must be a list of variables, such as [{scope!r}]; found {scope!r}",
            factor=factor,
        )
    try:
        return [variable_number(v, index, num_vars) for v in scope]
    except ModelError as error:
        raise ModelError(f"factor {factor}: {error}", factor=factor, variable=error.variable) from None


def variable_number(variable: Variable, index: Mapping[str, int], num_vars: int) -> int:
    """The number of a variable given by number, or by a name in `index`."""
    if isinstance(variable, str):
        if variable not in index:
            known = ", ".join(list(index)[:_SHOWN_NAMES]) + (", ..." if len(index) > _SHOWN_NAMES else "")
            have = f"the names are: {known}" if known else "the variables have no names"
            raise ModelError(f"there is no variable {variable!r}; {have}")
        return index[variable]
    if not _is_whole(variable):
        raise ModelError(f"a variable is given by number or name, found {reprlib.repr(variable)}")
    if not 0 <= variable < num_vars:
        have = numbered(num_vars, "variable")
        raise ModelError(f"there is no variable {variable}; the model has {have}", variable=int(variable))
    return int(variable)


def factor_number(factor: int, num_factors: int) -> int:
    """The number of a factor as an int; it must be in range."""
    try:
        a = operator.index(factor)
    except TypeError:
        raise ModelError(f"a factor is given by its number, found {reprlib.repr(factor)}") from None
    if not 0 <= a < num_factors:
        raise ModelError(f"there is no factor {a}; the model has {numbered(num_factors, 'factor')}", factor=a)
    return a


def state_number(structure: Structure, variable: int, state: int | str) -> int:
    """The number of a variable's state given by number or name."""
    label = structure.variable_name(variable)
    if isinstance(state, str):
        names = structure.state_names and structure.state_names[variable]
        if not names or state not in names:
            have = f"its states are {', '.join(names)}" if names else "its states have no names"
            raise ModelError(f"variable {label} has no state {state!r}; {have}", variable=variable)
        return names.index(state)
    if not isinstance(state, (int, np.integer)):  # True and False are fine for binary variables
        raise ModelError(
            f"the state of variable {label} must be a whole number or a name, found {reprlib.repr(state)}",
            variable=variable,
        )
    if not 0 <= state < structure.card[variable]:
        raise out_of_range(structure, variable, state)
    return int(state)


def out_of_range(structure: Structure, variable: int, state: int | np.integer) -> ModelError:
    """The error for a state that a variable does not have."""
    name, have = structure.variable_name(variable), numbered(int(structure.card[variable]), "state")
    return ModelError(f"state {state} of variable {name} is out of range; it has {have}", variable=variable)


def read_table(factor: int, shape: tuple[int, ...], table: ArrayLike) -> FloatArray:
    """The numbers of one table, which is given flat or in its `shape`."""
    try:
        values = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"the table of factor {factor} is not an array of numbers", factor=factor) from None
    if values.shape == shape or (values.ndim == 1 and values.size == np.prod(shape, dtype=np.int64)):
        return values
    raise ModelError(f"factor {factor} needs a table of shape {shape}, found shape {values.shape}", factor=factor)


def read_potentials(table_ptr: IntArray, phi: ArrayLike, log: bool, first: int = 0) -> FloatArray:
    """The logs of all tables [T] in a new array; refuses NaN, +inf and (in the linear domain) negative entries.

    Table n is entries `table_ptr[n]:table_ptr[n + 1]` of `phi` and belongs to factor `first + n`.
    """
    try:
        values = np.array(phi, dtype=np.float64)  # a copy: the caller's array stays writeable and its own
    except (TypeError, ValueError, OverflowError):
        raise ModelError("the tables are not an array of numbers") from None
    if values.shape != (table_ptr[-1],):
        raise ModelError(f"the tables need {table_ptr[-1]} entries in all, found shape {values.shape}")
    bad = np.isnan(values) | (values == np.inf)
    if not log:
        bad |= values < 0
    if bad.any():
        t = int(np.argmax(bad))
        n = int(np.searchsorted(table_ptr, t, side="right")) - 1
        kind = "a log potential must be a number below infinity" if log else "a potential must be a number >= 0"
        entry = t - int(table_ptr[n])
        raise ModelError(f"factor {first + n}, entry {entry} is {values[t]:g}; {kind}", factor=first + n)
    if not log:
        with np.errstate(divide="ignore"):
            np.log(values, out=values)
    return values


def read_weights(structure: Structure, variable: int, value: object) -> FloatArray:
    """The weights [card] that are soft evidence on one variable."""
    try:
        weights = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.zeros(0)
    card = int(structure.card[variable])
    if weights.shape != (card,) or not np.all((weights >= 0) & (weights < np.inf)):
        raise ModelError(
            f"evidence on variable {structure.variable_name(variable)} must be a state or one weight >= 0 "
            f"for each of its {card} states, found {reprlib.repr(value)}",
            variable=variable,
        )
    return weights


def read_assignments(structure: Structure, assignments: ArrayLike) -> IntArray:
    """One assignment [V] or many [N, V] as integers; every state must be in range."""
    wanted = f"an assignment has one state for each of the {structure.num_vars} variables"
    try:
        x = np.asarray(assignments)
    except ValueError:
        raise ModelError(f"{wanted}; found rows of different lengths") from None
    if x.ndim not in (1, 2) or x.shape[-1] != structure.num_vars:
        raise ModelError(f"{wanted}; found shape {x.shape}")
    if x.size and not np.issubdtype(x.dtype, np.integer):
        raise ModelError(f"an assignment holds whole numbers, found dtype {x.dtype}")
    bad = (x < 0) | (x >= structure.card)
    if bad.any():
        place = tuple(np.argwhere(bad)[0].tolist())
        raise out_of_range(structure, place[-1], x[place])
    return x.astype(np.int64, copy=False)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
