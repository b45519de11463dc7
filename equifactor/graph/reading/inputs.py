"""What a user types, checked and turned into arrays: variables, scopes and tables; `observations.py` has the states.

Everything that does not fit raises a `ModelError` that says what was expected and what was found.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.base.options import did_you_mean
from equifactor.graph.structure import numbered

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import FloatArray, IntArray

    Variable = int | str  # by number or name
    Variables = Sequence[int] | IntArray | Mapping[str, int | Sequence[str]]
    Factors = Iterable[tuple[Sequence[Variable], ArrayLike]]
    Evidence = Mapping[Any, int | str | Sequence[float] | FloatArray]
    Names = list[str] | None
    StateNames = list[Sequence[str] | None] | None

_SHOWN_NAMES = 8  # Up to this many valid names are listed by an error. Chosen by hand.
_OTHER_KINDS = {"U": "text", "S": "text", "T": "text", "c": "complex numbers", "M": "dates", "m": "time spans"}


def read_variables(variables: Variables) -> tuple[ArrayLike, Names, StateNames]:
    """Return the cardinalities [V], the variables' names and the states' names; None for names not given."""
    if isinstance(variables, Mapping):
        return _read_named(variables)
    try:
        card = np.asarray(list(variables) if isinstance(variables, Iterator) else variables)
    except Exception:  # rows of different lengths, or any error of a foreign object that is asked for numbers
        card = np.zeros((0, 0))
    if card.ndim != 1:
        raise ModelError(
            "The variables must be a list of cardinalities such as [2, 3], or a mapping such as {'rain': 2, 'grass': "
            f"['dry', 'wet']}}; found {brief(variables)}."
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
        given = None if isinstance(value, bool) else as_list(value)
        if given is None:
            raise ModelError(
                f"variable {name!r} needs its number of states or a list of their names, found {brief(value)}."
            )
        states.append(given)
        card.append(len(given))
    return card, list(variables), states if any(states) else None


def read_name(name: str | None) -> str | None:
    """Return the name of a graph, which is text or None."""
    if name is not None and not isinstance(name, str):
        raise ModelError(f"The name of a graph must be text, found {brief(name)}.")
    return name


def read_factors(factors: Factors) -> list[tuple[Any, Any]]:
    """Return the factors as a list, in which every element is known to be a pair (scope, table)."""
    pairs = list(factors) if isinstance(factors, str) else as_list(factors)
    if pairs is None:
        raise ModelError(f"The factors must be a list of pairs (scope, table), found {brief(factors)}.")
    for a, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ModelError(f"factor {a} must be a pair (scope, table), found {brief(pair)}.", factor=a)
    return pairs


def read_scope(factor: int, scope: Iterable[Variable], index: Mapping[str, int], num_vars: int) -> list[int]:
    """Return the numbers of the variables of one factor."""
    variables = as_list(scope)
    if variables is None:
        raise ModelError(
            f"The scope of factor {factor} must be a list of variables such as [{brief(scope)}], found {brief(scope)}.",
            factor=factor,
        )
    try:
        return [variable_number(v, index, num_vars) for v in variables]
    except ModelError as error:
        raise ModelError(f"factor {factor}: {error}", factor=factor, variable=error.variable) from None


def variable_number(variable: Variable, index: Mapping[str, int], num_vars: int) -> int:
    """Return the number of a variable given by number, or by a name in `index`."""
    if isinstance(variable, str):
        if variable not in index:
            have = (
                f"{did_you_mean(variable, index)}the names are {listed(index)}"
                if index
                else "the variables have no names"
            )
            raise ModelError(f"The model has no variable {variable!r}; {have}.")
        return index[variable]
    if not _is_whole(variable):
        raise ModelError(f"A variable must be given by number or name, found {brief(variable)}.")
    if not 0 <= variable < num_vars:
        have = numbered(num_vars, "variable")
        raise ModelError(f"The model has no variable {variable}. It has {have}.", variable=int(variable))
    return int(variable)


def listed(names: Iterable[str]) -> str:
    """Return the first names, as errors show them: `dry, wet`."""
    shown = list(map(str, islice(names, _SHOWN_NAMES + 1)))
    return ", ".join(shown if len(shown) <= _SHOWN_NAMES else [*shown[:_SHOWN_NAMES], "..."])


def factor_number(factor: int, num_factors: int) -> int:
    """Return the number of a factor as an int; it must be in range."""
    try:
        a = operator.index(factor)
    except TypeError:
        raise ModelError(f"A factor must be given by its number, found {brief(factor)}.") from None
    if not 0 <= a < num_factors:
        raise ModelError(f"The model has no factor {a}. It has {numbered(num_factors, 'factor')}.", factor=a)
    return a


def read_table(factor: int, shape: tuple[int, ...], table: ArrayLike, scope: Iterable[str] = ()) -> FloatArray:
    """Return the numbers of one table, which is given flat or in its `shape`; errors show the names in its scope."""
    try:
        values = as_numbers(table)
    except ValueError as error:
        raise ModelError(f"The table of factor {factor} is not an array of numbers: {error}.", factor=factor) from None
    if values.shape == shape or (values.ndim == 1 and values.size == np.prod(shape, dtype=np.int64)):
        return values
    over = f" over {names}" if (names := listed(scope)) else ""
    raise ModelError(
        f"factor {factor}{over} needs a table of shape {shape}, found shape {values.shape}.", factor=factor
    )


def as_list(value: object) -> list[Any] | None:
    """Return the elements of a value as a list; None for text, and for values that are not iterable."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return None
    try:
        return list(value)
    except Exception:  # such as an array without an axis, whose iterator raises
        return None


