"""Tables for formats that list only some entries, kept within a memory limit; sparse ones where that is smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.factors.sparse import SparseTable
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from equifactor.base.typing import FloatArray, IntArray

# A few bytes of a sparse file may ask for any amount of memory; the limit is on all tables together.
MAX_ENTRIES = 2**27  # 1 GiB of float64
_SMALL = 64  # entries up to which a table is as good as a list of tuples


class Placed(Protocol):
    """A place in a file that errors name."""

    @property
    def line(self) -> object:
        """What prints as its line."""

    def error(self, message: str) -> FormatError:
        """An error at this place, to be raised by the caller."""


@dataclass(frozen=True, eq=False)
class ListedValues:
    """The values of some tuples of states of variables with these numbers of states, and one for all others."""

    shape: tuple[int, ...]
    default: float
    states: IntArray  # [n, arity]
    entries: list[int]  # [n] their places in the table
    values: FloatArray  # [n]

    @property
    def is_sparse(self) -> bool:
        """Whether the list takes less memory than the table."""
        size = math.prod(self.shape)
        return len(self.shape) > 1 and max(_SMALL, 1 + len(self.values) * (len(self.shape) + 1)) < size


class DenseTables:
    """Factors in the order of a file, each with a table to be filled in by the reader.

    Args:
        where: the file's name in errors.
        max_entries: the most entries of all tables together.
    """

    def __init__(self, where: str, max_entries: int = MAX_ENTRIES) -> None:
        self._where = where
        self._max_entries = max_entries
        self._num_entries = 0
        self._scopes: list[int] = []
        self._scope_ptr: list[int] = [0]
        self._tables: list[FloatArray] = []
        self._lines: list[object] = []
        self._listed: dict[int, IntArray] = {}  # the configurations of factors that are sparse tables

    def add(self, words: Placed, scope: Sequence[int], card: Sequence[int], fill: float) -> FloatArray:
        """Add a factor and return its flat table [product of card], whose entries are all `fill`, to be filled in.

        `words` stands at the line of the factor, which errors name.
        """
        size = 1
        for d in card:
            size *= d
        self._num_entries += size
        if self._num_entries > self._max_entries:
            raise words.error(
                f"expected tables of at most {self._max_entries} entries in all, found a factor of "
                f"{len(card)} variables with {size if size < 10**15 else f'about {float(size):.0e}'} entries"
            )
        table = np.full(size, fill)
        self._append(words, scope, table)
        return table

    def add_sparse(self, words: Placed, scope: Sequence[int], configurations: IntArray, values: FloatArray) -> None:
        """Add a `SparseTable` from its configurations [n, arity] and its values [1 + n], the default first."""
        self._listed[len(self._tables)] = configurations
        self._append(words, scope, values)

    def add_listed(self, words: Placed, scope: Sequence[int], listed: ListedValues) -> None:
        """Add what takes less memory: a sparse table, or a table of all entries."""
        if listed.is_sparse:
            self.add_sparse(words, scope, listed.states, np.concatenate(([listed.default], listed.values)))
        else:
            self.add(words, scope, listed.shape, listed.default)[listed.entries] = listed.values

    def _append(self, words: Placed, scope: Sequence[int], values: FloatArray) -> None:
        self._scopes += scope
        self._scope_ptr.append(len(self._scopes))
        self._tables.append(values)
        self._lines.append(words.line)

    def renumber(self, number_of: Mapping[int, int]) -> None:
        """Replace the variables in all scopes, for files whose labels have gaps."""
        self._scopes = [number_of[i] for i in self._scopes]

    def graph(
        self,
        card: Sequence[int],
        *,
        log: bool,
        variable_names: Sequence[str] | None = None,
        state_names: Sequence[Sequence[str] | None] | None = None,
        name: str | None = None,
    ) -> FactorGraph:
        """The finished graph; what is wrong with a factor is reported with its line."""
        try:
            structure = self._structure(np.array(card, np.int64), variable_names, state_names)
            phi = np.concatenate(self._tables) if self._tables else np.zeros(0)
            return FactorGraph.trusted(structure, np.zeros(0), None, name).with_potentials(phi, log=log)
        except ModelError as error:
            line = "" if error.factor is None else f":{self._lines[error.factor]}"
            raise FormatError(f"{self._where}{line}: {error}") from None

    def _structure(
        self,
        card: IntArray,
        variable_names: Sequence[str] | None,
        state_names: Sequence[Sequence[str] | None] | None,
    ) -> Structure:
        scope_ptr, scope_vars = np.array(self._scope_ptr), np.array(self._scopes, np.int64)
        if not self._listed:
            return Structure.build(card, scope_ptr, scope_vars, variable_names=variable_names, state_names=state_names)
        kind = np.full(len(self._tables), TABLE)
        kind[list(self._listed)] = SparseTable.number
        words = np.zeros(len(kind), np.int64)
        words[list(self._listed)] = [listed.size for listed in self._listed.values()]
        rows = FactorRows(
            kind,
            scope_ptr, scope_vars,
            ptr_of([len(table) for table in self._tables]), np.concatenate(self._tables),
            ptr_of(words), np.concatenate([listed.ravel() for listed in self._listed.values()]),
            card[scope_vars],
        )  # fmt: skip
        return Structure.of_rows(card, rows, variable_names=variable_names, state_names=state_names)
