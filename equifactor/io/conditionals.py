"""Bayesian networks as readers build them and as writers need them: one conditional distribution per variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

import numpy as np

from equifactor.errors import FormatError, ModelError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.pointers import ptr_of
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from equifactor.typing import FloatArray, IntArray

_ROUNDING = 0.01  # Published networks have rows that sum to 1 within this, since their numbers are rounded.
_MAX_ENTRIES = 2**27  # 1 GiB of float64, in all tables together
_OWN_ROUNDING = 1e-6  # A factor whose rows sum to 1 within this is a conditional distribution.


class Node(NamedTuple):
    """A variable of a network: its states, and where the file states them."""

    states: tuple[str, ...]
    line: Callable[[], int]


class NetworkBuilder:
    """The variables and conditional distributions of a file, in its order; what is wrong with them has a line.

    Args:
        where: the file's name in errors.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.nodes: dict[str, Node] = {}
        self._given: dict[str, tuple[list[str], FloatArray, Callable[[], int]]] = {}
        self._entries = 0

    def error(self, message: str, line: Callable[[], int]) -> FormatError:
        """An error at a line, to be raised by the caller."""
        return FormatError(f"{self.where}:{line()}: {message}")

    def add_node(self, name: str, states: Sequence[str], line: Callable[[], int]) -> None:
        """A variable."""
        if name in self.nodes:
            raise self.error(f"expected each variable once, found '{name}' again", line)
        if not states:
            raise self.error(f"expected at least one state of '{name}', found none", line)
        if len(set(states)) < len(states):
            twice = next(s for s in states if states.count(s) > 1)
            raise self.error(f"expected different states of '{name}', found '{twice}' more than once", line)
        self.nodes[name] = Node(tuple(states), line)

    def shape(self, child: str, parents: Sequence[str], line: Callable[[], int]) -> tuple[int, ...]:
        """Numbers of states of the parents and the child; checks that all are known and that it fits into memory."""
        for name in (*parents, child):
            if name not in self.nodes:
                kind = "variable" if name == child else f"parent of '{child}'"
                raise self.error(f"expected a {kind} that the file declares, found '{name}'", line)
        if len({*parents, child}) <= len(parents):
            raise self.error(f"expected different variables in the distribution of '{child}', found one twice", line)
        shape = tuple(len(self.nodes[name].states) for name in (*parents, child))
        size = int(np.prod(np.array(shape, float)))
        self._entries += size
        if self._entries > _MAX_ENTRIES:
            raise self.error(
                f"expected tables of at most {_MAX_ENTRIES:,} entries in all, found that of '{child}' with {size:,}",
                line,
            )
        return shape

    def add_conditional(self, child: str, parents: Sequence[str], table: FloatArray, line: Callable[[], int]) -> None:
        """The distribution of a variable given others; the table [*parents, child] has NaN where nothing was said."""
        if child in self._given:
            raise self.error(f"expected one distribution of '{child}', found another", line)
        if np.isnan(table).any():
            row = np.unravel_index(int(np.argmax(np.isnan(table).ravel())), table.shape)[:-1]
            raise self.error(
                f"expected a row for every state of the parents of '{child}', found none for {self._row(parents, row)}",
                line,
            )
        sums = np.asarray(table.sum(axis=-1))
        wrong = ~(np.abs(sums - 1.0) <= _ROUNDING)
        if wrong.any() or np.any(table < 0.0):
            bad = wrong if wrong.any() else (table < 0.0).any(axis=-1)
            row = np.unravel_index(int(np.argmax(bad.ravel())), bad.shape) if bad.ndim else ()
            given = f" given {self._row(parents, row)}" if parents else ""
            found = f"a sum of {sums[row]:.6g}" if wrong.any() else "a negative number"
            raise self.error(f"expected probabilities of '{child}'{given} that sum to 1, found {found}", line)
        self._given[child] = list(parents), table, line

    def _row(self, parents: Sequence[str], row: Sequence[SupportsIndex]) -> str:
        """A row of a table in words."""
        return ", ".join(f"{p}={self.nodes[p].states[s]}" for p, s in zip(parents, row, strict=True))

    def graph(self, name: str | None) -> FactorGraph:
        """One factor per variable, in their order, over its parents and itself, which comes last."""
        number = {n: i for i, n in enumerate(self.nodes)}
        for n, node in self.nodes.items():
            if n not in self._given:
                raise self.error(f"expected a distribution of '{n}', found none", node.line)
        parents = [[number[p] for p in self._given[n][0]] for n in self.nodes]
        cycle = find_cycle(parents)
        if cycle:
            names = list(self.nodes)
            words = " -> ".join(f"'{names[i]}'" for i in (*cycle, cycle[0]))
            raise self.error(f"expected a network without cycles, found {words}", self._given[names[cycle[0]]][2])
        scopes = [[*given, i] for i, given in enumerate(parents)]
        card = [len(node.states) for node in self.nodes.values()]
        structure = Structure.build(
            card,
            ptr_of([len(scope) for scope in scopes]),
            np.array([i for scope in scopes for i in scope], np.int64),
            variable_names=list(self.nodes),
            state_names=[node.states for node in self.nodes.values()],
        )
        phi = np.concatenate([self._given[n][1].ravel() for n in self.nodes]) if self.nodes else np.zeros(0)
        with np.errstate(divide="ignore"):
            return FactorGraph.trusted(structure, np.log(phi), None, name)