def as_numbers(value: object) -> FloatArray:
    """Return the real numbers in anything that numpy reads as an array, as 64-bit floats.

    Nothing is dropped or guessed on the way: text, complex numbers, masks, labels and gradients are refused by a
    `ValueError` that says what was found.
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    if not isinstance(value, (list, tuple)):
        _check_kind(value)
    try:
        array = np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # a foreign object may raise any error when numpy asks it for numbers
        ragged = isinstance(value, (list, tuple)) and "inhomogeneous" in str(error)
        raise ValueError("its rows have different lengths" if ragged else _first_line(error)) from None
    if array.dtype == object:
        odd = [x for x in array.flat if not isinstance(x, (Real, Decimal))]
        if odd:
            raise ValueError(f"it holds {brief(odd[0])}")
    elif array.dtype.kind not in "biuf":
        raise ValueError(f"it holds {_OTHER_KINDS.get(array.dtype.kind, f'values of type {array.dtype}')}")
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(_first_line(error)) from None


def _check_kind(value: object) -> None:
    """Refuse arrays of other libraries from which numpy would take the numbers and leave something behind."""
    kind = type(value).__name__
    if getattr(value, "requires_grad", False) is True:
        raise ValueError(
            "it is a tensor that requires a gradient, and a FactorGraph holds fixed numbers. Pass its .detach(), or "
            "let the gradient flow through equifactor.beliefs(flat, log_phi), which takes potentials as tensors"
        )
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError("some of its entries are masked. Give them a number with .filled(..)")
    if hasattr(value, "toarray"):
        raise ValueError(f"it is a sparse {kind}. Pass its .toarray()")
    if hasattr(value, "to_numpy") and hasattr(value, "index"):
        raise ValueError(f"it is a {kind}, whose labels would be lost. Pass its .to_numpy() in the order of the states")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def read_potentials(table_ptr: IntArray, phi: ArrayLike, log: bool, first: int = 0) -> FloatArray:
    """Return the logs of all tables [T] in a new array; refuses NaN, +inf and (in the linear domain) negative entries.

    Table n is entries `table_ptr[n]:table_ptr[n + 1]` of `phi` and belongs to factor `first + n`.
    """
    if not isinstance(log, (bool, np.bool_)):
        raise ModelError(f"log must be True or False: it says whether the tables hold logarithms. Found {brief(log)}.")
    try:
        given = as_numbers(phi)
    except ValueError as error:
        raise ModelError(f"The tables are not an array of numbers: {error}.") from None
    if given.shape != (table_ptr[-1],):
        raise ModelError(f"The tables need {table_ptr[-1]} entries in total, found shape {given.shape}.")
    values = np.array(given)  # a copy: the caller's array stays writeable and its own
    bad = np.isnan(values) | (values == np.inf)
    if not log:
        bad |= values < 0
    if bad.any():
        t = int(np.argmax(bad))
        n = int(np.searchsorted(table_ptr, t, side="right")) - 1
        kind = "A log potential must be a number below infinity" if log else "A potential must be a number >= 0"
        entry = t - int(table_ptr[n])
        raise ModelError(f"factor {first + n}, entry {entry} is {values[t]:g}. {kind}.", factor=first + n)
    if not log:
        with np.errstate(divide="ignore"):
            np.log(values, out=values)
    return values


def _is_whole(value: object) -> bool:
    # A time span is an integer type of numpy.
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
