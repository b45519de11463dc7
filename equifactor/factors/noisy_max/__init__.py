"""Noisy-max: each cause alone would bring the effect to some level, and the effect is at the highest of these levels.

Symbols: f_c(k | x) is the probability that cause c in state x brings the effect to level k, F_c its sum up to k, and
f_0 the leak. Then P(effect <= k | causes) is the product of all F_c(k | x_c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.factors.noisy_or import log1mexp
from equifactor.graph.factor_rows import merged
from equifactor.graph.small_scopes import without_small_scopes
from equifactor.graph.structured_factor import StructuredFactor, number_of_values, number_of_words
from equifactor.kernels.pointers import picked, ptr_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows

_ROUNDING = 1e-6  # A stated distribution may sum to 1 within this, and is then divided by its sum.


@dataclass(frozen=True)
class NoisyMax(StructuredFactor):
    """The effect, first in the scope, is at the highest level to which a cause or the leak brings it.

    Args:
        leak: the distribution of the level without any cause.
        causes: for each cause a table with a row for each of its states: the distribution of the level to which it
            brings the effect in this state. Level 0 is the absence of the effect.

    Examples:
        >>> from equifactor import FactorGraph, NoisyMax, solve
        >>> flu = [[1.0, 0.0, 0.0], [0.3, 0.5, 0.2]]  # without flu nothing; with flu no, mild or high fever
        >>> cold = [[1.0, 0.0, 0.0], [0.6, 0.4, 0.0]]
        >>> g = FactorGraph([3, 2, 2], [([0, 1, 2], NoisyMax([0.9, 0.1, 0.0], [flu, cold]))])
        >>> solve(g, "MAR", "exact", evidence={1: 1, 2: 1}).marginals[0].round(3)  # 0.9 * 0.3 * 0.6 = 0.162
        array([0.162, 0.638, 0.2  ])
    """

    leak: ArrayLike
    causes: Sequence[ArrayLike] = ()
    level: int | None = None  # the known level of an effect that is not in the scope
    place: int = 0  # of the effect in the scope

    kind = "noisy_max"
    nonlinear_values = True
    lowered_by_chance = True

    @property
    def child_slot(self) -> int | None:
        """The place of the effect, unless it is observed."""
        return self.place if self.level is None else None

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return the logs of the leak and of the rows of all causes; the place, level and number of levels."""
        arity, known = len(card), self.level is not None
        if not known and not (isinstance(self.place, (int, np.integer)) and 0 <= self.place < arity):
            raise ModelError(f"The effect of a noisy_max over {arity} variables cannot be at place {self.place!r}.")
        leak = _distributions(self.leak, "leak")
        levels = leak.shape[-1] if known else card[self.place]
        cards = [d for n, d in enumerate(card) if known or n != self.place]
        if leak.shape != (levels,):
            raise ModelError(
                f"The leak of a noisy_max needs {levels} probabilities, one per level, found {brief(self.leak)}."
            )
        if len(self.causes) != len(cards):
            raise ModelError(
                f"A noisy_max over {arity} variables, the effect first, needs {len(cards)} tables of causes, found "
                f"{len(self.causes)}."
            )
        if known and not (
            not isinstance(self.level, bool) and isinstance(self.level, (int, np.integer)) and 0 <= self.level < levels
        ):
            raise ModelError(
                f"The known level of a noisy_max must be from 0 to {levels - 1}, found {brief(self.level)}."
            )
        tables = [leak]
        for n, (cause, d) in enumerate(zip(self.causes, cards, strict=True)):
            table = _distributions(cause, f"table of cause {n}")
            if table.shape != (d, levels):
                raise ModelError(
                    f"The table of cause {n} of a noisy_max needs shape ({d}, {levels}), states by levels, found "
                    f"{table.shape}."
                )
            tables.append(table.ravel())
        with np.errstate(divide="ignore"):
            values = np.log(np.concatenate(tables))
        return values, np.array([-1 if known else self.place, self.level if known else -1, levels], np.int64)

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> NoisyMax:
        """Return the object, with probabilities from their logs."""
        place, level, levels = words.tolist()
        rows = np.exp(log_values).reshape(-1, levels)
        cards = [d for n, d in enumerate(card) if n != place]
        parts = np.split(rows[1:], np.cumsum(cards)[:-1]) if cards else []
        causes = tuple(tuple(map(tuple, part.tolist())) for part in parts)
        return cls(tuple(rows[0].tolist()), causes, level if place < 0 else None, max(place, 0))

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require a place or a known level, and distributions of the right number."""
        wrong = number_of_words(rows, np.full(rows.num_factors, 3), "words of a noisy_max")
        if wrong:
            return wrong
        place, level, levels = _words(rows)
        known = place < 0
        bad = (place >= rows.arity) | (levels < 1) | (known & ((level < 0) | (level >= levels)))
        bad[~known & ~bad] |= rows.card[(rows.scope_ptr[:-1] + place)[~known & ~bad]] != levels[~known & ~bad]
        if bad.any():
            return int(np.argmax(bad)), "The words of a noisy_max do not fit its variables."
        wrong = number_of_values(
            rows, levels * (1 + rows.sum_of_edges(_cause_states(rows))), "log values of a noisy_max"
        )
        if wrong:
            return wrong
        sums = np.add.reduceat(np.exp(rows.log_values), _row_starts(rows)) if len(rows.log_values) else np.ones(0)
        off = ~(np.abs(sums - 1.0) <= _ROUNDING)
        if off.any():
            factor = int(np.searchsorted(rows.value_ptr, _row_starts(rows)[np.argmax(off)], side="right")) - 1
            return factor, f"Each row of a noisy_max must sum to 1, found one with sum {sums[np.argmax(off)]:.6g}."
        return None

    @classmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] the log probability of the level of the effect, given the causes."""
        place, level, levels = _words(rows)
        known = place < 0
        k = np.broadcast_to(level, (len(states), rows.num_factors)).copy()
        k[:, ~known] = states[:, (rows.scope_ptr[:-1] + place)[~known]]
        up_to, ratio = _cumulated(rows)
        start = rows.value_ptr[:-1] + k  # of the leak
        total, change = up_to[start], ratio[start]
        is_cause = _is_cause(rows)
        row = rows.row_of_edge
        at = _edge_starts(rows) + states * levels[row] + k[:, row]
        at[:, ~is_cause] = 0
        total = total + rows.sum_of_edges(np.where(is_cause, up_to[at], 0.0).T).T
        change = change + rows.sum_of_edges(np.where(is_cause, ratio[at], 0.0).T).T
        return np.where(np.isneginf(total), -np.inf, total + log1mexp(np.minimum(change, 0.0)))

    @classmethod
    def log_ranges(cls, rows: FactorRows) -> FloatArray:
        """Return an upper bound: every positive probability is at least the product of one entry of each table."""
        finite = np.where(np.isneginf(rows.log_values), 0.0, rows.log_values)
        lowest = np.zeros(rows.num_factors)
        starts, ends = _edge_starts(rows), _edge_starts(rows) + _cause_states(rows) * _words(rows)[2][rows.row_of_edge]
        for first, last, row in zip(starts.tolist(), ends.tolist(), rows.row_of_edge.tolist(), strict=True):
            lowest[row] -= finite[first:last].min(initial=0.0)
        leak_end = rows.value_ptr[:-1] + _words(rows)[2]
        for n, (first, last) in enumerate(zip(rows.value_ptr[:-1].tolist(), leak_end.tolist(), strict=True)):
            lowest[n] -= finite[first:last].min(initial=0.0)
        return lowest

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Take observed causes into the leak, and remember an observed effect."""
        place, level, levels = (w.copy() for w in _words(rows))
        free, is_cause, starts = states < 0, _is_cause(rows), _edge_starts(rows)
        parts: list[FloatArray] = []
        for n, (first, last) in enumerate(zip(rows.scope_ptr[:-1].tolist(), rows.scope_ptr[1:].tolist(), strict=True)):
            d = int(levels[n])
            leak = np.exp(rows.log_values[rows.value_ptr[n] :][:d])
            kept = []
            for e in range(first, last):
                if not is_cause[e]:
                    if not free[e]:
                        place[n], level[n] = -1, states[e]
                    else:
                        place[n] -= int((~free[first:e]).sum())
                elif free[e]:
                    kept.append(rows.log_values[starts[e] :][: d * int(rows.card[e])])
                else:
                    leak = _highest(leak, np.exp(rows.log_values[starts[e] + d * int(states[e]) :][:d]))
            with np.errstate(divide="ignore"):
                parts.append(np.concatenate([np.log(leak), *kept]))
        left = rows.keep_edges(free)
        ptr = ptr_of([len(p) for p in parts])
        left = left.with_values(ptr, np.concatenate([np.zeros(0), *parts]))
        words = np.stack((place, level, levels), axis=1).ravel()
        return without_small_scopes(cls, left.with_words(rows.word_ptr, words))

    @classmethod
    def with_states(cls, rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
        """Pick the rows of the states that are left; a factor whose levels change becomes a dense table."""
        ptr = ptr_of(rows.card)
        same = np.zeros(len(rows.card), bool)
        for e in range(len(same)):
            own = new_state[ptr[e] : ptr[e + 1]]
            same[e] = new_card[e] == rows.card[e] and bool((own == np.arange(len(own))).all())
        tables = rows.sum_of_edges((~same & ~_is_cause(rows)).astype(np.int64)) > 0
        if tables.any():
            from equifactor.graph.dense_rows import tables_with_states

            picks = [np.flatnonzero(mask) for mask in (tables, ~tables)]
            makers: tuple[Any, ...] = (tables_with_states, lambda _cls, r, s, c: _picked_states(r, s, c))
            pieces = []
            for own, make in zip(picks, makers, strict=True):
                _, edges = picked(rows.scope_ptr, own)
                _, edge_states = picked(ptr, edges)
                pieces.append((own, make(cls, rows.take(own), new_state[edge_states], new_card[edges])))
            return merged(pieces)
        return _picked_states(rows, new_state, new_card)

    @classmethod
    def with_slots(cls, rows: FactorRows, edge: IntArray) -> FactorRows:
        """Move the tables along with their variables, and remember the place of the effect."""
        place, level, levels = (w.copy() for w in _words(rows))
        inside = place >= 0
        new_place = np.empty(len(edge), np.int64)
        new_place[edge] = np.arange(len(edge)) - np.repeat(rows.scope_ptr[:-1], rows.arity)
        place[inside] = new_place[(rows.scope_ptr[:-1] + place)[inside]]
        sizes = _cause_states(rows) * levels[rows.row_of_edge]
        order: list[IntArray] = []
        starts = _edge_starts(rows)
        for n in range(rows.num_factors):
            order.append(rows.value_ptr[n] + np.arange(levels[n]))
            order += [starts[e] + np.arange(sizes[e]) for e in edge[rows.scope_ptr[n] : rows.scope_ptr[n + 1]].tolist()]
        values = rows.log_values[np.concatenate([np.zeros(0, np.int64), *order])]
        moved = replace(rows, scope_vars=rows.scope_vars[edge], card=rows.card[edge], log_values=values)
        return moved.with_words(rows.word_ptr, np.stack((place, level, levels), axis=1).ravel())

    @classmethod
    def add_chains(cls, builder: LoweredBuilder, rows: FactorRows) -> None:
        """Add chains of the highest level so far; an effect in the scope is the last link."""
        place, level, levels = _words(rows)
        is_cause, starts = _is_cause(rows), _edge_starts(rows)
        for n in range(rows.num_factors):
            d = int(levels[n])
            edges = [e for e in range(int(rows.scope_ptr[n]), int(rows.scope_ptr[n + 1])) if is_cause[e]]
            before = np.exp(rows.log_values[rows.value_ptr[n] :][:d])[None, :]  # the leak: one level before
            scope: list[int] = []
            for e in edges:
                table = np.exp(rows.log_values[starts[e] :][: d * int(rows.card[e])]).reshape(-1, d)
                link = _raised(table)  # [level before, state, level after]
                if not scope:
                    link = np.einsum("ob,bxa->xa", before, link)
                own = [*scope, int(rows.scope_vars[e])]
                if e != edges[-1]:
                    scope = [int(builder.auxiliary(np.array([d]))[0])]
                    own += scope
                elif place[n] >= 0:
                    own.append(int(rows.scope_vars[rows.scope_ptr[n] + place[n]]))
                else:
                    link = link[..., level[n]]
                with np.errstate(divide="ignore"):
                    builder.add(np.array([own]), np.log(link)[None])
            if not edges:
                own = [int(rows.scope_vars[rows.scope_ptr[n] + place[n]])] if place[n] >= 0 else []
                value = before[0] if place[n] >= 0 else before[0, level[n]]
                with np.errstate(divide="ignore"):
                    builder.add(np.array([own], np.int64).reshape(1, len(own)), np.log(value)[None])


def _distributions(values: object, what: str) -> FloatArray:
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array(np.nan)
    sums = numbers.sum(axis=-1) if numbers.ndim else np.array(np.nan)
    if not (numbers.ndim and np.all(numbers >= 0.0) and np.all(np.abs(sums - 1.0) <= _ROUNDING)):
        raise ModelError(f"The {what} of a noisy_max must hold distributions, which sum to 1, found {brief(values)}.")
    return np.asarray(numbers / sums[..., None])


def _highest(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the distribution of the higher of two levels [.., d], without a difference of large numbers."""
    below = np.cumsum(a, axis=-1) - a
    return np.asarray(a * np.cumsum(b, axis=-1) + below * b)


