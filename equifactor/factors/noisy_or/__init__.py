"""Noisy-or: an effect that each active cause brings about unless it is inhibited, or that occurs without a cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.factors.noisy_or.noisy_or_words import IN_SCOPE, OFF, ON
from equifactor.graph.factor_rows import row_any, row_sums
from equifactor.graph.small_scopes import without_small_scopes
from equifactor.graph.structured_factor import (
    StructuredFactor,
    check_signs,
    not_binary,
    number_of_values,
    number_of_words,
    read_signs,
    truth,
)
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows


@dataclass(frozen=True)
class NoisyOr(StructuredFactor):
    """The effect, first in the scope, is absent with probability `(1 - leak) * product of inhibitors of active causes`.

    All variables are binary, and state 1 is active.

    Args:
        leak: the probability of the effect without any active cause.
        inhibitors: for each cause the probability that it fails to bring about the effect although it is active.

    Examples:
        >>> from equifactor import FactorGraph, NoisyOr, solve
        >>> g = FactorGraph([2, 2, 2], [([0, 1, 2], NoisyOr(leak=0.1, inhibitors=[0.5, 0.2]))])
        >>> round(float(solve(g, "MAR", "exact", evidence={1: 1, 2: 0}).marginals[0][1]), 6)  # 1 - 0.9 * 0.5
        0.55
    """

    leak: float = 0.0
    inhibitors: Sequence[float] = ()
    signs: Sequence[bool] | None = None  # of the variables of the scope; False where state 0 is the active one
    effect: bool | None = None  # the known state of an effect that is not in the scope
    place: int = 0  # of the effect in the scope

    kind = "noisy_or"
    has_kernels = True
    moves = "equifactor.factors.noisy_or.noisy_or_moves:noisy_or_moves"
    tensors = "equifactor.factors.noisy_or.noisy_or_tensors:NoisyOrTensors"
    comparison = "equifactor.factors.noisy_or.noisy_or_comparison:NoisyOrComparison"
    learning = "equifactor.factors.noisy_or.noisy_or_learning:NoisyOrLearning"
    nonlinear_values = True
    searches_maxima = True
    lowered_by_chance = True

    @property
    def child_slot(self) -> int | None:
        """The place of the effect, unless it is observed."""
        return self.place if self.effect is None else None

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return ln(1 - leak) and the log inhibitors; the words are the state or place of the effect, and the signs."""
        causes = len(card) - (self.effect is None)
        leak, inhibitors = _probabilities(self.leak, "leak"), _probabilities(self.inhibitors, "inhibitors")
        if leak.ndim or inhibitors.shape != (max(causes, 0),) or not len(card):
            raise ModelError(
                f"A noisy_or over {len(card)} variables, the effect first, needs one leak and {max(causes, 0)} "
                f"inhibitors, found {inhibitors.size} inhibitors."
            )
        whole = isinstance(self.place, (int, np.integer))
        if self.effect is None and not (whole and 0 <= self.place < len(card)):
            raise ModelError(f"The effect of a noisy_or over {len(card)} variables cannot be at place {self.place!r}.")
        known = (
            IN_SCOPE + self.place if self.effect is None else int(truth(self.effect, "The known state of an effect"))
        )
        with np.errstate(divide="ignore"):
            values = np.concatenate(([np.log1p(-leak)], np.log(inhibitors)))
        return values, np.concatenate(([known], read_signs(self.signs, len(card), self.kind)))

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> NoisyOr:
        """Return the object, with probabilities from their logs."""
        known, signs = int(words[0]), words[1:]
        return cls(
            float(-np.expm1(log_values[0])),
            tuple(np.exp(log_values[1:]).tolist()),
            None if signs.all() else tuple((signs == 1).tolist()),
            bool(known) if known < IN_SCOPE else None,
            max(known - IN_SCOPE, 0),
        )

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require binary variables, a leak and an inhibitor per cause, all of them probabilities."""
        wrong = not_binary(rows, cls.kind) or number_of_words(rows, rows.arity + 1, "words of a noisy_or")
        if wrong:
            return wrong
        known = rows.words[rows.word_ptr[:-1]]
        bad = (known < OFF) | (known >= IN_SCOPE + rows.arity)
        if bad.any():
            return int(np.argmax(bad)), "The first word of a noisy_or must be 0, 1 or 2 + the place of its effect."
        wrong = number_of_values(rows, rows.arity + 1 - (known >= IN_SCOPE), "log values of a noisy_or")
        if wrong:
            return wrong
        above = row_any(rows.log_values > 0, rows.value_ptr)
        if above.any():
            return int(
                np.argmax(above)
            ), "The log values of a noisy_or must be logs of probabilities, found one above 0."
        return check_signs(rows, _signs(rows))

    @classmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] the log probability of the effect, or of its absence, given the causes."""
        active = states == _signs(rows)
        is_effect, inhibitor = _effects(rows), _inhibitor_of_edge(rows)
        # A product with 0 would make NaN of an infinite log.
        failing = np.where(active & ~is_effect, inhibitor, 0.0)
        log_off = rows.log_values[rows.value_ptr[:-1]] + rows.sum_of_edges(failing.T).T
        known = rows.words[rows.word_ptr[:-1]]
        on = np.broadcast_to(known == ON, log_off.shape).copy()
        on[:, known >= IN_SCOPE] = active[:, is_effect]
        return np.where(on, log1mexp(log_off), log_off)

    @classmethod
    def log_ranges(cls, rows: FactorRows) -> FloatArray:
        """Return the range over all causes for an absent effect, or the cost of the weakest cause of a present one."""
        values = rows.log_values
        off = row_sums(np.where(np.isneginf(values), 0.0, -values), rows.value_ptr)
        on = -log1mexp(np.where(values < 0, values, -np.inf))  # of each cause or the leak alone
        return np.maximum(off, np.maximum.reduceat(on, rows.value_ptr[:-1]))

    @classmethod
    def keeps_powers(cls, rows: FactorRows) -> BoolArray:
        """Return True if the effect is known to be absent: then the factor is a product."""
        return np.asarray(rows.words[rows.word_ptr[:-1]] == OFF)

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Add active causes to the leak, drop inactive ones, and remember an observed effect."""
        free, is_effect, signs = states < 0, _effects(rows), _signs(rows)
        active = ~free & (states == signs)
        leak = rows.log_values[rows.value_ptr[:-1]]
        inhibitor = _inhibitor_of_edge(rows)
        leak = leak + rows.sum_of_edges(np.where(active & ~is_effect, inhibitor, 0.0))
        known = rows.words[rows.word_ptr[:-1]].copy()
        seen = is_effect & ~free
        known[rows.row_of_edge[seen]] = active[seen]
        left = rows.keep_edges(free)
        stays = is_effect & free
        places = np.cumsum(free) - 1  # of the free edges among themselves
        known[rows.row_of_edge[stays]] = IN_SCOPE + places[stays] - left.scope_ptr[rows.row_of_edge[stays]]
        is_cause = free & ~is_effect
        causes = rows.sum_of_edges(is_cause.astype(np.int64))
        left = left.with_values(*_headed(leak, inhibitor[is_cause], causes))
        return without_small_scopes(cls, left.with_words(*_headed(known, signs[free], left.arity)))

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Require a leak or a possible cause for presence, and inhibitors above 0 for absence."""
        pairs = possible.reshape(-1, 2)
        edge, row, signs = np.arange(len(pairs)), rows.row_of_edge, _signs(rows)
        is_effect, inhibitor = _effects(rows), _inhibitor_of_edge(rows)
        can_act, can_rest = pairs[edge, signs], pairs[edge, 1 - signs]
        leak, known = rows.log_values[rows.value_ptr[:-1]], rows.words[rows.word_ptr[:-1]].copy()
        only_on, only_off = is_effect & ~can_rest, is_effect & ~can_act
        known[row[only_on]], known[row[only_off]] = ON, OFF
        surely_blocks = np.isneginf(inhibitor) & ~is_effect & ~can_rest
        can_be_off = ~np.isneginf(leak) & (rows.sum_of_edges(surely_blocks.astype(np.int64)) == 0)
        helps = can_act & ~is_effect & (inhibitor < 0)
        num_helps = rows.sum_of_edges(helps.astype(np.int64))
        can_be_on = (leak < 0) | (num_helps > 0)
        lost_active = np.where(is_effect, ~can_be_on[row], (known[row] == OFF) & np.isneginf(inhibitor))
        alone = helps & (num_helps[row] == 1) & ~(leak < 0)[row]
        lost_resting = np.where(is_effect, ~can_be_off[row], (known[row] == ON) & alone)
        nothing = ((known == ON) & ~can_be_on) | ((known == OFF) & ~can_be_off)
        lost = np.empty_like(pairs)
        lost[edge, signs], lost[edge, 1 - signs] = lost_active, lost_resting
        return (lost | nothing[row][:, None]).ravel()

    @classmethod
    def with_states(cls, rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
        """Turn the sign of a variable whose states are swapped."""
        known = rows.words[rows.word_ptr[:-1]]
        return rows.with_words(*_headed(known, _signs(rows) ^ new_state.reshape(-1, 2)[:, 0], rows.arity))

    @classmethod
    def with_slots(cls, rows: FactorRows, edge: IntArray) -> FactorRows:
        """Move signs and inhibitors along with their variables, and remember the place of the effect."""
        moved = replace(rows, scope_vars=rows.scope_vars[edge], card=rows.card[edge])
        known, is_effect = rows.words[rows.word_ptr[:-1]].copy(), _effects(rows)[edge]
        row, is_cause = rows.row_of_edge[is_effect], ~is_effect
        known[row] = IN_SCOPE + np.flatnonzero(is_effect) - rows.scope_ptr[row]
        moved = moved.with_words(*_headed(known, _signs(rows)[edge], rows.arity))
        leak, inhibitor = rows.log_values[rows.value_ptr[:-1]], _inhibitor_of_edge(rows)[edge]
        return moved.with_values(*_headed(leak, inhibitor[is_cause], rows.sum_of_edges(is_cause.astype(np.int64))))

    @classmethod
    def add_chains(cls, builder: LoweredBuilder, rows: FactorRows) -> None:
        """Add chains of "some cause has fired so far"; an effect in the scope is the last link."""
        is_effect = _effects(rows)
        order = np.lexsort((is_effect, rows.row_of_edge))  # stable, so that causes keep their order
        active, inhibitor = _signs(rows)[order], _inhibitor_of_edge(rows)[order]
        is_effect = is_effect[order]
        steps = np.full((len(order), 2, 2, 2), -np.inf)  # edge, fired before, state, fired after
        edge = np.arange(len(order))
        steps[edge, 0, 1 - active, 0] = 0.0
        steps[edge, 1, 1 - active, 1] = np.where(is_effect, -np.inf, 0.0)
        steps[edge, 0, active, 0] = np.where(is_effect, -np.inf, inhibitor)
        steps[edge, 0, active, 1] = np.where(is_effect, -np.inf, log1mexp(inhibitor))
        steps[edge, 1, active, 1] = 0.0
        leak = rows.log_values[rows.value_ptr[:-1]]
        known = rows.words[rows.word_ptr[:-1]]
        end = np.stack((np.where(known == ON, -np.inf, 0.0), np.where(known == OFF, -np.inf, 0.0)), axis=1)
        chained = replace(rows, scope_vars=rows.scope_vars[order])
        builder.add_chain(chained, steps, np.stack((leak, log1mexp(leak)), axis=1), end)


def log1mexp(x: FloatArray) -> FloatArray:
    """Return ln(1 - e^x) for x <= 0, to full precision on both ends."""
    with np.errstate(divide="ignore"):
        near = np.log(-np.expm1(x))
        far = np.log1p(-np.exp(x))
    return np.where(x > -np.log(2.0), near, far)


def _probabilities(values: object, what: str) -> FloatArray:
    try:
        numbers = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array(np.nan)
    if not np.all((numbers >= 0) & (numbers <= 1)):
        raise ModelError(f"The {what} of a noisy_or must be from 0 to 1, found {brief(values)}.")
    return numbers


def causes_of_edges(rows: FactorRows) -> tuple[IntArray, BoolArray, FloatArray]:
    """Return [e] the active state of each edge's variable, whether it is the effect, and its log inhibitor, or 0."""
    return _signs(rows), _effects(rows), _inhibitor_of_edge(rows)


def _signs(rows: FactorRows) -> IntArray:
    """Return [e] the state in which the variable of each edge is active."""
    is_head = np.zeros(len(rows.words), bool)
    is_head[rows.word_ptr[:-1]] = True
    return rows.words[~is_head]


def _effects(rows: FactorRows) -> BoolArray:
    """Return [e] whether the edge's variable is the effect."""
    is_effect = np.zeros(len(rows.card), bool)
    known = rows.words[rows.word_ptr[:-1]]
    is_effect[(rows.scope_ptr[:-1] + known - IN_SCOPE)[known >= IN_SCOPE]] = True
    return is_effect


def _inhibitor_of_edge(rows: FactorRows) -> FloatArray:
    """Return [e] the log inhibitor of each cause, 0 for the effect."""
    is_head = np.zeros(len(rows.log_values), bool)
    is_head[rows.value_ptr[:-1]] = True
    values = np.zeros(len(rows.card))
    values[~_effects(rows)] = rows.log_values[~is_head]
    return values


def _headed(head: np.ndarray, rest: np.ndarray, count: IntArray) -> tuple[IntArray, np.ndarray]:
    """Return the pointer and the elements of rows: in each row one head [N], then `count` [N] elements of the rest."""
    ptr = ptr_of(count + 1)
    values = np.empty(int(ptr[-1]), rest.dtype)
    is_head = np.zeros(len(values), bool)
    is_head[ptr[:-1]] = True
    values[is_head], values[~is_head] = head, rest
    return ptr, values
