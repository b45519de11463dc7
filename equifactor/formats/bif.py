"""The interchange format of Bayesian networks (`.bif`).

network alarm { }
variable HR { type discrete [ 3 ] { LOW, NORMAL, HIGH }; }
probability ( HR | CO, BP ) {
  (LOW, HIGH) 0.1, 0.2, 0.7;      a row per state of the parents; `default` stands for those that are not listed
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
from equifactor.formats.network_builder import NetworkBuilder
from equifactor.formats.tokens import TokenStream, quoted, unquoted

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph

_COMMENTS = (r"//[^\n]*", r"/\*[\s\S]*?(?:\*/|\Z)")
_PLAIN = re.compile(r"[\w.+\-<>%$&*#@!?:/^~]+")  # names that need no quotes


def read_bif(path: PathLike) -> FactorGraph:
    """Read a Bayesian network: a factor per variable over its parents and, last, itself. Raises `FormatError`."""
    tokens = TokenStream(read_bytes(path), label(path), _COMMENTS, "{}()[],;|")
    network = NetworkBuilder(tokens.where)
    probabilities: list[int] = []  # where they begin; variables may be declared after them
    while tokens.peek() is not None:
        kind = tokens.next("a block").lower()
        if kind == "network":
            if tokens.peek() != "{":
                tokens.name("the name of the network")
            tokens.skip_block()
        elif kind == "variable":
            _read_variable(tokens, network)
        elif kind == "probability":
            probabilities.append(tokens.at)
            tokens.skip_past("}")
        else:
            raise tokens.error(f"expected 'network', 'variable' or 'probability', found '{kind[:40]}'")
    for tokens.at in probabilities:
        _read_probability(tokens, network)
    return network.graph(split_name(path)[0])


def _read_variable(tokens: TokenStream, network: NetworkBuilder) -> None:
    name, place = tokens.name("the name of a variable"), tokens.at - 1
    tokens.expect("{")
    states: list[str] | None = None
    while not tokens.skip("}"):
        word = tokens.next("'type', 'property' or '}'").lower()
        if word == "property":
            tokens.until(";")
        elif word == "type":
            if tokens.name("'discrete'").lower() != "discrete":
                raise tokens.error(f"expected the variable '{name}' to be discrete")
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
        raise tokens.error(f"expected the states of '{name}', found none", place)
    network.add_node(name, states, tokens.later(place))


def _read_probability(tokens: TokenStream, network: NetworkBuilder) -> None:
    child, parents, place = tokens.child_and_parents("the name of a variable")
    line = tokens.later(place)
    shape = network.shape(child, parents, line)
    table = np.full(shape, np.nan)
    default: list[float] | None = None
    rows = _RowPlaces(network, parents, table)
    tokens.expect("{")
    while not tokens.skip("}"):
        word = tokens.next("a row of the table or '}'")
        if word == "(":
            row = rows.place(tokens)
            rows.flat[row] = _probabilities(tokens, shape[-1], child)
        elif word.lower() == "table":
            if not np.isnan(table).all():
                raise tokens.error(f"expected each row of '{child}' once, found a table beside them")
            values = _probabilities(tokens, table.size, child)
            table[...] = np.moveaxis(np.array(values).reshape(shape[-1:] + shape[:-1]), 0, -1)
        elif word.lower() == "default":
            if default is not None:
                raise tokens.error(f"expected one default row of '{child}', found another")
            default = _probabilities(tokens, shape[-1], child)
        elif word.lower() == "property":
            tokens.until(";")
        else:
            raise tokens.error(f"expected a row, 'table', 'default', 'property' or '}}', found '{word[:40]}'")
    if default is not None:
        rows.flat[np.isnan(rows.flat[:, 0])] = default
    network.add_conditional(child, parents, table, line)


class _RowPlaces:
    """Where the rows of a table are, by the states of the parents."""

    def __init__(self, network: NetworkBuilder, parents: list[str], table: FloatArray) -> None:
        self.parents = parents
        self.number = [{s: n for n, s in enumerate(network.nodes[p].states)} for p in parents]
        self.flat = table.reshape(-1, table.shape[-1])  # a view [rows, states]

    def place(self, tokens: TokenStream) -> int:
        """The row for the states up to the closing bracket."""
        states = [t for t in tokens.until(")") if t != ","]
        if len(states) != len(self.parents):
            raise tokens.error(f"expected a state of each of {len(self.parents)} parents, found {len(states)}")
        row = 0
        for number, parent, state in zip(self.number, self.parents, states, strict=True):
            at = number.get(state, number.get(unquoted(state)))
            if at is None:
                raise tokens.error(
                    f"expected a state of '{parent}', one of {', '.join(number)[:80]}; found {state[:40]}"
                )
            row = row * len(number) + at
        if not math.isnan(self.flat[row, 0]):
            raise tokens.error(f"expected each row once, found the one for ({', '.join(states)[:80]}) again")
        return row


def _probabilities(tokens: TokenStream, count: int, child: str) -> list[float]:
    values = tokens.numbers(tokens.until(";"), "a probability")
    if len(values) != count:
        raise tokens.error(f"expected {count} probabilities of '{child}', found {len(values)}")
    return values


def _is_count(value: float) -> bool:
    return value >= 0 and value.is_integer()


def write_bif(graph: FactorGraph, path: PathLike) -> None:
    """Write a Bayesian network; numbers read back to the same floats.

    Raises `ModelError` where the factors are not one conditional distribution per variable.
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
    """A name as the format writes it: in quotes where it has other than common characters."""
    if _PLAIN.fullmatch(name) and "//" not in name and "/*" not in name:
        return name
    return quoted(name)
