"""Bayesian networks as readers build them: variables with their states, and one distribution for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.formats.tokens import sentence
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import ROUNDING
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.factors.noisy_or import NoisyOr

_MAX_ENTRIES = 2**27  # 1 GiB of float64, in all tables together
_MAX_AXES = 64  # numpy has no arrays of more


class NetworkNode(NamedTuple):
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
        self.nodes: dict[str, NetworkNode] = {}
        self._given: dict[str, tuple[list[str], FloatArray | NoisyOr, Callable[[], int]]] = {}
        self._entries = 0

    def error(self, message: str, line: Callable[[], int]) -> FormatError:
        """An error at a line, to be raised by the caller."""
        return FormatError(f"{self.where}:{line()}: {sentence(message)}")

    def add_node(self, name: str, states: Sequence[str], line: Callable[[], int]) -> None:
        """A variable."""
        if name in self.nodes:
            raise self.error(f"expected each variable once, found '{name}' again", line)
        if not states:
            raise self.error(f"expected at least one state of '{name}', found none", line)
        if len(set(states)) < len(states):
            twice = next(s for s in states if states.count(s) > 1)
            raise self.error(f"expected different states of '{name}', found '{twice}' more than once", line)
        self.nodes[name] = NetworkNode(tuple(states), line)

    def check_names(self, child: str, parents: Sequence[str], line: Callable[[], int]) -> None:
        """Refuse unknown variables, and a variable that is given twice."""
        for name in (*parents, child):
            if name not in self.nodes:
                kind = "variable" if name == child else f"parent of '{child}'"
                raise self.error(f"expected a {kind} that the file declares, found '{name}'", line)
        if len({*parents, child}) <= len(parents):
            raise self.error(f"expected different variables in the distribution of '{child}', found one twice", line)

    def shape(self, child: str, parents: Sequence[str], line: Callable[[], int]) -> tuple[int, ...]:
        """Numbers of states of the parents and the child; checks that all are known and that it fits into memory."""
        self.check_names(child, parents, line)
        shape = tuple(len(self.nodes[name].states) for name in (*parents, child))
        size = math.prod(shape)
        self._entries += size
        if self._entries > _MAX_ENTRIES or len(shape) > _MAX_AXES:
            raise self.error(
                f"expected tables of at most {_MAX_ENTRIES} entries in all, found that of '{child}' with "
                f"{len(parents)} parents and {size if size < 10**15 else f'10^{math.log10(size):.0f}'} entries",
                line,
            )
        return shape

    def add_conditional(self, child: str, parents: Sequence[str], table: FloatArray, line: Callable[[], int]) -> None:
        """The distribution of a variable given others; the table [*parents, child] has NaN where nothing was said."""
        self._check_new(child, line)
        if np.isnan(table).any():
            row = np.unravel_index(int(np.argmax(np.isnan(table).ravel())), table.shape)[:-1]
            raise self.error(
                f"expected a row for every state of the parents of '{child}', found none for {self._row(parents, row)}",
                line,
            )
        sums = np.asarray(table.sum(axis=-1))
        wrong = ~(np.abs(sums - 1.0) <= ROUNDING)
        if wrong.any() or np.any(table < 0.0):
            bad = wrong if wrong.any() else (table < 0.0).any(axis=-1)
            row = np.unravel_index(int(np.argmax(bad.ravel())), bad.shape) if bad.ndim else ()
            given = f" given {self._row(parents, row)}" if parents else ""
            found = f"a sum of {sums[row]:.6g}" if wrong.any() else "a negative number"
            raise self.error(f"expected probabilities of '{child}'{given} that sum to 1, found {found}", line)
        self._given[child] = list(parents), table, line

    def add_noisy_or(self, child: str, parents: Sequence[str], factor: NoisyOr, line: Callable[[], int]) -> None:
        """A noisy-or over the parents and, last, the child, where each is binary."""
        self.check_names(child, parents, line)
        self._check_new(child, line)
        self._given[child] = list(parents), factor, line

    def _check_new(self, child: str, line: Callable[[], int]) -> None:
        if child in self._given:
            raise self.error(f"expected one distribution of '{child}', found another", line)

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
        try:
            return self._factors(scopes, name)
        except ModelError as error:  # such as a name without letters
            raise FormatError(f"{self.where}: {sentence(str(error))}") from None

    def _factors(self, scopes: list[list[int]], name: str | None) -> FactorGraph:
        states = [node.states for node in self.nodes.values()]
        given = [self._given[n][1] for n in self.nodes]
        tables = [g.ravel() for g in given if isinstance(g, np.ndarray)]
        of_tables = scopes if len(tables) == len(given) else []
        structure = Structure.build(
            [len(own) for own in states],
            ptr_of([len(scope) for scope in of_tables]),
            np.array([i for scope in of_tables for i in scope], np.int64),
            variable_names=list(self.nodes),
            state_names=states,
        )
        if len(tables) < len(given):
            empty = FactorGraph.trusted(structure, np.zeros(0), None, name)
            return empty.with_factors(list(zip(scopes, given, strict=True)))  # type: ignore[arg-type]
        if not tables:
            return FactorGraph.trusted(structure, np.zeros(0), None, name)
        with np.errstate(divide="ignore"):
            return FactorGraph.trusted(structure, np.log(np.concatenate(tables)), None, name)


def find_cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """Variables around a directed cycle, each a parent of the next, the first one first; empty where there is none."""
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
    cycle = path[path.index(path[-1]) : -1][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
