"""What factors over two variables of labelled states share: Potts and truncated linear factors.

Their words are the labels of the first variable's states, then those of the second's. At first the labels are the
states themselves. When states are renumbered or struck out, the labels move along, and the factor stays the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.factor_rows import FactorRows, merged
from equifactor.graph.structured_factor import TABLE, StructuredFactor, edge_state_ptr, number_of_values
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray, Semiring


class LabelPair(StructuredFactor):
    """A factor over two variables, whose value depends on the labels of their states."""

    num_values: ClassVar[int] = 2
    labels: tuple[tuple[int, ...], tuple[int, ...]] | None

    def _labels(self, card: tuple[int, ...]) -> IntArray:
        """Return the labels of both variables' states, one after the other."""
        if len(card) != 2:
            raise ModelError(f"A {self.kind} factor is over 2 variables, found {len(card)}.")
        if self.labels is None:
            if card[0] != card[1]:
                raise ModelError(
                    f"A {self.kind} factor is over 2 variables with the same number of states, found {card[0]} and "
                    f"{card[1]}. Pass labels=([..], [..]) to say which states are alike."
                )
            return np.tile(np.arange(card[0]), 2)
        try:
            first, second = (np.asarray(own) for own in self.labels)
            whole = all(own.ndim == 1 and own.dtype.kind in "iu" for own in (first, second))
        except (TypeError, ValueError):
            whole = False
        if not whole:
            raise ModelError(
                f"The labels must be two lists of whole numbers, one for each variable, found {brief(self.labels)}."
            )
        first, second = first.astype(np.int64), second.astype(np.int64)
        if (len(first), len(second)) != card or min(first.min(), second.min()) < 0:
            raise ModelError(
                f"The labels must be whole numbers >= 0, one for each of {card[0]} and {card[1]} states, "
                f"found {len(first)} and {len(second)}."
            )
        for own in (first, second):
            if len(np.unique(own)) < len(own):
                raise ModelError(f"The states of a variable need different labels, found {own.tolist()}.")
        return np.concatenate((first, second))

    @staticmethod
    def labels_of_row(card: tuple[int, ...], words: IntArray) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the labels as a user would give them; None if they are the states themselves."""
        first, second = words[: card[0]], words[card[0] :]
        if card[0] == card[1] and np.array_equal(words, np.tile(np.arange(card[0]), 2)):
            return None
        return tuple(first.tolist()), tuple(second.tolist())

    @classmethod
    def values_of_labels(cls, log_values: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return [..] the values of factors with `log_values` [.., num_values] at labels [..] of both variables."""
        raise NotImplementedError

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require two variables, their labels, and the values."""
        if np.any(rows.arity != 2):
            n = int(np.argmax(rows.arity != 2))
            return n, f"A {cls.kind} factor is over 2 variables, found {rows.arity[n]}."
        wrong = number_of_values(rows, np.full(rows.num_factors, cls.num_values), f"log values of a {cls.kind} factor")
        if wrong:
            return wrong
        bad = np.diff(rows.word_ptr) != rows.sum_of_edges(rows.card)
        if bad.any():
            return int(np.argmax(bad)), f"A {cls.kind} factor needs one label for each state of both variables."
        if np.any(rows.words < 0):
            w = int(np.argmax(rows.words < 0))
            return int(np.searchsorted(rows.word_ptr, w, side="right")) - 1, "Labels must be whole numbers >= 0."
        return None

    @classmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] the value of the labels of both states."""
        label = rows.words[edge_state_ptr(rows)[:-1] + states].reshape(len(states), -1, 2)
        return cls.values_of_labels(rows.log_values.reshape(-1, cls.num_values), label[:, :, 0], label[:, :, 1])

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Return a table over the free variable if the other is observed, a constant if both are observed."""
        seen = (states >= 0).reshape(-1, 2)
        whole = np.flatnonzero(~seen.any(axis=1))
        parts = [(whole, rows.take(whole))]
        pairs, cards = states.reshape(-1, 2), rows.card.reshape(-1, 2)
        both = np.flatnonzero(seen.all(axis=1))
        parts.append((both, _as_tables(rows, both, None, cls.log_scores(rows.take(both), pairs[both].reshape(1, -1)))))
        for free in (0, 1):
            one = np.flatnonzero(~seen[:, free] & seen[:, 1 - free])
            for d in np.unique(cards[one, free]).tolist():
                members = one[cards[one, free] == d]
                every = np.repeat(pairs[members][None], d, axis=0)  # [d, N, 2]
                every[:, :, free] = np.arange(d)[:, None]
                values = cls.log_scores(rows.take(members), every.reshape(d, -1))
                parts.append((members, _as_tables(rows, members, free, values)))
        return merged(parts)

    @classmethod
    def with_states(cls, rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
        """Move labels along with the states."""
        kept = new_state >= 0
        ptr = ptr_of(new_card)
        place = np.repeat(ptr[:-1], rows.card) + new_state
        words = np.empty(int(ptr[-1]), np.int64)
        words[place[kept]] = rows.words[kept]
        return replace(rows, card=new_card).with_words(ptr[::2], words)

    @classmethod
    def with_slots(cls, rows: FactorRows, edge: IntArray) -> FactorRows:
        """Exchange the labels of the two variables."""
        first = edge_state_ptr(rows)
        moved = replace(rows, scope_vars=rows.scope_vars[edge], card=rows.card[edge])
        new = ptr_of(moved.card)
        source = np.repeat(first[edge] - new[:-1], moved.card) + np.arange(new[-1])
        return moved.with_words(rows.word_ptr, rows.words[source])

    @classmethod
    def fits_table(cls, rows: FactorRows, semiring: Semiring) -> BoolArray:
        """Return True for every factor: its table over both variables takes its place."""
        return np.ones(rows.num_factors, bool)


def _as_tables(rows: FactorRows, members: IntArray, free: int | None, values: FloatArray) -> FactorRows:
    """Return some factors as tables over variable number `free`, or over none, with values [d, N]."""
    some = rows.take(members)
    kept = np.zeros((len(members), 2), bool)
    if free is not None:
        kept[:, free] = True
    none = np.zeros(len(members) + 1, np.int64)
    tables = some.keep_edges(kept.ravel()).as_kind(TABLE)
    sizes = ptr_of(np.full(len(members), values.shape[0]))
    return tables.with_values(sizes, values.T.ravel()).with_words(none, none[:0])
