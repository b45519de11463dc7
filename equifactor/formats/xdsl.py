"""Bayesian networks in the format of GeNIe and SMILE (`.xdsl`).

<smile version="1.0" id="alarm"><nodes>
  <cpt id="HR"><state id="LOW"/><state id="HIGH"/><parents>CO</parents><probabilities>0.9 0.1 ..</probabilities></cpt>
  <deterministic id="D"> .. <parents>HR</parents><resultingstates>a b</resultingstates></deterministic>
  <noisymax id="N"> .. <strengths>0 1</strengths><parameters>0.3 0.7  0 1  0.1 0.9</parameters></noisymax>
</nodes></smile>

In `probabilities` the child runs fastest, then the last parent. The states of a noisy-max child are ordered from the
strongest to the state without effect. `strengths` lists the states of each parent, the strongest first. `parameters`
has a distribution of the child for each of these states, and at the end the distribution for the leak. A `NoisyMax`
lists its levels from the weakest, so the states of such a node are reversed in the graph.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import brief
from equifactor.base.files import label, read_bytes, split_name
from equifactor.base.number_text import whole_number
from equifactor.factors.noisy_max import NoisyMax
from equifactor.factors.noisy_or import NoisyOr
from equifactor.formats.network_builder import NetworkBuilder, as_table
from equifactor.formats.words import first_repeated
from equifactor.formats.xdsl_writer import NAME, NUMBER, STATES, write_xdsl
from equifactor.formats.xml_elements import XmlElement, read_xml
from equifactor.graph.parents import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph

__all__ = ["read_xdsl", "write_xdsl"]


def read_xdsl(path: PathLike) -> FactorGraph:
    """Read a Bayesian network: one factor per variable over its parents and, last, itself. Raises `FormatError`.

    A noisy-max node becomes a `NoisyMax`, its states from the weakest to the strongest. If all its variables are binary
    it becomes a `NoisyOr`, with the states in the order of the file, or a table where a weaker state has an effect.
    """
    where = label(path)
    data = read_bytes(path)
    root = read_xml(data, where)
    if root.tag != "smile":
        raise root.error(f"expected <smile> as the outermost element, found <{root.tag[:40]}>")
    nodes = root.first("nodes")
    if nodes is None:
        raise root.error("the element <smile> has no <nodes>.")
    for dynamic in root.all("dynamic"):
        raise dynamic.error("the network has plates (<dynamic>), which are not supported.")
    reader = _XdslReader(where, len(data))
    found = [_XdslNode.read(node) for node in nodes.children]
    if all(node.number is not None for node in found):
        found.sort(key=lambda node: node.number or 0)  # the order of the graph; in the file parents come first
    card = {node.id: len(node.states) for node in found}
    for k, node in enumerate(found):
        is_binary = all(card.get(i, 2) == 2 for i in (node.id, *node.parents))
        if node.element.tag == "noisymax" and not node.is_ordered and not is_binary:
            found[k] = replace(node, states=node.states[::-1], order=node.order[::-1])
        reader.add(found[k])
    for node in found:
        reader.add_distribution(node)
    return reader.network.graph(split_name(path)[0])


@dataclass(frozen=True, eq=False)
class _XdslNode:
    """A node of the file, with the names and orders that `write_xdsl` stored in its properties."""

    element: XmlElement
    id: str
    parents: list[str]  # identifiers
    state_ids: list[str]
    name: str
    states: list[str]
    order: IntArray  # [states] the index in the file of each state of the graph
    is_ordered: bool  # whether the file has the order of the graph
    number: int | None  # the number of the variable in the graph, if the file has it

    @classmethod
    def read(cls, node: XmlElement) -> _XdslNode:
        if node.tag not in _NODE_READERS:
            supported = " or ".join(f"<{tag}>" for tag in _NODE_READERS)
            raise node.error(f"expected {supported}, found <{node.tag[:40]}>, which is not supported")
        own = node.attribute("id")
        ids = [state.attribute("id") for state in node.all("state")]
        if (twice := first_repeated(ids)) is not None:
            raise node.error(f"node '{own}' has the state '{twice}' more than once. Its states must differ.")
        properties = {p.attributes.get("id"): p for p in node.all("property")}
        states, order = ids, np.arange(len(ids))
        if STATES in properties:
            pairs = _pairs(properties[STATES], ids)
            number_of_id = {state: k for k, state in enumerate(ids)}
            states, order = [name for _, name in pairs], np.array([number_of_id[i] for i, _ in pairs])
        name = _text_of(properties[NAME]) if NAME in properties else own
        number = whole_number(properties[NUMBER].text) if NUMBER in properties else None
        listed = node.first("parents")
        parents = listed.text.split() if listed is not None else []
        return cls(node, own, parents, ids, name, states, order, STATES in properties, number)


def _text_of(element: XmlElement) -> str:
    """Return the name in an element, a JSON string."""
    try:
        name = json.loads(element.text)
    except (ValueError, RecursionError):
        name = None
    if not isinstance(name, str):
        raise element.error(f"expected a name in quotes, found {brief(element.text)}")
    return name


def _pairs(element: XmlElement, ids: list[str]) -> list[list[str]]:
    """Return the identifier and the name of each state, in the order of the graph."""
    try:
        pairs = json.loads(element.text)
        if sorted(i for i, _ in pairs) == sorted(ids) and all(isinstance(name, str) for _, name in pairs):
            return pairs
    except (ValueError, TypeError, RecursionError):
        pass
    raise element.error(f"expected the identifier and name of each of {len(ids)} states, found {brief(element.text)}")


class _XdslReader:
    """A reader that adds the nodes of a file to a network."""

    def __init__(self, where: str, num_bytes: int) -> None:
        self.network = NetworkBuilder(where, num_bytes)
        self.nodes: dict[str, _XdslNode] = {}  # by identifier

    def add(self, node: _XdslNode) -> None:
        self.network.add_node(node.name, node.states, node.element.at)
        if self.nodes.setdefault(node.id, node) is not node:
            raise node.element.error(f"the file declares node '{node.id}' twice.")

    def add_distribution(self, node: _XdslNode) -> None:
        listed = node.element.first("parents")
        unknown = next((i for i in node.parents if i not in self.nodes), None)
        if unknown is not None and listed is not None:
            raise listed.error(f"the file does not declare '{unknown[:40]}', which it uses as a parent of '{node.id}'.")
        _NODE_READERS[node.element.tag](self, node, [self.nodes[i] for i in node.parents])

    def _shape(self, node: _XdslNode, parents: list[_XdslNode]) -> tuple[int, ...]:
        return self.network.shape(node.name, [p.name for p in parents], node.element.at)

    def _add_table(self, node: _XdslNode, parents: list[_XdslNode], table: FloatArray) -> None:
        """Add a table [*parents, child] whose states are in the order of the file."""
        for axis, variable in enumerate((*parents, node)):
            if np.any(variable.order != np.arange(len(variable.order))):
                table = np.take(table, variable.order, axis)
        self.network.add_conditional(node.name, [p.name for p in parents], table, node.element.at)

    def cpt(self, node: _XdslNode, parents: list[_XdslNode]) -> None:
        shape = self._shape(node, parents)
        listed = _part(node, "probabilities")
        values = listed.numbers(f"a probability of '{node.id}'")
        self._add_table(node, parents, as_table(node.id, values, shape, listed.error))

    def deterministic(self, node: _XdslNode, parents: list[_XdslNode]) -> None:
        shape = self._shape(node, parents)
        listed = _part(node, "resultingstates")
        words = listed.text.split()
        if len(words) != math.prod(shape[:-1]):
            raise listed.error(f"expected {math.prod(shape[:-1])} states of '{node.id}', found {len(words)}")
        number = {state: k for k, state in enumerate(node.state_ids)}
        wrong = next((word for word in words if word not in number), None)
        if wrong is not None:
            raise listed.error(
                f"expected a state of '{node.id}' (one of {', '.join(number)[:80]}), found '{wrong[:40]}'"
            )
        table = np.zeros((len(words), shape[-1]))
        table[np.arange(len(words)), [number[word] for word in words]] = 1.0
        self._add_table(node, parents, table.reshape(shape))

    def noisymax(self, node: _XdslNode, parents: list[_XdslNode]) -> None:
        self.network.check_names(node.name, [p.name for p in parents], node.element.at)
        strengths = self._strengths(node, parents)
        columns = self._columns(node, parents)
        leak, by_parent = columns[-1], np.split(columns[:-1], np.cumsum([len(p.states) for p in parents]))[:-1]
        binary = len(node.states) == 2 and all(len(p.states) == 2 for p in parents)
        if parents and binary and all(c[1, 0] == 0 and c[1, 1] == 1 for c in by_parent):
            # In the file the first state of the child is the active state; in the graph the two states may be swapped.
            active = [p.order.tolist().index(s[0]) == 1 for p, s in zip(parents, strengths, strict=True)]
            active.append(node.order.tolist().index(0) == 1)
            inhibitors = [float(c[0, 1]) for c in by_parent]
            factor = NoisyOr(float(leak[0]), inhibitors, active, place=len(parents))
            self.network.add_structured(node.name, [p.name for p in parents], factor, node.element.at)
            return
        by_state = [c[np.argsort(s)] for c, s in zip(by_parent, strengths, strict=True)]
        if parents and node.order.tolist() == list(range(len(node.states)))[::-1]:
            causes = [c[p.order][:, ::-1] for p, c in zip(parents, by_state, strict=True)]
            levels = NoisyMax(leak[::-1], causes, place=len(parents))
            self.network.add_structured(node.name, [p.name for p in parents], levels, node.element.at)
            return
        shape = self._shape(node, parents)
        # The child is at most as strong as a state if the leak and all parents cause at most that state. So the
        # probability is a product of sums.
        below = np.broadcast_to(_from_the_end(leak), shape)
        for axis, c in enumerate(by_state):
            below = below * _from_the_end(c).reshape([1] * axis + [len(c)] + [1] * (len(parents) - axis - 1) + [-1])
        table = below.copy()
        table[..., :-1] -= below[..., 1:]
        self._add_table(node, parents, np.maximum(table, 0.0))

    def _strengths(self, node: _XdslNode, parents: list[_XdslNode]) -> list[list[int]]:
        """Return the states of each parent, the strongest first."""
        cards = [len(p.states) for p in parents]
        listed = node.element.first("strengths")
        if listed is None:
            return [list(range(d)) for d in cards]
        numbers = listed.numbers("the number of a state")
        found = [part.tolist() for part in np.split(np.array(numbers), np.cumsum(cards)[:-1])] if cards else []
        if len(numbers) != sum(cards) or any(sorted(s) != list(range(d)) for s, d in zip(found, cards, strict=True)):
            raise listed.error(f"<strengths> must list each of the {sum(cards)} parent states of '{node.id}' once.")
        return [list(map(int, part)) for part in found]

    def _columns(self, node: _XdslNode, parents: list[_XdslNode]) -> FloatArray:
        """Return the distributions [sum of the states of the parents + 1, states of the child] of a noisy-max node."""
        shape = (sum(len(p.states) for p in parents) + 1, len(node.states))
        listed = _part(node, "parameters")
        values = listed.numbers(f"a probability of '{node.id}'")
        if len(values) != math.prod(shape):
            raise listed.error(f"expected {math.prod(shape)} parameters of '{node.id}', found {len(values)}")
        columns = np.array(values).reshape(shape)
        wrong = (np.abs(columns.sum(axis=1) - 1.0) > ROUNDING) | (columns < 0).any(axis=1)
        if wrong.any():
            n = int(np.argmax(wrong))
            found = "has a negative number" if (columns[n] < 0).any() else f"sums to {columns[n].sum():.6g}"
            raise listed.error(
                f"distribution {n + 1} in the parameters of '{node.id}' {found}. Its numbers must not be negative and "
                "must sum to 1."
            )
        sums = columns.sum(axis=1, keepdims=True)
        return np.where(np.abs(sums - 1.0) > 1e-9, columns / sums, columns)  # unrounded numbers stay as they are


def _part(node: _XdslNode, tag: str) -> XmlElement:
    found = node.element.first(tag)
    if found is None:
        raise node.element.error(f"node '{node.id}' has no <{tag}>.")
    return found


def _from_the_end(probabilities: FloatArray) -> FloatArray:
    """Return the probability [.., states] of each state or a weaker state."""
    return np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1]


_NODE_READERS: dict[str, Callable[[_XdslReader, _XdslNode, list[_XdslNode]], None]] = {
    "cpt": _XdslReader.cpt,
    "deterministic": _XdslReader.deterministic,
    "noisymax": _XdslReader.noisymax,
}
