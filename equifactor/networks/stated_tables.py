"""Conditional tables as a user types them: parents and states by name, in any order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.base.options import did_you_mean
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import find_cycle, wrong_row
from equifactor.graph.reading.inputs import as_list, as_numbers, listed
from equifactor.graph.structured_factor import StructuredFactor
from equifactor.networks.conditional_table import ConditionalTable

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

    Tables = Mapping[str, Any]
    States = Mapping[str, int | Sequence[str]]


_MOST = 2**30  # Entries of a uniform table: 8 GiB. Chosen by hand.


def graph_of_tables(tables: Tables, states: States | None, name: str | None) -> FactorGraph:
    """Return the factor graph of conditional tables, with the variables and factors in the order of the tables.

    Args:
        tables: a mapping from variable to its table; see `BayesianNetwork`.
        states: the states of variables whose tables do not name them, or the order of states.
        name: the name of the graph.
    """
    given = {variable: parents_and_table(variable, table) for variable, table in tables.items()}
    if states is not None and not isinstance(states, Mapping):
        raise ModelError(f"states= must be a mapping from variable to its states, found {brief(states)}.")
    for variable, (parents, _) in given.items():
        check_parents(variable, parents, given)
    order = list(given)
    cycle = find_cycle([[order.index(p) for p in given[v][0]] for v in order])
    if cycle:
        words = " -> ".join(order[i] for i in (*cycle, cycle[0]))
        raise ModelError(
            f"The network has a directed cycle: {words}. A Bayesian network must not have one. Remove one of these "
            "parents."
        )
    unknown = [v for v in states or {} if v not in given]
    if unknown:
        raise ModelError(f"states= names {unknown[0]!r}, which has no table; {did_you_mean(str(unknown[0]), order)}")
    FactorGraph(states or {}, [])  # It checks the states.
    own = {
        v: states[v] if states is not None and v in states else stated_states(v, parents, table)
        for v, (parents, table) in given.items()
    }
    factors = [factor_of(v, parents, table, own) for v, (parents, table) in given.items()]
    return FactorGraph(own, factors, name=name)


def tables_of_arrows(arrows: Sequence[Any], states: States | None) -> dict[str, Any]:
    """Return a table without numbers for each variable of `states`, given pairs (parent, child)."""
    if not isinstance(states, Mapping):
        raise ModelError("A network of pairs (parent, child) needs states=, a mapping from variable to its states.")
    FactorGraph(states, [])  # It checks the states.
    parents: dict[str, list[str]] = {v: [] for v in states}
    for arrow in arrows:
        if not isinstance(arrow, (list, tuple)) or len(arrow) != 2:
            raise ModelError(f"The arrows of a network are pairs (parent, child), found {brief(arrow)}.")
        for end in arrow:
            if not isinstance(end, str):
                raise ModelError(f"An arrow joins the names of two variables, found {brief(end)}.")
            if end not in parents:
                near = did_you_mean(str(end), parents)
                raise ModelError(f"states= has no states of {end!r}; {near}it has those of {listed(parents)}.")
        parents[arrow[1]].append(arrow[0])
    return {v: (own, None) for v, own in parents.items()}


def parents_and_table(variable: object, stated: object) -> tuple[list[str], Any]:
    """Return the parents and the table that a user gave for one variable."""
    if not isinstance(variable, str):
        raise ModelError(f"Tables need the names of variables as keys, found {brief(variable)}.")
    if isinstance(stated, ConditionalTable):
        return [str(p) for p in stated.parents], _nested(stated)
    if isinstance(stated, tuple) and len(stated) == 2 and not isinstance(stated[1], (int, float)):
        parents = [stated[0]] if isinstance(stated[0], str) else as_list(stated[0])
        if parents is None or not all(isinstance(p, str) for p in parents):
            raise ModelError(f"The parents of {variable} must be a name or a list of names, found {brief(stated[0])}.")
        twice = next((p for p in parents if parents.count(p) > 1), None)
        if twice is not None:
            raise ModelError(f"The table of {variable} names the parent {twice} twice. Give it once.")
        return parents, stated[1]
    return [], stated


def check_parents(variable: str, parents: Sequence[str], known: Mapping[str, Any]) -> None:
    """Raise `ModelError` if a parent has no table."""
    for parent in parents:
        if parent not in known:
            raise ModelError(
                f"The table of {variable} names the parent {parent!r}, which has no table; "
                f"{did_you_mean(parent, known)}the tables are of {listed(known)}."
            )


def stated_states(variable: str, parents: Sequence[str], table: Any) -> int | list[str]:
    """Return the states of a variable as its table names them, or their number if it does not name them."""
    if table is None or isinstance(table, StructuredFactor):
        raise ModelError(
            f"The table of {variable} does not name its states. Give states={{{variable!r}: ['no', 'yes']}}."
        )
    depth = 0
    while depth < len(parents) and isinstance(table, Mapping) and table:
        key = next(iter(table))
        depth += len(key) if isinstance(key, tuple) else 1
        table = table[key]
    if isinstance(table, Mapping):
        return list(table)
    numbers = _numbers(variable, table, {})
    if not numbers.ndim:
        raise ModelError(f"The table of {variable} needs rows of probabilities, found {brief(table)}.")
    return int(numbers.shape[-1])


def factor_of(
    variable: str, parents: Sequence[str], table: Any, states: Mapping[str, int | Sequence[str]]
) -> tuple[list[str], Any]:
    """Return the scope and the table [*parents, child] of one variable, after checking its rows."""
    if isinstance(table, StructuredFactor):
        if table.child_slot is None:
            raise ModelError(f"The {table.kind} of {variable} is not a distribution of one variable. Use a table.")
        scope = [*parents]
        scope.insert(table.child_slot, variable)
        return scope, table
    axes = [*parents, variable]
    if table is None:
        shape = [len(_names(states[v])) for v in axes]
        if (size := math.prod(shape)) > _MOST:
            raise ModelError(
                f"The table of {variable} would have {size:.3g} entries, more than 2^30. Give it fewer parents, or a "
                "structured factor such as NoisyMax."
            )
        return axes, np.full(shape, 1.0 / shape[-1])
    values = _read(variable, axes, table, states, {})
    wrong = wrong_row(values)
    if wrong is not None:
        given = ", ".join(f"{p} = {_names(states[p])[x]}" for p, x in zip(parents, wrong[0], strict=True))
        row = f"The row of {variable} for {given}" if given else f"The table of {variable}"
        found = wrong[1].replace("sum to", "sums to").replace("include", "includes")
        raise ModelError(
            f"{row} {found}. Each row of a conditional table must sum to 1 and must not have a negative number."
        )
    return axes, values


def _read(
    variable: str, axes: Sequence[str], table: Any, states: Mapping[str, Any], known: dict[str, object]
) -> FloatArray:
    """Return the numbers [*axes] of a table whose mappings are read by the names of states."""
    shape = tuple(len(_names(states[v])) for v in axes)
    if not isinstance(table, Mapping):
        numbers = _numbers(variable, table, known)
        if numbers.shape != shape:
            turned = len(axes) > 1 and numbers.shape == (shape[-1], numbers.size // shape[-1])
            raise ModelError(
                f"The table of {variable}{_where(known)} needs the shape {shape} ({', '.join(axes)}), found "
                f"{numbers.shape}."
                + (" If its columns are distributions, as in pgmpy, turn it: np.array(table).T." if turned else "")
            )
        return numbers
    values = np.full(shape, np.nan)
    for key, part in table.items():
        keys = key if isinstance(key, tuple) and len(axes) > 1 else (key,)
        if len(keys) > max(1, len(axes) - 1):
            raise ModelError(f"The key {key!r} in the table of {variable} has more states than it has parents.")
        at = tuple(_place(variable, v, states[v], state) for v, state in zip(axes, keys, strict=False))
        now = {**known, **dict(zip(axes, keys, strict=False))}
        rest = axes[len(keys) :]
        values[at] = _read(variable, rest, part, states, now) if rest else _number(variable, part, now)
    missing = np.argwhere(np.isnan(values))
    if len(missing):
        names = {v: _names(states[v])[x] for v, x in zip(axes, missing[0].tolist(), strict=True)}
        raise ModelError(f"The table of {variable} has no number for{_where({**known, **names}, '')}.")
    return values


def _numbers(variable: str, table: Any, where: Mapping[str, object]) -> FloatArray:
    try:
        return as_numbers(table)
    except ValueError as error:
        raise ModelError(f"The table of {variable}{_where(where)} must hold numbers, but {error}.") from None


def _number(variable: str, value: object, where: Mapping[str, object]) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number) or isinstance(value, str):
        raise ModelError(f"The table of {variable}{_where(where)} must hold numbers, found {brief(value)}.")
    return number


def _place(variable: str, axis: str, states: Any, state: object) -> int:
    names = _names(states)
    if state not in names:
        near = did_you_mean(state, names) if isinstance(state, str) else ""
        raise ModelError(
            f"The table of {variable} names the state {state!r} of {axis}, which it does not have; {near}its states "
            f"are {', '.join(map(str, names))}."
        )
    return names.index(state)


def _names(states: Any) -> Sequence[Any]:
    return range(states) if isinstance(states, (int, np.integer)) else list(states)


def _where(known: Mapping[str, object], before: str = " at") -> str:
    return f"{before} {', '.join(f'{v} = {x}' for v, x in known.items())}" if known else ""


def _nested(table: ConditionalTable) -> Any:
    """Return a table as mappings by the names of states."""
    found: Any = {}
    states = table.states
    for at in np.ndindex(*table.values.shape[:-1]):
        row = dict(zip(states[table.variable], table.values[at].tolist(), strict=True))
        found[tuple(states[p][x] for p, x in zip(table.parents, at, strict=True))] = row
    return found if table.parents else found[()]
