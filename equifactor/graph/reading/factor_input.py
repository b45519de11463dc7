"""Readers of factors: structured factors and tables mixed, and flat arrays for models of millions of factors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.factor_rows import FactorRows, merged
from equifactor.graph.kinds import kind_class
from equifactor.graph.reading import inputs
from equifactor.graph.small_scopes import without_small_scopes
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE, StructuredFactor
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.reading.inputs import Variables


def read_rows(old: FactorRows, card: IntArray, scopes: list[list[int]], tables: list[Any], log: bool) -> FactorRows:
    """Return the rows `old` followed by new factors, which are tables or structured factors over these scopes.

    Tables hold natural logarithms where `log` is set. A factor over one variable or none becomes a table.
    """
    first = old.num_factors
    kinds, values, words = [], [], []
    for n, (scope, table) in enumerate(zip(scopes, tables, strict=True)):
        shape = tuple(card[scope].tolist())
        if isinstance(table, StructuredFactor):
            if table.number < 0:
                raise ModelError(
                    f"factor {first + n} is of the kind {table.kind!r}, which is not registered. Call "
                    f"equifactor.factors.register_kind({type(table).__name__}) before building the graph.",
                    factor=first + n,
                )
            try:
                own, whole = table.row(shape)
            except ModelError as error:
                raise ModelError(f"factor {first + n}: {error}", factor=first + n) from None
            except Exception as error:  # a foreign object may raise any error when a kind asks it for numbers
                raise ModelError(
                    f"factor {first + n}: A {table.kind} factor cannot be read from {brief(vars(table))}. Reading it "
                    f"raised {brief(error)}.",
                    factor=first + n,
                ) from error
            bad = np.isnan(own) | (own == np.inf)
            if bad.any():
                raise ModelError(f"factor {first + n}: A log value must be a number below infinity.", factor=first + n)
        else:
            flat = inputs.read_table(first + n, shape, table).ravel()
            own = inputs.read_potentials(np.array([0, flat.size]), flat, log, first + n)
            whole = np.zeros(0, np.int64)
        kinds.append(table.number if isinstance(table, StructuredFactor) else TABLE)
        values.append(own)
        words.append(whole)
    none = np.zeros(0, np.int64)
    scope_vars = np.concatenate([none, *(np.array(s, np.int64) for s in scopes)])
    new = FactorRows(
        np.array(kinds, np.int64),
        ptr_of([len(s) for s in scopes]), scope_vars,
        ptr_of([len(v) for v in values]), np.concatenate([np.zeros(0), *values]),
        ptr_of([len(w) for w in words]), np.concatenate([none, *words]),
        card[scope_vars],
    )  # fmt: skip
    for number in np.unique(new.kind[new.kind != TABLE]).tolist():
        places, others = np.flatnonzero(new.kind == number), np.flatnonzero(new.kind != number)
        simpler = without_small_scopes(kind_class(number), new.take(places))
        new = merged([(others, new.take(others)), (places, simpler)])
    return merged([(np.arange(first), old), (first + np.arange(new.num_factors), new)])


# ---- flat arrays, without a Python loop over factors ------------------------------------------------------


def structure_of(variables: Variables, scopes: ArrayLike, scope_ptr: ArrayLike | None) -> Structure:
    """Return the structure of `FactorGraph.from_arrays`, whose docstring says which arguments are allowed."""
    card, names, states = inputs.read_variables(variables)
    scope_vars = _array(scopes, "scopes")
    if scope_ptr is None:
        if scope_vars.shape == (0,):  # no factors, of any arity
            scope_vars = scope_vars.reshape(0, 1)
        if scope_vars.ndim != 2:
            raise ModelError(
                "The scopes must be an array [F, k] of variable numbers, or flat [E] with scope_ptr [F + 1], which "
                f"says where each begins. Found shape {scope_vars.shape} and no scope_ptr."
            )
        count, arity = scope_vars.shape
        scope_ptr, scope_vars = arity * np.arange(count + 1), scope_vars.ravel()
    elif scope_vars.ndim != 1:
        raise ModelError(
            f"With scope_ptr the scopes must be flat [E], found shape {scope_vars.shape}. Pass its .ravel()."
        )
    return Structure.build(card, _array(scope_ptr, "scope_ptr"), scope_vars, variable_names=names, state_names=states)


def flat_tables(structure: Structure, phi: ArrayLike) -> FloatArray:
    """Return all tables [T] one after the other, from this form or from [F, d1, .., dk] if they have one shape."""
    try:
        values = inputs.as_numbers(phi)
    except ValueError as error:
        raise ModelError(f"The tables are not an array of numbers: {error}.") from None
    if values.ndim <= 1:
        return values
    shape = (structure.num_factors, *(structure.shape(0) if structure.num_factors else ()))
    if values.shape != shape or not _equal_rows(structure):
        found = f"found shape {values.shape}"
        if structure.num_factors and _equal_rows(structure):
            raise ModelError(f"The tables must be flat [{structure.num_entries}] or of shape {shape}, {found}.")
        raise ModelError(
            f"Tables of several shapes must be flat [{structure.num_entries}], one after the other, {found}."
        )
    return values.ravel()


def _equal_rows(structure: Structure) -> bool:
    """Return whether all tables have one shape."""
    arity = structure.arity
    if not len(arity) or np.any(arity != arity[0]):
        return False
    cards = structure.card[structure.scope_vars].reshape(len(arity), int(arity[0]))
    return bool(np.all(cards == cards[0]))


def _array(values: ArrayLike, name: str) -> IntArray:
    try:
        return np.asarray(values)
    except Exception:  # rows of different lengths, or any error of a foreign object that is asked for numbers
        raise ModelError(
            f"{name} must be an array of whole numbers, found {brief(values)}. Pass scopes of several lengths flat, "
            "with scope_ptr."
        ) from None
