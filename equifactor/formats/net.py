"""Bayesian networks in the format of Hugin (`.net`).

net { node_size = (80 40); }
node HR { states = ("LOW" "NORMAL" "HIGH"); label = "Heart rate"; }     % other attributes are skipped
potential (HR | CO BP) { data = (((0.1 0.2 0.7) (0.3 0.3 0.4)) ..); }   the child runs fastest, then the last parent

The name of a node is an identifier. A name with other characters is kept in the attribute `equifactor_name`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.files import label, read_bytes, split_name, write_text
from equifactor.formats.conditionals import conditionals_of, identifiers, names_of
from equifactor.formats.network_builder import NetworkBuilder, as_table
from equifactor.formats.tokens import TokenStream, quoted, unquoted

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.formats.conditionals import Conditional
    from equifactor.graph.factor_graph import FactorGraph

_OTHER_NODES = ("continuous", "decision", "utility", "function", "instance")
_EXPRESSIONS = ("model_data", "model_nodes")  # Attributes of tables that Hugin computes from expressions.


def read_net(path: PathLike) -> FactorGraph:
    """Read a Bayesian network: one factor per variable over its parents and, last, itself. Raises `FormatError`."""
    tokens = TokenStream(read_bytes(path), label(path), (r"%[^\n]*",), "{}()=;|")
    network = NetworkBuilder(tokens.where, tokens.num_bytes)
    own_names: dict[str, str] = {}  # the names of the variables by the identifiers of the file
    potentials: list[int] = []  # the tokens where potentials begin; nodes may be declared after them
    while tokens.peek() is not None:
        keyword = tokens.next("a block").lower()
        if keyword == "discrete":
            tokens.expect("node")
            keyword = "node"
        if keyword == "net":
            tokens.skip_block()
        elif keyword == "node":
            _read_node(tokens, network, own_names)
        elif keyword == "potential":
            potentials.append(tokens.at)
            tokens.skip_past("}")
        elif keyword in _OTHER_NODES:
            raise tokens.error(f"expected a discrete chance node, found a {keyword} node, which is not supported")
        elif keyword == "class":
            raise tokens.error("expected a network, found a class. Object-oriented networks are not supported.")
        else:
            raise tokens.error(f"expected 'net', 'node' or 'potential', found '{keyword[:40]}'")
    for tokens.at in potentials:
        _read_potential(tokens, network, own_names)
    return network.graph(split_name(path)[0])


def _attributes(tokens: TokenStream) -> Iterator[tuple[str, list[str]]]:
    """Yield the attributes of a block with the tokens of their values, and read the brace that ends the block."""
    tokens.expect("{")
    while not tokens.skip("}"):
        key = tokens.name("an attribute or '}'").lower()
        tokens.expect("=")
        yield key, tokens.until(";")


def _read_node(tokens: TokenStream, network: NetworkBuilder, own_names: dict[str, str]) -> None:
    name, index = tokens.name("the name of a node"), tokens.at - 1
    states: list[str] | None = None
    own = name
    for key, value in _attributes(tokens):
        if key == "states":
            states = [unquoted(t) for t in value if t not in ("(", ")")]
        elif key == "equifactor_name" and len(value) == 1:
            own = unquoted(value[0])
    if states is None:
        raise tokens.error(f"node '{name}' has no attribute 'states'.", index)
    network.add_node(own, states, tokens.lazy_line(index))
    if own_names.setdefault(name, own) != own:
        raise tokens.error(f"the file declares node '{name}' twice.", index)


def _read_potential(tokens: TokenStream, network: NetworkBuilder, own_names: dict[str, str]) -> None:
    child, parents, index = tokens.child_and_parents("the name of a node")
    child, parents = own_names.get(child, child), [own_names.get(p, p) for p in parents]
    line = tokens.lazy_line(index)
    shape = network.shape(child, parents, line)
    table = None
    for key, value in _attributes(tokens):
        if key in _EXPRESSIONS:
            raise tokens.error(f"expected the table of '{child}' as numbers, found {key}. Expressions are unsupported.")
        if key == "data":
            values = tokens.numbers(["," if t in ("(", ")") else t for t in value], f"a probability of '{child}'")
            if table is not None:
                raise tokens.error(f"the potential of '{child}' has the attribute 'data' twice.")
            table = as_table(child, values, shape, tokens.error)
    if table is None:
        raise network.error(f"the potential of '{child}' has no attribute 'data'.", line)
    network.add_conditional(child, parents, table, line)


def write_net(graph: FactorGraph, path: PathLike) -> None:
    """Write a Bayesian network; numbers read back to the same logarithms.

    Raises `ModelError` if the factors are not one conditional distribution per variable.
    """
    write_text(path, _text(graph))


def _text(graph: FactorGraph) -> Iterator[str]:
    variables, states = names_of(graph)
    names = identifiers(variables)
    conditionals = conditionals_of(graph, "a .net file")
    yield "net\n{\n}\n"
    for name, own, listed in zip(names, variables, states, strict=True):
        yield f"node {name}\n{{\n  states = ({' '.join(map(quoted, listed))});\n"
        yield f"  label = {quoted(own)};\n  equifactor_name = {quoted(own)};\n}}\n" if name != own else "}\n"
    for c in conditionals:
        given = "".join(f" {names[p]}" for p in c.parents)
        yield f"potential ({names[c.child]}{' |' if given else ''}{given})\n{{\n  data = "
        yield from _data(c)
        yield ";\n}\n"


def _data(c: Conditional) -> Iterator[str]:
    """Yield a table in brackets, one level per axis."""
    rows = c.rows()
    card = c.log_table.shape[:-1]
    sizes = np.cumprod(card[::-1])[::-1].tolist()  # the number of rows in a bracket of each level
    for n, row in enumerate(rows):
        opened = sum(n % size == 0 for size in sizes)
        closed = sum((n + 1) % size == 0 for size in sizes)
        yield f"{'(' * opened}({' '.join(row)}){')' * closed}" + ("" if n == len(rows) - 1 else "\n    ")
