"""Evidence and answers by name: reads `HR=HIGH,CO=LOW`, and writes a table of variables and states."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equifactor.base.errors import FormatError, ModelError, OptionError, brief
from equifactor.base.status import Task
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.questions.result import Result


def parse_evidence(text: str, graph: FactorGraph) -> dict[int | str, int | str]:
    """Return the observations in `VARIABLE=STATE,..`; variables and states without names are numbers from 0.

    A pair that contains a comma needs quotes: `'rain=no,"lawn=wet, very wet"'`.
    """
    found: dict[int | str, int | str] = {}
    for item in _items(text):
        name, equals, state = (part.strip() for part in item.partition("="))
        if not (name and equals and state):
            raise OptionError(f"Expected evidence of the form VARIABLE=STATE, found {brief(item)}.")
        variable = _variable(name, graph)
        if variable in found:
            raise OptionError(f"Expected each variable at most once in the evidence, found {brief(name)} twice.")
        names = graph.structure.state_names
        i = graph.variable(variable)
        found[variable] = state if names is not None and names[i] is not None else _number(state)
    return found


def parse_query(text: str, graph: FactorGraph, with_file: bool = False) -> list[int]:
    """Return the variables in `BP,SAO2`, given by name or number, of a query or a joint distribution.

    With `with_file`, the text may be the path of a UAI query file.
    """
    if with_file and Path(text).is_file():
        from equifactor.formats.results import read_query

        return read_query(text, graph)
    if with_file and text.endswith(".query"):
        raise FormatError(f"{text}: cannot read this file: there is no such file.")
    names = _items(text)
    if not names:
        raise OptionError("Expected names of variables separated by commas, such as BP,SAO2; found an empty list.")
    found = [graph.variable(_variable(name, graph)) for name in names]
    twice = next((name for n, name in enumerate(names) if found[n] in found[:n]), None)
    if twice is not None:
        raise ModelError(f"Variable {twice} is named twice. Name it once.")
    return found


def _items(text: str) -> list[str]:
    """Return the parts of a list that is separated by commas; a part in quotes may contain commas."""
    try:
        rows = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise OptionError(f"Expected names separated by commas, found {brief(text)} ({error}).") from None
    return [item.strip() for row in rows for item in row if item.strip()]


def _variable(name: str, graph: FactorGraph) -> int | str:
    return _number(name) if name not in (graph.structure.variable_names or ()) else name


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else text


def readable(result: Result, graph: FactorGraph, query: Sequence[int] | None = None) -> str:
    """Return an answer as a table of names; without a `query`, it lists all unobserved variables.

    The answer to PR is ln Z, with its standard error and its bounds if they are known and ln Z is not proved. If
    neither is known, a line reports that.
    """
    s = graph.structure
    if result.task is Task.PR and result.answered:
        values = {"ln Z": result.log_z, "log10 Z": result.log_z / math.log(10)}
        quality = {
            "standard error of ln Z": result.log_z_error,
            "lower bound of ln Z": result.lower_bound,
            "upper bound of ln Z": result.upper_bound,
        }
        values |= {label: value for label, value in quality.items() if value is not None and result.gap != 0}
        lines = [f"{label}  {value:.10g}\n" for label, value in values.items()]
        return "".join([*lines, "error of ln Z  not known\n"] if result.unjudged else lines)
    variables = graph.free_vars.tolist() if query is None else list(query)
    names = s.variable_names or [str(i) for i in range(s.num_vars)]
    rows: list[list[str]] = []
    for i in variables:
        own = [str(state) for state in s.states_of(i)]
        if result.task.maximises and result.answered:
            rows.append([names[i], own[int(result.assignment[i])]])
        elif hasattr(result, "marginals"):
            p = result.marginals[i].tolist()
            rows += [["" if k else names[i], own[k], shown(p[k])] for k in range(len(own))]
    titles = ["variable", "state"] if result.task.maximises else ["variable", "state", "probability"]
    return aligned([titles, *rows], right=[2], rule=True) + "\n"


def by_name(result: Result, graph: FactorGraph, query: Sequence[int]) -> dict[str, object]:
    """Return an answer by name for JSON: for each variable its state, or the probability of each state."""
    s = graph.structure
    found: dict[str, object] = {}
    for i in query:
        name = s.variable_names[i] if s.variable_names else str(i)
        own = [str(state) for state in s.states_of(i)]
        if result.task.maximises and result.answered:
            found[name] = own[int(result.assignment[i])]
        elif hasattr(result, "marginals"):
            found[name] = dict(zip(own, result.marginals[i].tolist(), strict=True))
    return found
