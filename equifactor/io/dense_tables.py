"""Dense tables for formats that list only some entries, kept within a memory limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.errors import FormatError, ModelError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from equifactor.io.words import Words
    from equifactor.typing import FloatArray

# A few bytes of a sparse file may ask for any amount of memory; the limit is on all tables together.
MAX_ENTRIES = 2**27  # 1 GiB of float64


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
        self._lines: list[int] = []

    def add(self, words: Words, scope: Sequence[int], card: Sequence[int], fill: float) -> FloatArray:
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
        self._scopes += scope
        self._scope_ptr.append(len(self._scopes))
        self._tables.append(table)
        self._lines.append(words.line)
        return table

    def renumber(self, number_of: Mapping[int, int]) -> None:
        """Replace the variables in all scopes, for files whose labels have gaps."""
        self._scopes = [number_of[i] for i in self._scopes]

    def graph(
        self,
        card: Sequence[int],
        *,
        log: bool,
        variable_names: Sequence[str] | None = None,
        name: str | None = None,
    ) -> FactorGraph:
        """The finished graph; what is wrong with a factor is reported with its line."""
        try:
            structure = Structure.build(
                np.array(card, np.int64),
                np.array(self._scope_ptr),
                np.array(self._scopes, np.int64),
                variable_names=variable_names,
            )
            phi = np.concatenate(self._tables) if self._tables else np.zeros(0)
            return FactorGraph.from_arrays(structure, phi, log=log, name=name)
        except ModelError as error:
            line = "" if error.factor is None else f":{self._lines[error.factor]}"
            raise FormatError(f"{self._where}{line}: {error}") from None
