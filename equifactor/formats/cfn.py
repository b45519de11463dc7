"""Cost function networks in the format of toulbar2 (`.cfn`).

    { "problem": { "name": "example", "mustbe": "<100.0" },       costs of 100 or more forbid; ">" maximises
      "variables": { "A": ["low", "high"], "B": 3 },              names of the states, or their number
      "functions": {
        "f": { "scope": ["A", "B"], "costs": [0, 1.5, 100, 2, 2, 0.25] },                   the last variable fastest
        "g": { "scope": ["A", "B"], "defaultcost": 5, "costs": ["low", 2, 1, "high", 0, 100] },    tuple, cost, ..
        "h": { "scope": ["B", "A"], "costs": "g" } } }            the costs of another function

Costs are decimal numbers whose sum is minimised: log phi = -cost. As in toulbar2, quotes, commas and colons may be
left out, and a line that begins with # is a comment.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.base.files import label, read_bytes, split_name
from equifactor.formats.cfn_parser import CfnFunction, CfnParser
from equifactor.formats.cfn_writer import MARK, write_cfn
from equifactor.formats.dense_tables import DenseTables, ListedValues
from equifactor.formats.tokens import TokenStream

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph

__all__ = ["read_cfn", "write_cfn"]


def read_cfn(path: PathLike) -> FactorGraph:
    """Read a toulbar2 problem whose cost functions are lists of costs.

    A function with a default cost whose list of tuples is shorter than its table becomes a `SparseTable`. Raises
    `FormatError`, also for cost functions with a `type` (`salldiff`, `knapsack`, ...).
    """
    data, where = read_bytes(path), label(path)
    parser = CfnParser(TokenStream(data, where, (r"(?m:^#[^\n]*)",), "{}[],:"))
    parser.read()
    return _graph(parser, _own_names(data, where), split_name(path)[0])


def _own_names(data: bytes, where: str) -> dict[str, tuple[str, list[str] | None]]:
    """Return the names of variables and states that toulbar2 cannot read, from the comments of `write_cfn`."""
    found = {}
    for comment in re.finditer(rb"(?m)^%b(.*)$" % MARK.encode(), data):
        try:
            variable, name, states = json.loads(comment[1])
            texts = [variable, name, *(states or [])]
        except (ValueError, TypeError, RecursionError):
            texts = [None]
        if not all(isinstance(text, str) for text in texts):
            line = data.count(b"\n", 0, comment.start()) + 1
            raise FormatError(
                f"{where}:{line}: expected the names of a variable and its states after {MARK.strip()}, as JSON"
            )
        found[variable] = name, states
    return found


def _graph(parser: CfnParser, own_names: dict[str, tuple[str, list[str] | None]], name: str | None) -> FactorGraph:
    """Return the graph of a file; `own_names` replaces the names that toulbar2 cannot read."""
    tables = DenseTables(parser.tokens.where, parser.tokens.num_bytes)
    for function in parser.functions.values():
        listed = _costs(parser, function)
        if isinstance(listed, ListedValues):
            listed = replace(listed, default=float(_logs(parser, listed.default)), values=_logs(parser, listed.values))
            tables.add_listed(function.position, function.scope, listed)
        else:
            shape = [parser.card[i] for i in function.scope]
            tables.add(function.position, function.scope, shape, 0.0)[:] = _logs(parser, listed)
    names: list[str] = []
    for n, variable in enumerate(parser.variables):
        own, states = own_names.get(variable, (variable, None))
        names.append(own)
        if states is not None and len(set(states)) == parser.card[n]:  # a comment must not change the number of states
            parser.states[n] = states
    return tables.graph(
        parser.card,
        log=True,
        variable_names=names if parser.named else None,
        state_names=parser.states if any(s is not None for s in parser.states) else None,
        name=name,
    )


def _logs(parser: CfnParser, costs: FloatArray | float) -> FloatArray:
    """Return the log potentials of costs."""
    costs = np.asarray(costs)
    forbidden = costs <= parser.bound if parser.maximise else costs >= parser.bound
    logs = costs if parser.maximise else 0.0 - costs  # a cost of 0 must not give -0
    return np.where(forbidden & math.isfinite(parser.bound), -np.inf, logs)


def _costs(parser: CfnParser, function: CfnFunction) -> ListedValues | FloatArray:
    """Return the costs of a function, or of the function that it names."""
    if not isinstance(function.listed, str):
        return function.listed
    other = parser.functions.get(function.listed)
    if other is None or isinstance(other.listed, str):
        raise function.position.error(f"expected the name of a function with costs, found '{function.listed[:40]}'")
    shape, shared = [parser.card[i] for i in function.scope], [parser.card[i] for i in other.scope]
    if shape != shared:
        raise function.position.error(
            f"the function reuses the costs of '{function.listed[:40]}', whose variables have {shared} values. "
            f"Its own variables have {shape} values."
        )
    return other.listed
