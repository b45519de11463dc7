"""A factor graph as search and sampling see it: finite scores, and arrays that make single-variable moves cheap.

The kernels that walk over these arrays are in `equifactor.factors.moves`. This module does not import Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.factors.move_kinds import KindMoves, StructuredMoves
from equifactor.graph.flat_graph import has_zeros
from equifactor.kernels.pointers import by_number, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph


_NEVER = 2000.0  # The least penalty of a zero: exp(-2000) is exactly 0 in float64, so a sampler never draws a zero.


class MoveArrays(NamedTuple):
    """What the kernels know of a graph; nothing in it changes during a search.

    An arc is an ordered pair of variables that share a factor; A counts arcs. A slot is a place of a variable in the
    scope of a factor of arity above two; K counts these factors and H their slots.
    """

    var_ptr: IntArray  # [V+1] The states of variable i are var_ptr[i]:var_ptr[i+1].
    unary: FloatArray  # [X] The sum of the factors of one variable, at each of its states.
    arc_ptr: IntArray  # [V+1] The arcs from variable i are arc_ptr[i]:arc_ptr[i+1].
    arcs: IntArray  # [A, 2] The neighbour, and where the table of the two begins in `pair`, or -1 if they have none.
    pair: FloatArray  # Per arc i -> j a table [card_i, card_j]; both directions are kept, so that rows are contiguous.
    high_ptr: IntArray  # [V+1] The slots of variable i are high[high_ptr[i]:high_ptr[i+1]].
    high: IntArray  # [H] Slots, variable after variable.
    slots: IntArray  # [H, 3] Factor, variable and stride of each slot, factor after factor.
    factors: IntArray  # [K+1, 2] First slot and first table entry of each factor of arity above two.
    table: FloatArray  # The entries of the factors of arity above two.
    kinds: tuple[Any, ...] | None = None  # The fields of a `KindMoves`; None in a graph of tables.


class MoveState(NamedTuple):
    """One assignment and the sums that moves keep up to date; for C assignments every array has a first axis [C]."""

    x: IntArray  # [V] The assignment.
    local: FloatArray  # [X] The sum of the factors around a variable at each of its states, once `look` was called.
    at: IntArray  # [K + C + 2 N] The table entry at which each factor of arity above two stands; words of other kinds.
    kept: FloatArray  # [X] The part of `local` that moves keep up to date; in a graph of tables that is `local` itself.

    @classmethod
    def zeros(cls, arrays: MoveArrays, *count: int) -> MoveState:
        """Return space for one assignment, or for `count` of them; `rebuild` fills the sums."""
        num_vars, num_words = len(arrays.var_ptr) - 1, len(arrays.factors) - 1
        if arrays.kinds is not None:
            kinds = KindMoves(*arrays.kinds)
            num_words += len(kinds.clause_values) + 2 * len(kinds.base)
        x, at = np.zeros((*count, num_vars), np.int64), np.zeros((*count, num_words), np.int64)
        local = np.zeros((*count, len(arrays.unary)))
        return cls(x, local, at, local if arrays.kinds is None else np.zeros_like(local))

    def of(self, n: int) -> MoveState:
        """Return the n-th of several assignments, as views."""
        return MoveState(self.x[n], self.local[n], self.at[n], self.kept[n])


class MoveModel:
    """A compiled graph whose zeros are finite penalties, so that a search can walk through impossible assignments.

    The zeros of factor a become `min_a - penalty`, with `min_a` its lowest positive entry (in logs) and a penalty above
    the sum of the ranges of all factors. So the score orders assignments by the number of zeros first and by the finite
    part second. Factors over the same pair are merged.

    Building it costs O(T + E log E) and about twice the memory of the tables of arity two.

    Args:
        flat: one compiled graph.

    Attributes:
        arrays: index arrays and tables for the kernels.
        card: [V] numbers of states.
        constant: the sum of the factors without variables, which `arrays` leave out.
        penalty: what a zero costs.
        possible_score: the probability of an assignment is zero exactly where its score is below this.
        highest_score: no assignment scores more, so an assignment with this score is best.
        smallest_gain: a difference of scores below this may be rounding.
        has_zeros: whether some assignment may be impossible.
        num_structured: N, the number of structured factors.
    """

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        from equifactor.graph.layout import ENTRY, layout_of

        self.flat = flat
        entry_ptr = layout_of(flat).factors[:, ENTRY]
        structured = StructuredMoves(flat) if flat.structured else None
        if structured is not None:
            entry_ptr = entry_ptr[: 1 + sum(group.num_factors for group in flat.groups)]
        log_phi, self.penalty, self.possible_score, self.highest_score = finite_tables(
            flat.log_phi[: entry_ptr[-1]], entry_ptr, structured
        )
        unary = np.zeros(flat.num_states)
        self.constant = 0.0
        for group in flat.groups:
            if len(group.shape) == 0:
                self.constant += float(log_phi[group.entries].sum())
            elif len(group.shape) == 1:
                at = flat.state_of_edge_state[group.slots[0]]
                unary += np.bincount(at, log_phi[group.entries], flat.num_states)
        high = _high_factors(flat, log_phi)
        arc_ptr, arcs, pair = _arcs(flat, log_phi, high)
        kinds = None if structured is None else tuple(structured.finish(self.penalty, len(high.factors) - 1))
        self.arrays = MoveArrays(np.asarray(flat.var_ptr), unary, arc_ptr, arcs, pair, **high._asdict(), kinds=kinds)
        self.card: IntArray = np.diff(flat.var_ptr)
        self.num_structured = 0 if structured is None else len(structured.low)
        self.has_zeros = flat.has_zeros if structured is None else structured.can_vanish or flat.has_zeros
        largest = self.penalty if self.has_zeros else float(max(log_phi.max(initial=0.0), -log_phi.min(initial=0.0)))
        self.smallest_gain = max(1e-9, 1e-12 * largest)

    def random_assignment(self, rng: np.random.Generator) -> IntArray:
        """Return an assignment in which every variable is uniform and independent."""
        return rng.integers(0, self.card)

    def unary_assignment(self) -> IntArray:
        """Return every variable at the best state of its unary factors, the first on ties."""
        from equifactor.factors.message_answers import beliefs

        best: IntArray = beliefs(self.arrays.var_ptr, self.arrays.unary)[2]
        return best


class _HighFactors(NamedTuple):
    """The fields of `MoveArrays` about factors of arity above two."""

    high_ptr: IntArray
    high: IntArray
    slots: IntArray
    factors: IntArray
    table: FloatArray


def finite_tables(
    log_phi: FloatArray, entry_ptr: IntArray, structured: StructuredMoves | None = None
) -> tuple[FloatArray, float, float, float]:
    """Return tables without -inf, the penalty of a zero, and a score between possible and impossible assignments.

    A possible assignment scores at least the sum of the lowest positive entries, an impossible one at most the sum of
    the highest entries less one penalty. The sum of the highest entries comes last.
    """
    if not len(log_phi) and structured is None:
        return log_phi, _NEVER, -_NEVER / 2, 0.0
    zero = np.isneginf(log_phi) if has_zeros(log_phi) else None
    starts = entry_ptr[:-1]
    positive = log_phi if zero is None else np.where(zero, np.inf, log_phi)
    low = np.minimum.reduceat(positive, starts) if len(starts) else np.zeros(0)
    high = np.maximum.reduceat(log_phi, starts) if len(starts) else np.zeros(0)
    low, high = np.where(np.isinf(low), 0.0, low), np.where(np.isinf(high), 0.0, high)  # A table may hold zeros only.
    spread, lowest = float(np.sum(high - low)), float(low.sum())
    if structured is not None:
        spread, lowest = spread + float(np.sum(structured.high - structured.low)), lowest + float(structured.low.sum())
    penalty = _NEVER + 2.0 * spread
    if zero is not None:
        log_phi = np.where(zero, np.repeat(low, np.diff(entry_ptr)) - penalty, log_phi)
    return log_phi, penalty, lowest - penalty / 4, lowest + spread


def _high_factors(flat: FlatGraph[np.ndarray], log_phi: FloatArray) -> _HighFactors:
    """Return slots and tables of the factors of arity above two, and the slots of each variable."""
    slots, arity, tables, sizes = [np.zeros((0, 3), np.int64)], [], [np.zeros(0)], []
    count = 0
    for group in flat.groups:
        k = len(group.shape)
        if k < 3:
            continue
        factor = np.repeat(count + np.arange(group.num_factors), k)
        variable = np.stack([flat.var_of_edge[e] for e in group.edges], axis=1).ravel()
        stride = np.tile(np.append(np.cumprod(group.shape[:0:-1])[::-1], 1), group.num_factors)
        slots.append(np.stack([factor, variable, stride], axis=1))
        arity += [k] * group.num_factors
        sizes += [int(np.prod(group.shape))] * group.num_factors
        tables.append(log_phi[group.entries])
        count += group.num_factors
    all_slots = np.concatenate(slots)
    by_var = by_number(all_slots[:, 1])
    high_ptr = ptr_of(np.bincount(all_slots[:, 1], minlength=flat.num_vars))
    factors = np.stack([ptr_of(np.array(arity, np.int64)), ptr_of(np.array(sizes, np.int64))], axis=1)
    return _HighFactors(high_ptr, by_var, all_slots, factors, np.concatenate(tables))


def _arcs(
    flat: FlatGraph[np.ndarray], log_phi: FloatArray, high: _HighFactors
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the fields `arc_ptr`, `arcs` and `pair` of `MoveArrays`: each neighbour once, with one table per pair."""
    from equifactor.factors.moves import add_pairs

    first, second, entry = [], [], []
    for group in flat.groups:
        if len(group.shape) == 2:
            first.append(flat.var_of_edge[group.edges[0]])
            second.append(flat.var_of_edge[group.edges[1]])
            size = group.shape[0] * group.shape[1]
            entry.append(group.entries.start + size * np.arange(group.num_factors))
    i, j = _join(first), _join(second)
    num_vars = max(1, flat.num_vars)
    pair_key, pair_of = np.unique(np.minimum(i, j) * num_vars + np.maximum(i, j), return_inverse=True)
    high_key = _high_pairs(high, num_vars)
    tableless_key = np.setdiff1d(high_key, pair_key, assume_unique=True)  # These pairs share larger factors only.
    low, top = np.divmod(np.concatenate((pair_key, tableless_key)), num_vars)

    source, target = np.concatenate((low, top)), np.concatenate((top, low))
    has_table = np.tile(np.arange(len(low)) < len(pair_key), 2)
    order = by_number(source)
    card = np.diff(flat.var_ptr)
    sizes = np.where(has_table, card[source] * card[target], 0)[order]
    base = np.where(has_table[order], ptr_of(sizes)[:-1], -1)
    arcs = np.stack([target[order], base], axis=1)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    forward = np.where(i < j, pair_of, len(low) + pair_of)  # This is the arc i -> j of each factor before sorting.
    backward = np.where(i < j, len(low) + pair_of, pair_of)
    pair = np.zeros(int(sizes.sum()))
    add_pairs(log_phi, _join(entry), card[i], card[j], base[place[forward]], base[place[backward]], pair)
    return ptr_of(np.bincount(source, minlength=flat.num_vars)), arcs, pair


def _high_pairs(high: _HighFactors, num_vars: int) -> IntArray:
    """Return the keys `i V + j` of all pairs i < j of variables that share a factor of arity above two."""
    arity = np.diff(high.factors[:, 0])
    keys = [np.zeros(0, np.int64)]
    for k in np.unique(arity).tolist():
        scopes = high.slots[high.factors[:-1, 0][arity == k][:, None] + np.arange(k), 1]  # [F_k, k]
        a, b = np.triu_indices(k, 1)
        keys.append(
            (np.minimum(scopes[:, a], scopes[:, b]) * num_vars + np.maximum(scopes[:, a], scopes[:, b])).ravel()
        )
    ordered = np.sort(np.concatenate(keys))  # np.unique of 800,000 keys takes 0.7 s, and this 0.005 s.
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _join(blocks: list[IntArray]) -> IntArray:
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
