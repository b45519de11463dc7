"""Bayesian networks in the interchange format BIF (`.bif`).

network alarm { }
variable HR { type discrete [ 3 ] { LOW, NORMAL, HIGH }; }
probability ( HR | CO, BP ) {
  (LOW, HIGH) 0.1, 0.2, 0.7;      a row per state of the parents; `default` gives the rows that are not listed
}
probability ( CO ) { table 0.2, 0.8; }    with parents, a table has the states of the child slowest
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.files import label, read_bytes, split_name, write_text
from equifactor.formats.conditionals import conditionals_of, names_of
from equifactor.formats.network_builder import NetworkBuilder, as_table
from equifactor.formats.tokens import TokenStream, quoted, unquoted

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph

_COMMENTS = (r"//[^\n]*", r"/\*[\s\S]*?(?:\*/|\Z)")
_UNQUOTED_NAME = re.compile(r"[\w.+\-<>%$&*#@!?:/^~]+")  # Names that need no quotes.


def read_bif(path: PathLike) -> FactorGraph:
    """Read a Bayesian network: one factor per variable over its parents and, last, itself. Raises `FormatError`."""
    tokens = TokenStream(read_bytes(path), label(path), _COMMENTS, "{}()[],;|")
    network = NetworkBuilder(tokens.where, tokens.num_bytes)
    probabilities: list[int] = []  # the tokens where distributions begin; variables may be declared after them
    while tokens.peek() is not None:
        keyword = tokens.next("a block").lower()
        if keyword == "network":
            if tokens.peek() != "{":
                tokens.name("the name of the network")
            tokens.skip_block()
        elif keyword == "variable":
            _read_variable(tokens, network)
        elif keyword == "probability":
            probabilities.append(tokens.at)
            tokens.skip_past("}")
        else:
            raise tokens.error(f"expected 'network', 'variable' or 'probability', found '{keyword[:40]}'")
    for tokens.at in probabilities:
        _read_probability(tokens, network)
    return network.graph(split_name(path)[0])


def _read_variable(tokens: TokenStream, network: NetworkBuilder) -> None:
    name, index = tokens.name("the name of a variable"), tokens.at - 1
    tokens.expect("{")
    states: list[str] | None = None
    while not tokens.skip("}"):
        word = tokens.next("'type', 'property' or '}'").lower()
        if word == "property":
            tokens.until(";")
        elif word == "type":
            if tokens.name("'discrete'").lower() != "discrete":
                raise tokens.error(f"variable '{name}' is not discrete. Only discrete variables are supported.")
            count = None
            if tokens.skip("["):
                count = int(tokens.number("the number of states", _is_count))
                tokens.expect("]")
            tokens.expect("{")
            states = tokens.names_until("}", "a state")
            if count is not None and count != len(states):
                raise tokens.error(f"expected {count} states of '{name}', found {len(states)}")
            tokens.skip(";")
        else:
            raise tokens.error(f"expected 'type', 'property' or '}}', found '{word[:40]}'")
    if states is None:
        raise tokens.error(f"variable '{name}' has no line 'type discrete' with its states.", index)
    network.add_node(name, states, tokens.lazy_line(index))


def _read_probability(tokens: TokenStream, network: NetworkBuilder) -> None:
    child, parents, index = tokens.child_and_parents("the name of a variable")
    line = tokens.lazy_line(index)
    shape = network.shape(child, parents, line)
    table = np.full(shape, np.nan)
    default: FloatArray | None = None
    rows = _TableRows(network, parents, table)
    tokens.expect("{")
    while not tokens.skip("}"):
        word = tokens.next("a row of the table or '}'")
        if word == "(":
            row = rows.read(tokens)
            rows.flat[row] = _probabilities(tokens, shape[-1:], child)
        elif word.lower() == "table":
            if not np.isnan(table).all():
                raise tokens.error(f"the distribution of '{child}' has both rows and a table. Keep one of them.")
            table[...] = np.moveaxis(_probabilities(tokens, shape[-1:] + shape[:-1], child), 0, -1)
        elif word.lower() == "default":
            if default is not None:
                raise tokens.error(f"the distribution of '{child}' has a second default row. Keep one of them.")
            default = _probabilities(tokens, shape[-1:], child)
        elif word.lower() == "property":
            tokens.until(";")
        else:
            raise tokens.error(f"expected a row, 'table', 'default', 'property' or '}}', found '{word[:40]}'")
    if default is not None:
        rows.flat[np.isnan(rows.flat[:, 0])] = default
    network.add_conditional(child, parents, table, line)


class _TableRows:
    """The rows of a table, found by the states of the parents."""

    def __init__(self, network: NetworkBuilder, parents: list[str], table: FloatArray) -> None:
        self.parents = parents
        self.number = [{s: n for n, s in enumerate(network.nodes[p].states)} for p in parents]
        self.flat = table.reshape(-1, table.shape[-1])  # a view [rows, states]

    def read(self, tokens: TokenStream) -> int:
        """Read the states of the parents up to the closing bracket and return the number of their row."""
        states = [t for t in tokens.until(")") if t != ","]
        if len(states) != len(self.parents):
            raise tokens.error(f"expected a state for each of {len(self.parents)} parents, found {len(states)} states")
        row = 0
        for number, parent, state in zip(self.number, self.parents, states, strict=True):
            state_number = number.get(state, number.get(unquoted(state)))
            if state_number is None:
                raise tokens.error(
                    f"expected a state of '{parent}' (one of {', '.join(number)[:80]}), found '{state[:40]}'"
                )
            row = row * len(number) + state_number
        if not math.isnan(self.flat[row, 0]):
            raise tokens.error(f"the row for ({', '.join(states)[:80]}) is given twice. Keep one of them.")
        return row


def _probabilities(tokens: TokenStream, shape: tuple[int, ...], child: str) -> FloatArray:
    return as_table(child, tokens.numbers(tokens.until(";"), "a probability"), shape, tokens.error)


def _is_count(value: float) -> bool:
    return value >= 0 and value.is_integer()


def write_bif(graph: FactorGraph, path: PathLike) -> None:
    """Write a Bayesian network; numbers read back to the same logarithms.

    Raises `ModelError` if the factors are not one conditional distribution per variable.
    """
    write_text(path, _text(graph))


def _text(graph: FactorGraph) -> Iterator[str]:
    variables, states = names_of(graph)
    conditionals = conditionals_of(graph, "a .bif file")
    yield f"network {_plain_or_quoted(graph.name or 'unknown')} {{\n}}\n"
    for name, own in zip(variables, states, strict=True):
        listed = ", ".join(map(_plain_or_quoted, own))
        yield f"variable {_plain_or_quoted(name)} {{\n  type discrete [ {len(own)} ] {{ {listed} }};\n}}\n"
    for c in conditionals:
        child = _plain_or_quoted(variables[c.child])
        if not c.parents:
            yield f"probability ( {child} ) {{\n  table {', '.join(c.texts())};\n}}\n"
            continue
        yield f"probability ( {child} | {', '.join(_plain_or_quoted(variables[p]) for p in c.parents)} ) {{\n"
        names = [list(map(_plain_or_quoted, states[p])) for p in c.parents]
        for given, row in zip(product(*names), c.rows(), strict=True):
            yield f"  ({', '.join(given)}) {', '.join(row)};\n"
        yield "}\n"


def _plain_or_quoted(name: str) -> str:
    """Return a name as the format writes it: in quotes if it has unusual characters."""
    if _UNQUOTED_NAME.fullmatch(name) and "//" not in name and "/*" not in name:
        return name
    return quoted(name)