def _raised(table: FloatArray) -> FloatArray:
    """Return P(level after | level before, state) [d, states, d] of a cause with rows [states, d]."""
    d = table.shape[1]
    return np.stack([_highest(np.eye(d)[b], table) for b in range(d)])


def _words(rows: FactorRows) -> tuple[IntArray, IntArray, IntArray]:
    """Return [N] the place of the effect or -1, its known level or -1, and the number of levels."""
    place, level, levels = rows.words.reshape(-1, 3).T
    return place, level, levels


def _is_cause(rows: FactorRows) -> BoolArray:
    place = rows.words.reshape(-1, 3)[:, 0]
    found = np.ones(len(rows.card), bool)
    found[(rows.scope_ptr[:-1] + place)[place >= 0]] = False
    return found


def _cause_states(rows: FactorRows) -> IntArray:
    """Return [e] the number of states of each cause, 0 for the effect."""
    return np.where(_is_cause(rows), rows.card, 0)


def _edge_starts(rows: FactorRows) -> IntArray:
    """Return [e] the place of the first log value of each cause."""
    levels = _words(rows)[2]
    sizes = _cause_states(rows) * levels[rows.row_of_edge]
    return ptr_of(sizes)[:-1] + np.cumsum(levels)[rows.row_of_edge]


