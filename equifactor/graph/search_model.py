"""A factor graph as the arrays that search and sampling kernels walk over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.graph import FlatGraph
    from equifactor.typing import FloatArray, IntArray


_NEVER = 2000.0  # exp(-_NEVER) is exactly 0 in float64, so that a sampler never draws a zero


class MoveArrays(NamedTuple):
    """Index arrays and tables, in the order the kernels take them (`*arrays`)."""

    var_ptr: IntArray  # [V+1] states of variable i are var_ptr[i]:var_ptr[i+1]
    unary: FloatArray  # [X] sum of the factors of one variable
    arc_ptr: IntArray  # [V+1] arcs from variable i are arc_ptr[i]:arc_ptr[i+1]
    arcs: IntArray  # [A, 2] neighbour, and where the pair's table begins in `pair` (-1: no factor of just the two)
    pair: FloatArray  # per arc i -> j a table [card_i, card_j]: both orientations are kept so that rows are contiguous
    high_ptr: IntArray  # [V+1] rows of `high` around variable i
    high: IntArray  # [H] slots around each variable
    slots: IntArray  # [H, 3] factor, variable, stride, factor after factor
    factors: IntArray  # [K+1, 2] first slot and first table entry of each factor of arity above two
    table: FloatArray  # entries of the factors of arity above two


class SearchModel:
    """Scores with zeros made finite, so that search can leave impossible assignments.

    The zeros of factor a become `min_a - penalty`, with `min_a` its lowest positive entry (in logs) and a penalty above
    the sum of the ranges of all factors. So the score orders assignments by the number of zeros first and by the finite
    part second, and `score < possible` exactly where the probability is zero. Factors over the same pair are merged.

    Cost O(T + E log E) and about twice the memory of the tables of arity two.
    """

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        from equifactor.graph.layout import ENTRY, layout_of

        self.flat = flat
        layout = layout_of(flat)
        log_phi, self.penalty, self.possible = _finite_tables(flat.log_phi, layout.factors[:, ENTRY])
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
        self.arrays = MoveArrays(np.asarray(flat.var_ptr), unary, arc_ptr, arcs, pair, *high)
        self.card: IntArray = np.diff(flat.var_ptr)
        largest = self.penalty if flat.has_zeros else float(np.abs(log_phi).max(initial=0.0))
        self.least = max(1e-9, 1e-12 * largest)  # a gain below may be rounding

    def random_assignment(self, rng: np.random.Generator) -> IntArray:
        """Every variable uniform and independent."""
        return rng.integers(0, self.card)

    def unary_assignment(self) -> IntArray:
        """Every variable at the best state of its unary factors, the first one on ties."""
        from equifactor.numerics.message_answers import beliefs

        best: IntArray = beliefs(self.arrays.var_ptr, self.arrays.unary)[2]
        return best


def _finite_tables(log_phi: FloatArray, entry_ptr: IntArray) -> tuple[FloatArray, float, float]:
    """Tables without -inf, the penalty of a zero, and a score between those of possible and of impossible assignments.

    A possible assignment scores at least `sum low`, an impossible one at most `sum high - penalty`.
    """
    if not len(log_phi):
        return log_phi, _NEVER, -_NEVER / 2
    zero = np.isneginf(log_phi)
    starts = entry_ptr[:-1]
    low = np.minimum.reduceat(np.where(zero, np.inf, log_phi), starts)
    high = np.maximum.reduceat(log_phi, starts)
    low, high = np.where(np.isinf(low), 0.0, low), np.where(np.isinf(high), 0.0, high)  # a table of zeros only
    spread = float(np.sum(high - low))
    penalty = _NEVER + 2.0 * spread
    possible = float(low.sum()) - penalty / 4
    if zero.any():
        log_phi = np.where(zero, np.repeat(low, np.diff(entry_ptr)) - penalty, log_phi)
    return log_phi, penalty, possible


def _high_factors(
    flat: FlatGraph[np.ndarray], log_phi: FloatArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]:
    """Slots and tables of the factors of arity above two, and for each variable its slots."""
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
    by_var = np.argsort(all_slots[:, 1], kind="stable")
    high_ptr = ptr_of(np.bincount(all_slots[:, 1], minlength=flat.num_vars))
    factors = np.stack([ptr_of(np.array(arity, np.int64)), ptr_of(np.array(sizes, np.int64))], axis=1)
    return high_ptr, by_var, all_slots, factors, np.concatenate(tables)


def _arcs(
    flat: FlatGraph[np.ndarray], log_phi: FloatArray, high: tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Neighbours of each variable, each once, with the merged table of the pair."""
    from equifactor.numerics.moves import add_pairs

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
    loose_key = np.setdiff1d(_high_pairs(high[2], high[3], num_vars), pair_key)  # share larger factors only
    low, top = np.divmod(np.concatenate((pair_key, loose_key)), num_vars)

    source, target = np.concatenate((low, top)), np.concatenate((top, low))
    has_table = np.tile(np.arange(len(low)) < len(pair_key), 2)
    order = np.argsort(source, kind="stable")
    card = np.diff(flat.var_ptr)
    sizes = np.where(has_table, card[source] * card[target], 0)[order]
    base = np.where(has_table[order], ptr_of(sizes)[:-1], -1)
    arcs = np.stack([target[order], base], axis=1)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    forward = np.where(i < j, pair_of, len(low) + pair_of)  # the arc i -> j of each factor, before sorting
    backward = np.where(i < j, len(low) + pair_of, pair_of)
    pair = np.zeros(int(sizes.sum()))
    add_pairs(log_phi, _join(entry), card[i], card[j], base[place[forward]], base[place[backward]], pair)
    return ptr_of(np.bincount(source, minlength=flat.num_vars)), arcs, pair


def _high_pairs(slots: IntArray, factors: IntArray, num_vars: int) -> IntArray:
    """Keys of all pairs of variables that share a factor of arity above two."""
    arity = np.diff(factors[:, 0])
    keys = [np.zeros(0, np.int64)]
    for k in np.unique(arity).tolist():
        scopes = slots[factors[:-1, 0][arity == k][:, None] + np.arange(k), 1]  # [F_k, k]
        a, b = np.triu_indices(k, 1)
        keys.append(
            (np.minimum(scopes[:, a], scopes[:, b]) * num_vars + np.maximum(scopes[:, a], scopes[:, b])).ravel()
        )
    return np.unique(np.concatenate(keys))


def _join(blocks: list[IntArray]) -> IntArray:
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
