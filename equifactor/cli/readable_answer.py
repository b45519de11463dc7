"""Evidence and answers by name, for people: `HR=HIGH,CO=LOW` in, a table of variables and states out."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.status import Task
from equifactor.text_tables import aligned, shown

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.questions.result import Result


def parse_evidence(text: str, graph: FactorGraph) -> dict[int | str, int | str]:
    """Observations written as `VARIABLE=STATE,..`; numbers count from zero where there are no names.

    Quotes go around a pair with a comma in it: `'rain=no,"lawn=wet, very wet"'`.
    """
    found: dict[int | str, int | str] = {}
    for item in _items(text):
        name, equals, state = (part.strip() for part in item.partition("="))
        if not (name and equals and state):
            raise OptionError(f"expected evidence as VARIABLE=STATE, found {brief(item)}")
        variable = _variable(name, graph)
        if variable in found:
            raise OptionError(f"expected each variable once in the evidence, found {brief(name)} again")
        names = graph.structure.state_names
        i = graph.variable(variable)
        found[variable] = state if names is not None and names[i] is not None else _number(state)
    return found


def parse_query(text: str, graph: FactorGraph) -> list[int]:
    """The variables in `BP,SAO2`, of a query or a joint, by name or number."""
    names = _items(text)
    if not names:
        raise OptionError("expected names of variables with commas between them, as in BP,SAO2; found none")
    found = [graph.variable(_variable(name, graph)) for name in names]
    twice = next((name for n, name in enumerate(names) if found[n] in found[:n]), None)
    if twice is not None:
        raise ModelError(f"variable {twice} is named twice; give it once")
    return found


def _items(text: str) -> list[str]:
    """The parts of a list with commas; quotes around a part keep its own."""
    try:
        rows = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise OptionError(f"expected names with commas between them, found {brief(text)} ({error})") from None
    return [item.strip() for row in rows for item in row if item.strip()]


def _variable(name: str, graph: FactorGraph) -> int | str:
    return _number(name) if name not in (graph.structure.variable_names or ()) else name


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else text


def readable(result: Result, graph: FactorGraph, query: Sequence[int] | None = None) -> str:
    """An answer as a table of variables and states by name; without `query` of all variables that are not observed."""
    s = graph.structure
    if result.task is Task.PR and result.log_z is not None:
        return f"ln Z  {result.log_z:.10g}\nlog10 Z  {result.log_z / math.log(10):.10g}\n"
    variables = graph.free_vars.tolist() if query is None else list(query)
    names = s.variable_names or [str(i) for i in range(s.num_vars)]
    rows: list[list[str]] = []
    for i in variables:
        own = [str(state) for state in s.states_of(i)]
        if result.task is Task.MAP and result.assignment is not None:
            rows.append([names[i], own[int(result.assignment[i])]])
        elif result.marginals is not None:
            p = result.marginals[i].tolist()
            rows += [["" if k else names[i], own[k], shown(p[k])] for k in range(len(own))]
    titles = ["variable", "state"] if result.task is Task.MAP else ["variable", "state", "probability"]
    return aligned([titles, *rows], right=[2], rule=True) + "\n"


def by_name(result: Result, graph: FactorGraph, query: Sequence[int]) -> dict[str, object]:
    """The same for JSON: for each variable its state, or the probability of each of its states."""
    s = graph.structure
    found: dict[str, object] = {}
    for i in query:
        name = s.variable_names[i] if s.variable_names else str(i)
        own = [str(state) for state in s.states_of(i)]
        if result.task is Task.MAP and result.assignment is not None:
            found[name] = own[int(result.assignment[i])]
        elif result.marginals is not None:
            found[name] = dict(zip(own, result.marginals[i].tolist(), strict=True))
    return found