def _row_starts(rows: FactorRows) -> IntArray:
    """Return the place of the first log value of each distribution."""
    counts = np.diff(rows.value_ptr)
    levels = np.repeat(_words(rows)[2], counts)
    inside = np.arange(len(levels)) - np.repeat(rows.value_ptr[:-1], counts)
    return np.flatnonzero(inside % np.maximum(levels, 1) == 0)


def _cumulated(rows: FactorRows) -> tuple[FloatArray, FloatArray]:
    """Return [t] ln F(k) and ln(F(k - 1) / F(k)), which is precise where f(k) is small; 0 where F(k) is 0."""
    starts = _row_starts(rows)
    values = np.exp(rows.log_values)
    up_to = np.empty_like(values)
    for a, b in zip(starts.tolist(), [*starts[1:].tolist(), len(values)], strict=True):
        up_to[a:b] = np.cumsum(values[a:b])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(up_to > 0.0, np.log1p(-np.minimum(values / up_to, 1.0)), 0.0)
        return np.log(up_to), ratio


def _picked_states(rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
    """Return the factors with the rows of the states of causes that are left, in their new order."""
    ptr, starts, levels, is_cause = ptr_of(rows.card), _edge_starts(rows), _words(rows)[2], _is_cause(rows)
    order: list[IntArray] = []
    for n in range(rows.num_factors):
        d = int(levels[n])
        order.append(rows.value_ptr[n] + np.arange(d))
        for e in range(int(rows.scope_ptr[n]), int(rows.scope_ptr[n + 1])):
            if is_cause[e]:
                own = new_state[ptr[e] : ptr[e + 1]]
                old = np.argsort(own, kind="stable")[np.sum(own < 0) :]
                order.append((starts[e] + d * old[:, None] + np.arange(d)).ravel())
    places = np.concatenate([np.zeros(0, np.int64), *order])
    sizes = levels * (
        1 + np.bincount(rows.row_of_edge, np.where(is_cause, new_card, 0), rows.num_factors).astype(np.int64)
    )
    return replace(rows, card=new_card).with_values(ptr_of(sizes), rows.log_values[places])
