"""Tables of formats that list only some entries, within a memory limit.

A factor becomes a `SparseTable` if its list of tuples is smaller than its dense table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.base.number_text import count_text, table_size
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.factors.sparse import SparseTable
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from equifactor.base.typing import FloatArray, IntArray

_ALWAYS_DENSE = 64  # A factor with at most this number of entries always becomes a dense table. Chosen by hand.


class FilePosition(Protocol):
    """A position in a file that errors name."""

    @property
    def line(self) -> object:
        """The line of the position, or an object that prints as the line."""

    def error(self, message: str) -> FormatError:
        """Return an error at this position, for the caller to raise."""


@dataclass(frozen=True, eq=False)
class ListedValues:
    """The values of listed tuples of states, and a default value for all other tuples.

    `shape` has the number of states of each variable.
    """

    shape: tuple[int, ...]
    default: float
    states: IntArray  # [n, arity]
    entries: list[int]  # [n] the indices of the tuples in the flat table
    values: FloatArray  # [n]

    @property
    def is_sparse(self) -> bool:
        """Whether the list takes less memory than the dense table."""
        size = table_size(self.shape)
        return len(self.shape) > 1 and max(_ALWAYS_DENSE, 1 + len(self.values) * (len(self.shape) + 1)) < size


class DenseTables:
    """The factors of a file in its order, each with a table that the reader fills in.

    Args:
        where: the name of the file in errors.
        num_bytes: the size of its text, which limits the number of entries of all tables together.
    """

    def __init__(self, where: str, num_bytes: int) -> None:
        self._where = where
        self._max_entries = most_numbers(num_bytes)
        self._num_entries = 0
        self._scopes: list[int] = []
        self._scope_ptr: list[int] = [0]
        self._tables: list[FloatArray] = []
        self._lines: list[object] = []
        self._listed: dict[int, IntArray] = {}  # the listed tuples [n, arity] of each factor that is a sparse table

    def add(self, position: FilePosition, scope: Sequence[int], card: Sequence[int], fill: float) -> FloatArray:
        """Add a factor and return its flat table [product of card] for the caller to fill in; all entries are `fill`.

        `position` is the position of the factor in the file, which errors name.
        """
        size = table_size(card)
        self._count(position, size, len(card))
        table = np.full(size, fill)
        self._append(position, scope, table)
        return table

    def add_sparse(self, position: FilePosition, scope: Sequence[int], tuples: IntArray, values: FloatArray) -> None:
        """Add a `SparseTable` from its listed tuples [n, arity] and its values [1 + n], the default first."""
        self._count(position, tuples.size + len(values), len(scope))  # functions may share a list
        self._listed[len(self._tables)] = tuples
        self._append(position, scope, values)

    def add_listed(self, position: FilePosition, scope: Sequence[int], listed: ListedValues) -> None:
        """Add the sparse or the dense table, depending on which takes less memory."""
        if listed.is_sparse:
            self.add_sparse(position, scope, listed.states, np.concatenate(([listed.default], listed.values)))
        else:
            self.add(position, scope, listed.shape, listed.default)[listed.entries] = listed.values

    def _count(self, position: FilePosition, size: int, arity: int) -> None:
        """Raise `FormatError` if the tables of the file would have more entries than the limit."""
        self._num_entries += size
        if self._num_entries > self._max_entries:
            raise position.error(
                f"the tables of the file have more than {self._max_entries} entries in total. This factor of {arity} "
                f"variables has {count_text(size)} entries. {limit_text()}"
            )

    def _append(self, position: FilePosition, scope: Sequence[int], values: FloatArray) -> None:
        self._scopes += scope
        self._scope_ptr.append(len(self._scopes))
        self._tables.append(values)
        self._lines.append(position.line)

    def renumber(self, number_of: Mapping[int, int]) -> None:
        """Renumber the variables in all scopes, for files whose labels have gaps."""
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
        """Return the graph. An error in a factor names the line of the factor."""
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
        num_words = np.zeros(len(kind), np.int64)
        num_words[list(self._listed)] = [listed.size for listed in self._listed.values()]
        rows = FactorRows(
            kind,
            scope_ptr, scope_vars,
            ptr_of([len(table) for table in self._tables]), np.concatenate(self._tables),
            ptr_of(num_words), np.concatenate([listed.ravel() for listed in self._listed.values()]),
            card[scope_vars],
        )  # fmt: skip
        return Structure.of_rows(card, rows, variable_names=variable_names, state_names=state_names)
