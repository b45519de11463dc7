"""Writing Bayesian networks for GeNIe and SMILE.

In the file, identifiers consist of letters, digits and underscores, and parents come before their children. Names and
orders that differ from this are kept in user properties of the nodes, so that the same graph is read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.files import write_text
from equifactor.factors.noisy_max import NoisyMax
from equifactor.factors.noisy_or import NoisyOr
from equifactor.formats.conditionals import conditionals_of, identifiers, names_of
from equifactor.formats.xml_elements import as_xml

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.formats.conditionals import Conditional
    from equifactor.graph.factor_graph import FactorGraph

NAME, STATES, NUMBER = "equifactor_name", "equifactor_states", "equifactor_number"  # The user properties of nodes.
_BOXES_PER_ROW = 8  # The number of boxes in a row of the drawing that GeNIe shows. Chosen by hand.


def write_xdsl(graph: FactorGraph, path: PathLike) -> None:
    """Write a Bayesian network; numbers read back to the same logarithms; `NoisyOr` and `NoisyMax` are preserved.

    Raises `ModelError` if the factors are not one conditional distribution per variable.
    """
    write_text(path, _text(graph))


def _text(graph: FactorGraph) -> Iterator[str]:
    writer = _XdslWriter(graph)
    name = identifiers([graph.name or "network"])[0]
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<smile version="1.0" id="{name}" numsamples="10000">\n<nodes>\n'
    order = _parents_first(writer.conditionals)
    for i in order:
        yield from writer.node(writer.conditionals[i], in_order=order == sorted(order))
    yield f'</nodes>\n<extensions>\n<genie version="1.0" app="equifactor" name="{name}">\n'
    for position, i in enumerate(order):
        yield writer.box(i, position)
    yield "</genie>\n</extensions>\n</smile>\n"


class _XdslWriter:
    """A writer for the nodes of a graph."""

    def __init__(self, graph: FactorGraph) -> None:
        self.variables, self.states = names_of(graph)
        self.conditionals = conditionals_of(graph, "an .xdsl file", noisy=True)
        self.ids = identifiers(self.variables)
        self.state_ids = [identifiers(own) for own in self.states]
        # In the file the last state of a noisy child is the state without effect.
        self.orders = [np.arange(len(own)) for own in self.states]
        for c in self.conditionals:
            factor = c.noisy
            swapped = isinstance(factor, NoisyOr) and (factor.signs is None or factor.signs[factor.place])
            if swapped or isinstance(factor, NoisyMax):
                self.orders[c.child] = self.orders[c.child][::-1]

    def node(self, c: Conditional, in_order: bool) -> Iterator[str]:
        """Yield the element of a node; it has a number if the nodes of the file are not in the order of the graph."""
        order, ids = self.orders[c.child], self.state_ids[c.child]
        kind = "cpt" if c.noisy is None else "noisymax"
        states = "".join(f'    <state id="{ids[k]}" />\n' for k in order)
        yield f'  <{kind} id="{self.ids[c.child]}">\n{states}'
        if c.parents:
            yield f"    <parents>{' '.join(self.ids[p] for p in c.parents)}</parents>\n"
        if c.noisy is None:
            yield "    <probabilities>"
            yield " ".join(self._in_file_order(c).texts())
            yield "</probabilities>\n"
        else:
            yield self._noisy_max(c, c.noisy)
        if self.ids[c.child] != self.variables[c.child]:
            yield f'    <property id="{NAME}">{as_xml(json.dumps(self.variables[c.child]))}</property>\n'
        if ids != self.states[c.child] or order[0] > 0:
            pairs = json.dumps(list(zip(ids, self.states[c.child], strict=True)))
            yield f'    <property id="{STATES}">{as_xml(pairs)}</property>\n'
        if not in_order:
            yield f'    <property id="{NUMBER}">{c.child}</property>\n'
        yield f"  </{kind}>\n"

    def box(self, i: int, position: int) -> str:
        """Return the element that makes GeNIe draw a node: its name in a box, the boxes in rows."""
        row, column = divmod(position, _BOXES_PER_ROW)
        name = " ".join("".join(c if c.isprintable() else " " for c in self.variables[i]).split())
        return (
            f'  <node id="{self.ids[i]}">\n    <name>{as_xml(name or self.ids[i])}</name>\n'
            '    <interior color="e5f6f7" />\n    <outline color="000080" />\n'
            '    <font color="000000" name="Arial" size="8" />\n'
            f"    <position>{140 * column} {100 * row} {140 * column + 100} {100 * row + 50}</position>\n  </node>\n"
        )

    def _in_file_order(self, c: Conditional) -> Conditional:
        orders = [self.orders[i] for i in (*c.parents, c.child)]
        if all(order[0] == 0 for order in orders):
            return c
        return type(c)(c.child, c.parents, c.log_table[np.ix_(*orders)])

    def _noisy_max(self, c: Conditional, factor: NoisyOr | NoisyMax) -> str:
        if isinstance(factor, NoisyMax):
            tables = [np.asarray(cause)[self.orders[p]] for p, cause in zip(c.parents, factor.causes, strict=True)]
            rows = np.concatenate([*tables, np.asarray(factor.leak)[None]])[:, ::-1]
            strongest_first = [str(k) for p in c.parents for k in range(len(self.orders[p]))]
            return (
                f"    <strengths>{' '.join(strongest_first)}</strengths>\n"
                f"    <parameters>{' '.join(map(repr, rows.ravel().tolist()))}</parameters>\n"
            )
        signs = [True] * (len(c.parents) + 1) if factor.signs is None else list(factor.signs)
        signs = signs[: factor.place] + signs[factor.place + 1 :]
        strengths = []
        for p, sign in zip(c.parents, signs, strict=True):
            active = self.orders[p].tolist().index(int(sign))
            strengths += [active, 1 - active]
        columns = [f"{1.0 - q!r} {q!r} 0 1" for q in map(float, factor.inhibitors)]
        leak = float(factor.leak)
        return (
            f"    <strengths>{' '.join(map(str, strengths))}</strengths>\n"
            f"    <parameters>{' '.join(columns)} {leak!r} {1.0 - leak!r}</parameters>\n"
        )


def _parents_first(conditionals: list[Conditional]) -> list[int]:
    """Return the variables with parents before their children, otherwise in their own order."""
    done: set[int] = set()
    order: list[int] = []
    for first in range(len(conditionals)):
        path = [first]
        while path:
            i = path[-1]
            missing = [p for p in conditionals[i].parents if p not in done]
            if i in done or not missing:
                path.pop()
                if i not in done:
                    done.add(i)
                    order.append(i)
            else:
                path += missing
    return order
