"""Building a Bayesian network from a file: variables with their states, and one distribution for each variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.base.number_text import count_text, table_size
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.formats.tokens import one_line
from equifactor.formats.words import first_repeated
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import find_cycle, wrong_row
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.structured_factor import StructuredFactor

_MAX_AXES = 64  # The largest number of axes of a numpy array.


class NetworkNode(NamedTuple):
    """A variable of a network: its states, and a function that finds the line of its declaration."""

    states: tuple[str, ...]
    line: Callable[[], int]


class NetworkBuilder:
    """The variables and conditional distributions of a file, in its order. Errors name the line.

    Args:
        where: the name of the file in errors.
        num_bytes: the size of its text, which limits the number of entries of all tables together.
    """

    def __init__(self, where: str, num_bytes: int) -> None:
        self.where = where
        self._max_entries = most_numbers(num_bytes)
        self.nodes: dict[str, NetworkNode] = {}
        self._given: dict[str, tuple[list[str], FloatArray | StructuredFactor, Callable[[], int]]] = {}
        self._entries = 0

    def error(self, message: str, line: Callable[[], int]) -> FormatError:
        """Return an error at a line, for the caller to raise."""
        return FormatError(f"{self.where}:{line()}: {one_line(message)}")

    def add_node(self, name: str, states: Sequence[str], line: Callable[[], int]) -> None:
        """Add a variable."""
        if name in self.nodes:
            raise self.error(f"the file declares variable '{name}' twice.", line)
        if not states:
            raise self.error(f"variable '{name}' has no states. A variable needs at least one.", line)
        if (twice := first_repeated(states)) is not None:
            raise self.error(f"variable '{name}' has the state '{twice}' more than once. Its states must differ.", line)
        self.nodes[name] = NetworkNode(tuple(states), line)

    def check_names(self, child: str, parents: Sequence[str], line: Callable[[], int]) -> None:
        """Raise `FormatError` if a variable is not declared or occurs twice."""
        for name in (*parents, child):
            if name not in self.nodes:
                role = "" if name == child else f" as a parent of '{child}'"
                raise self.error(f"the file does not declare '{name}', which it uses{role}.", line)
        if (twice := first_repeated([*parents, child])) is not None:
            raise self.error(f"the distribution of '{child}' names the variable '{twice}' twice.", line)

    def shape(self, child: str, parents: Sequence[str], line: Callable[[], int]) -> tuple[int, ...]:
        """Return the numbers of states of the parents and the child.

        Raise `FormatError` if a variable is not declared or the table would be too large.
        """
        self.check_names(child, parents, line)
        shape = tuple(len(self.nodes[name].states) for name in (*parents, child))
        size = table_size(shape)
        self._entries += size
        if len(shape) > _MAX_AXES:
            raise self.error(f"'{child}' has {len(parents)} parents. At most {_MAX_AXES - 1} are supported.", line)
        if self._entries > self._max_entries:
            raise self.error(
                f"the tables of the file have more than {self._max_entries} entries in total. The table of '{child}' "
                f"has {count_text(size)} entries. {limit_text()}",
                line,
            )
        return shape

    def add_conditional(self, child: str, parents: Sequence[str], table: FloatArray, line: Callable[[], int]) -> None:
        """Add the distribution of a variable given its parents; the table [*parents, child] has NaN in missing rows."""
        self._check_new(child, line)
        if np.isnan(table).any():
            row = np.unravel_index(int(np.argmax(np.isnan(table).ravel())), table.shape)[:-1]
            raise self.error(
                f"the table of '{child}' has no row for {self._row(parents, row)}. It needs a row for every state of "
                "its parents.",
                line,
            )
        wrong = wrong_row(table)
        if wrong is not None:
            given = f" given {self._row(parents, wrong[0])}" if parents else ""
            raise self.error(
                f"the probabilities of '{child}'{given} {wrong[1]}. They must not be negative and must sum to 1.", line
            )
        self._given[child] = list(parents), table, line

    def add_structured(
        self, child: str, parents: Sequence[str], factor: StructuredFactor, line: Callable[[], int]
    ) -> None:
        """Add a structured factor over the parents and, last, the child: its distribution given them."""
        self.check_names(child, parents, line)
        self._check_new(child, line)
        self._given[child] = list(parents), factor, line

    def _check_new(self, child: str, line: Callable[[], int]) -> None:
        if child in self._given:
            raise self.error(f"the file has a second distribution of '{child}'. Keep one of them.", line)

    def _row(self, parents: Sequence[str], row: Sequence[SupportsIndex]) -> str:
        """Return the states of the parents of a row as text."""
        return ", ".join(f"{p}={self.nodes[p].states[s]}" for p, s in zip(parents, row, strict=True))

    def graph(self, name: str | None) -> FactorGraph:
        """Return the graph: one factor per variable, in order, whose scope is the parents and then the variable."""
        number = {n: i for i, n in enumerate(self.nodes)}
        for n, node in self.nodes.items():
            if n not in self._given:
                raise self.error(f"variable '{n}' has no distribution. Every variable needs one.", node.line)
        parents = [[number[p] for p in self._given[n][0]] for n in self.nodes]
        cycle = find_cycle(parents)
        if cycle:
            names = list(self.nodes)
            words = " -> ".join(f"'{names[i]}'" for i in (*cycle, cycle[0]))
            line = self._given[names[cycle[0]]][2]
            raise self.error(f"the network has a directed cycle: {words}. A Bayesian network must not have one.", line)
        scopes = [[*given, i] for i, given in enumerate(parents)]
        try:
            return self._factors(scopes, name)
        except ModelError as error:  # for example, a name without letters
            raise FormatError(f"{self.where}: {one_line(str(error))}") from None

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


def as_table(
    child: str, values: list[float], shape: tuple[int, ...], error: Callable[[str], FormatError]
) -> FloatArray:
    """Return the probabilities of a variable as a table; raise `error(message)` if their number is wrong."""
    if len(values) != math.prod(shape):
        raise error(f"expected {math.prod(shape)} probabilities of '{child}', found {len(values)}")
    return np.array(values).reshape(shape)
