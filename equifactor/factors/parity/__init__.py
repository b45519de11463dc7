"""Parity checks: the number of ones is even, or odd; a log value for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.factors.parity.parity_equations import are_contradictory
from equifactor.graph.small_scopes import without_small_scopes
from equifactor.graph.structured_factor import (
    StructuredFactor,
    log_number,
    not_binary,
    number_of_values,
    number_of_words,
    truth,
)

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows


@dataclass(frozen=True)
class Parity(StructuredFactor):
    """An even number of its binary variables are one, or an odd number: 1 where it holds and 0 elsewhere.

    Args:
        odd: whether the number of ones is odd.
        log_values: the log values of an even and of an odd number of ones, where both are possible.

    Examples:
        >>> from equifactor import FactorGraph, Parity
        >>> g = FactorGraph([2] * 30, [(range(30), Parity(odd=True))])
        >>> g.log_score([1] + [0] * 29)
        0.0
    """

    odd: bool = False
    log_values: tuple[float, float] | None = None

    kind = "parity"
    has_kernels = True
    has_ratio_kernels = True
    is_parity = True
    moves = "equifactor.factors.parity.parity_moves:parity_moves"
    tensors = "equifactor.factors.parity.parity_tensors:ParityTensors"
    comparison = "equifactor.factors.parity.parity_comparison:ParityComparison"

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return two log values, of even and odd."""
        values = (0.0, -np.inf) if self.log_values is None else self.log_values
        if not isinstance(values, (tuple, list, np.ndarray)) or getattr(values, "ndim", 1) != 1 or len(values) != 2:
            raise ModelError(
                f"A parity needs two log values, for an even and an odd number of ones, found {brief(values)}."
            )
        even, odd = (log_number(v, "The log value of a parity") for v in values)
        turned = truth(self.odd, "The option odd of a parity")
        return np.array([odd, even] if turned else [even, odd]), np.zeros(0, np.int64)

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> Parity:
        """Return the object; a hard parity has no log values."""
        even, odd = log_values.tolist()
        if (even, odd) in ((0.0, -np.inf), (-np.inf, 0.0)):
            return cls(odd=odd == 0.0)
        return cls(log_values=(even, odd))

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require binary variables, two values and no words."""
        two, none = np.full(rows.num_factors, 2), np.zeros(rows.num_factors, np.int64)
        return (
            not_binary(rows, cls.kind)
            or number_of_values(rows, two, "log values of a parity")
            or number_of_words(rows, none, "words of a parity")
        )

    @classmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] the value of the parity of each assignment."""
        odd = rows.sum_of_edges(states.T).T % 2
        return rows.log_values[rows.value_ptr[:-1] + odd]

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Return a parity over the free variables, turned where an odd number of the others are one."""
        turned = rows.sum_of_edges(np.where(states < 0, 0, states)) % 2 == 1
        return without_small_scopes(cls, _turned(rows, turned).keep_edges(states < 0))

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Exclude states where at most one variable is free: the states of the others decide its state."""
        pairs = possible.reshape(-1, 2)
        free = pairs[:, 0] & pairs[:, 1]
        left = rows.sum_of_edges(free.astype(np.int64))
        ones = rows.sum_of_edges((pairs[:, 1] & ~free).astype(np.int64))
        values = rows.log_values.reshape(-1, 2)
        fits = values[np.arange(rows.num_factors)[:, None], (ones[:, None] + [0, 1]) % 2] > -np.inf  # [N, 2]
        row = rows.row_of_edge
        some = np.where(left == 0, fits[:, 0], fits.any(axis=1))  # whether any choice of the free variables fits
        last = free & (left[row] == 1)
        return np.where(last[:, None], ~fits[row], ~some[row, None]).ravel()

    @classmethod
    def with_states(cls, rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
        """Turn the parity once for every variable whose states are swapped."""
        return _turned(rows, rows.sum_of_edges(np.asarray(new_state.reshape(-1, 2)[:, 0])) % 2 == 1)

    @classmethod
    def with_slots(cls, rows: FactorRows, edge: IntArray) -> FactorRows:
        """Return the same parity: it has no order."""
        return replace(rows, scope_vars=rows.scope_vars[edge], card=rows.card[edge])

    @classmethod
    def ratio_numbers(cls, log_values: FloatArray) -> FloatArray | None:
        """Return 1 for even and -1 for odd parities; None unless all are hard."""
        even, odd = log_values.reshape(-1, 2).T
        if (np.isneginf(even) == np.isneginf(odd)).any():
            return None
        return np.where(even > odd, 1.0, -1.0)

    @classmethod
    def are_contradictory(cls, rows: FactorRows) -> bool:
        """Return whether the equations of the hard parities have no solution."""
        return are_contradictory(rows)

    @classmethod
    def add_chains(cls, builder: LoweredBuilder, rows: FactorRows) -> None:
        """Add a chain of running parities."""
        step = np.full((2, 2, 2), -np.inf)  # parity so far, state, parity after it
        for before in (0, 1):
            for x in (0, 1):
                step[before, x, before ^ x] = 0.0
        start = np.broadcast_to([0.0, -np.inf], (rows.num_factors, 2))
        steps = np.broadcast_to(step, (len(rows.card), 2, 2, 2))
        builder.add_chain(rows, steps, start, rows.log_values.reshape(-1, 2))


def _turned(rows: FactorRows, turned: BoolArray) -> FactorRows:
    """Return the factors with even and odd exchanged where `turned` [N]."""
    pairs = rows.log_values.reshape(-1, 2)
    return rows.with_values(rows.value_ptr, np.where(turned[:, None], pairs[:, ::-1], pairs).ravel())