def find_cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """Variables around a directed cycle, each a parent of the next; empty where there is none."""
    left = [len(p) for p in parents]
    children: list[list[int]] = [[] for _ in parents]
    for i, given in enumerate(parents):
        for p in given:
            children[p].append(i)
    ready = [i for i, n in enumerate(left) if n == 0]
    while ready:
        for child in children[ready.pop()]:
            left[child] -= 1
            if left[child] == 0:
                ready.append(child)
    if not any(left):
        return []
    path: list[int] = [next(i for i, n in enumerate(left) if n)]
    while path[-1] not in path[:-1]:  # every variable that is left has a parent that is left
        path.append(next(p for p in parents[path[-1]] if left[p]))
    return path[path.index(path[-1]) : -1][::-1]


# ---- writing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conditional:
    """The distribution of one variable given others: a table [*parents, child] of probabilities."""

    child: int
    parents: list[int]
    table: FloatArray


def conditionals_of(graph: FactorGraph, what: str) -> list[Conditional]:
    """One conditional distribution per variable, in order, where the factors of the graph are such.

    Args:
        graph: the model.
        what: the file that is written, in errors.

    Raises:
        ModelError: where the graph is no Bayesian network.
    """
    from equifactor.io.written_tables import with_tables

    if graph.observed is not None:
        raise ModelError(f"{what} holds no evidence; write the network as it was before it was conditioned")
    graph = with_tables(graph, what)
    s = graph.structure
    if s.num_factors != s.num_vars:
        raise ModelError(
            f"{what} holds one conditional distribution per variable, found {s.num_factors} factors for {s.num_vars} "
            "variables; .uai and .fg hold any factors"
        )
    child_of = _children(graph, what)
    found: list[Conditional | None] = [None] * s.num_vars
    for a, (child, slot) in enumerate(child_of):
        scope = s.scope(a).tolist()
        table = np.moveaxis(np.exp(graph.log_table(a)), slot, -1)
        found[child] = Conditional(child, scope[:slot] + scope[slot + 1 :], np.ascontiguousarray(table))
    done = [c for c in found if c is not None]
    cycle = find_cycle([c.parents for c in done])
    if cycle:
        raise ModelError(
            f"{what} holds a network without cycles, found one through variable {cycle[0]}", variable=cycle[0]
        )
    return done


def _children(graph: FactorGraph, what: str) -> list[tuple[int, int]]:
    """For each factor the variable whose conditional distribution it is, and its place in the scope."""
    s = graph.structure
    options: list[list[tuple[int, int]]] = []
    for a in range(s.num_factors):
        table, scope = np.exp(graph.log_table(a)), s.scope(a).tolist()
        fits = [
            (i, slot)
            for slot, i in reversed([*enumerate(scope)])  # the last one is the child in files of Bayesian networks
            if np.all(np.abs(table.sum(axis=slot) - 1.0) <= max(_OWN_ROUNDING, _ROUNDING * (slot == len(scope) - 1)))
        ]
        if not fits:
            raise ModelError(f"{what} holds conditional distributions; factor {a} is none: no axis sums to 1", factor=a)
        options.append(fits)
    owner: dict[int, int] = {}  # the factor of each variable, by augmenting paths
    for a in range(s.num_factors):
        if not _assign(a, options, owner, set()):
            raise ModelError(f"{what} holds one distribution per variable; factor {a} is left without one", factor=a)
    slot_of: list[tuple[int, int]] = [(-1, -1)] * s.num_factors
    for child, a in owner.items():
        slot_of[a] = next(pair for pair in options[a] if pair[0] == child)
    return slot_of


def _assign(a: int, options: list[list[tuple[int, int]]], owner: dict[int, int], seen: set[int]) -> bool:
    """Give factor a one of its variables, moving other factors to others of theirs where needed."""
    for child, _ in options[a]:
        if child in seen:
            continue
        seen.add(child)
        if child not in owner or _assign(owner[child], options, owner, seen):
            owner[child] = a
            return True
    return False


def names_of(graph: FactorGraph) -> tuple[list[str], list[list[str]]]:
    """Names of the variables and of their states, made up as x0, x1 and 0, 1 where there are none."""
    s = graph.structure
    variables = [f"x{i}" for i in range(s.num_vars)] if s.variable_names is None else list(s.variable_names)
    states = [None] * s.num_vars if s.state_names is None else list(s.state_names)
    card: IntArray = s.card
    return variables, [[str(k) for k in range(card[i])] if n is None else list(n) for i, n in enumerate(states)]
