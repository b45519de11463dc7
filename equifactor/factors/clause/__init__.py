"""Clauses: at least one literal holds, or a weight is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.factors.ratio_rows import LIMIT
from equifactor.factors.signed_literals import SignedLiterals
from equifactor.graph.small_scopes import as_constants, without_small_scopes
from equifactor.graph.structured_factor import (
    check_signs,
    log_number,
    not_binary,
    number_of_values,
    number_of_words,
    read_signs,
)

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows


@dataclass(frozen=True)
class Clause(SignedLiterals):
    """A clause: 1 if at least one of its literals holds; otherwise 0, or `exp(-weight)` if a weight is given.

    Args:
        signs: for each variable whether its literal holds in state 1 (True) or in state 0 (False); all hold in state 1
            unless signs say otherwise.
        weight: the cost of violating the clause; None for a clause that must hold.

    Examples:
        >>> from equifactor import Clause, FactorGraph
        >>> g = FactorGraph([2, 2, 2], [([0, 1, 2], Clause(signs=[True, False, True], weight=1.5))])
        >>> g.log_score([0, 1, 0])
        -1.5
    """

    signs: Sequence[bool] | None = None
    weight: float | None = None

    kind = "clause"
    has_kernels = True
    has_ratio_kernels = True
    moves = "equifactor.factors.clause.clause_moves:clause_moves"
    tensors = "equifactor.factors.clause.clause_tensors:ClauseTensors"
    comparison = "equifactor.factors.clause.clause_comparison:ClauseComparison"

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return the log value of a violated clause, and one sign per variable."""
        value = -np.inf if self.weight is None else -_weight(self.weight)
        return np.array([value + 0.0]), read_signs(self.signs, len(card), self.kind)

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> Clause:
        """Return the object; signs are left out if all literals are positive."""
        weight = None if log_values[0] == -np.inf else -float(log_values[0]) + 0.0
        return cls(None if words.all() else tuple((words == 1).tolist()), weight)

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require binary variables, one value, and a sign per variable."""
        one = np.ones(rows.num_factors, np.int64)
        return (
            not_binary(rows, cls.kind)
            or number_of_values(rows, one, "log value of a clause")
            or number_of_words(rows, rows.arity, "signs of a clause")
            or check_signs(rows, rows.words)
        )

    @classmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] 0 where a literal holds, the value of the factor elsewhere."""
        holding = cls.holding(rows, states)
        return np.where(holding > 0, 0.0, rows.log_values)

    @classmethod
    def tables(cls, rows: FactorRows) -> FloatArray:
        """Return [N, 2, .., 2] log tables: zero except where every literal fails."""
        arity, count = int(rows.arity[0]), rows.num_factors
        fails = 1 - rows.words.reshape(count, arity)
        tables = np.zeros((count, 2**arity))
        tables[np.arange(count), fails @ (1 << np.arange(arity)[::-1])] = rows.log_values
        return tables.reshape(count, *[2] * arity)

    @classmethod
    def log_ranges(cls, rows: FactorRows) -> FloatArray:
        """Return the distance of the log value of a violated clause from 0, its other value."""
        return np.abs(np.where(np.isneginf(rows.log_values), 0.0, rows.log_values))

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Return a shorter clause, or the constant 1 where an observed literal holds."""
        free = states < 0
        holds = rows.sum_of_edges((states == rows.words).astype(np.int64)) > 0
        kept = free & ~holds[rows.row_of_edge]
        shorter = rows.keep_edges(kept)
        shorter = shorter.with_words(shorter.scope_ptr, rows.words[kept])
        return without_small_scopes(cls, as_constants(shorter, holds, np.zeros(int(holds.sum()))))

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Exclude the failing state of the last literal that can still hold, if the clause must hold."""
        pairs = possible.reshape(-1, 2)
        can_hold = pairs[np.arange(len(pairs)), rows.words]
        left = rows.sum_of_edges(can_hold.astype(np.int64))
        row, hard = rows.row_of_edge, np.isneginf(rows.log_values)
        lost = np.zeros_like(pairs)
        lost[np.arange(len(pairs)), 1 - rows.words] = hard[row] & (left[row] == 1) & can_hold
        lost[hard[row] & (left[row] == 0)] = True
        return lost.ravel()

    @classmethod
    def literal_signs(cls, rows: FactorRows) -> IntArray | None:
        """Return the signs."""
        return rows.words

    @classmethod
    def ratio_numbers(cls, log_values: FloatArray) -> FloatArray | None:
        """Return the log values; None if the value of a violated clause is too large for a linear number."""
        return log_values if np.all(log_values <= LIMIT / 2) else None

    @classmethod
    def add_chains(cls, builder: LoweredBuilder, rows: FactorRows) -> None:
        """Add a chain of "a literal has held so far"."""
        steps = np.full((len(rows.card), 2, 2, 2), -np.inf)  # edge, held before, state, held after
        for x in (0, 1):
            holds = rows.words == x
            steps[holds, 0, x, 1] = 0.0
            steps[~holds, 0, x, 0] = 0.0
            steps[:, 1, x, 1] = 0.0
        start = np.broadcast_to([0.0, -np.inf], (rows.num_factors, 2))
        builder.add_chain(rows, steps, start, np.stack((rows.log_values, np.zeros(rows.num_factors)), axis=1))


def _weight(weight: object) -> float:
    """Return the weight that a user gave; raises `ModelError` unless it is a number above minus infinity."""
    try:
        return -log_number(-weight, "")  # type: ignore[operator]
    except (TypeError, ModelError):
        raise ModelError(
            f"The weight of a clause must be a number, or None for a clause that must hold, found {brief(weight)}."
        ) from None
