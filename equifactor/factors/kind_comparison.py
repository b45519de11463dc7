"""How factors of a kind are compared, when graphs are compared up to relabelling.

`StructuredFactor.comparison` names a class with these methods. A kind without one is compared by its dense tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from equifactor.graph.factor_rows import FactorRows
from equifactor.graph.kinds import kind_class
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structured_factor import StructuredFactor

MARK = 1000.0  # Tables of auxiliary variables hold multiples of this log value, far from real values. Chosen by hand.


class KindComparison:
    """The comparison of factors of one kind.

    Large factors become small tables that are isomorphic exactly when the factors are. Small factors, and all factors
    of a kind without a class of its own, are compared by their dense tables.
    """

    has_forms: ClassVar[bool] = False  # Whether different rows can have the same values, so that `normal` chooses one.

    def tables(self, kind: type[StructuredFactor], rows: FactorRows) -> FloatArray:
        """Return [N, *shape] log tables of factors of one shape; those of a relabelled factor agree to the last bit."""
        return kind.tables(rows)

    def restated(self, rows: FactorRows) -> FactorRows:
        """Return the same factors; a factor that another kind can state becomes a factor of that kind."""
        return rows

    def encode(
        self, new: AuxiliaryTables, factor: int, row: FactorRows, *, constant: bool = False, tolerance: float = 0.0
    ) -> None:
        """Add the small tables of one large factor.

        Args:
            new: the tables so far.
            factor: the number of the factor.
            row: the factor.
            constant: whether all values of the factor count as equal.
            tolerance: values within this distance count as equal.
        """
        raise NotImplementedError

    def normal(self, row: FactorRows) -> FactorRows:
        """Return one factor in a form that is the same for all factors with the same values; needs `has_forms`."""
        return row


def comparison_of(number: int) -> KindComparison | None:
    """Return the comparison of a kind by its number; None for a kind that is compared by its dense tables only."""
    module, _, name = kind_class(number).comparison.partition(":")
    if not module:
        return None
    found: KindComparison = getattr(importlib.import_module(module), name)()
    return found


class AuxiliaryTables:
    """Auxiliary variables, and tables that replace factors or follow all other factors."""

    def __init__(self, num_vars: int, num_factors: int) -> None:
        self.card: list[int] = []
        self.tags: list[int] = []
        self._num_vars, self._next_factor = num_vars, num_factors
        self._places: list[int] = []
        self._scopes: list[list[int]] = []
        self._tables: list[FloatArray] = []

    def variable(self, card: int) -> int:
        """Add an auxiliary variable and return its number."""
        self.card.append(card)
        return self._num_vars + len(self.card) - 1

    def replace(self, factor: int, scope: list[int], table: FloatArray) -> None:
        """Replace a factor by a table over these variables and a tag."""
        tag = self.variable(1)
        self.tags.append(tag)
        self._add(factor, [tag, *scope], table)

    def add(self, first: int, others: IntArray, tables: list[FloatArray]) -> None:
        """Append a table for the pair of one variable with each of the others."""
        for other, table in zip(others.tolist(), tables, strict=True):
            self.append([first, other], table)

    def append(self, scope: list[int], table: FloatArray) -> None:
        """Append a table after all others."""
        self._add(self._next_factor, scope, table)
        self._next_factor += 1

    def _add(self, place: int, scope: list[int], table: FloatArray) -> None:
        self._places.append(place)
        self._scopes.append(scope)
        self._tables.append(table.ravel())

    def rows(self) -> tuple[IntArray, FactorRows]:
        """Return the number of each table, and the tables; cardinalities of edges are left out."""
        none = np.zeros(len(self._places) + 1, np.int64)
        scope_vars = np.array([i for scope in self._scopes for i in scope], np.int64)
        rows = FactorRows(
            none[:-1],
            ptr_of([len(scope) for scope in self._scopes]), scope_vars,
            ptr_of([len(table) for table in self._tables]), np.concatenate([np.zeros(0), *self._tables]),
            none, none[:0],
            np.zeros(len(scope_vars), np.int64),
        )  # fmt: skip
        return np.array(self._places, np.int64), rows
