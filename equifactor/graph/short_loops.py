"""Short loops: the triangles and chordless squares that factors of two variables form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.pointers import place_in_row, ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, IntArray


MOST_PATHS = 2**22  # A graph with more paths of two pairs is not searched for loops. Chosen by hand.
# Loops of one length are left out of a graph if the joint tables of all loops would otherwise have more entries than
# this, plus MORE_ENTRIES for each entry of a pair table. Chosen by hand.
MOST_ENTRIES = 2**21
# The entries of joint tables that each entry of a pair table allows, so that a large grid is treated like a small one.
# Chosen by hand.
MORE_ENTRIES = 32


@dataclass(frozen=True)
class Pairs:
    """All factors of two variables in a batch of graphs."""

    variables: IntArray  # [P, 2] the two variables of each factor
    card: IntArray  # [V] states of every variable of the batch
    graph: IntArray  # [V] number of the graph that each variable belongs to


@dataclass(frozen=True)
class Rings:
    """Loops whose corners have the same numbers of states, in the order in which one walks around."""

    shape: tuple[int, ...]  # states of the L corners
    corners: IntArray  # [N, L] variables
    sides: IntArray  # [N, L] number of the pair between corner k and the next one; corner 0 follows the last corner


def find_rings(pairs: Pairs, clock: Clock | None = None) -> list[Rings] | None:
    """Find every loop once, grouped by shape; None if the clock stopped the search.

    From each graph either all loops of one length are taken or none. So the choice does not depend on the order of
    variables or factors, nor on the rest of the batch. Two factors on the same two variables belong to no loop.
    Cost O(sum of squared degrees).
    """
    u, v = pairs.variables.min(1), pairs.variables.max(1)
    count = len(pairs.card)
    keys, first, times = np.unique(u * count + v, return_index=True, return_counts=True)
    keys, pair = keys[times == 1], first[times == 1]
    u, v = u[pair], v[pair]

    tail, head = np.concatenate((u, v)), np.concatenate((v, u))
    order = np.lexsort((head, tail))
    ptr = ptr_of(np.bincount(tail, minlength=count))
    degree = np.diff(ptr)
    paths = np.bincount(pairs.graph, weights=degree * (degree - 1) / 2)
    few = (paths <= MOST_PATHS)[pairs.graph]
    ptr = ptr_of(np.where(few, degree, 0))
    head = head[order][few[tail[order]]]

    if _over(clock):
        return None
    at, near, far = _two_of_each(ptr)  # near - centre - far, near before far
    near, far = head[near], head[far]
    closed = _among(keys, near * count + far)
    is_first = closed & (at < near)
    triangles = np.stack((at, near, far), 1)[is_first]
    if _over(clock):
        return None
    squares = _squares(at[~closed], near[~closed], far[~closed], keys, pairs)

    found: list[Rings] = []
    spent = np.zeros(int(pairs.graph.max(initial=-1)) + 1)
    own = np.bincount(pairs.graph[pairs.variables[:, 0]], pairs.card[pairs.variables].prod(1), minlength=len(spent))
    most = MOST_ENTRIES + MORE_ENTRIES * own
    for corners in (triangles, squares):
        if _over(clock):
            return None
        graph = pairs.graph[corners[:, 0]]
        size = np.bincount(graph, weights=pairs.card[corners].prod(1, dtype=np.float64), minlength=len(spent))
        fits = spent + size <= most
        spent += np.where(fits, size, 0)
        found += _by_shape(corners[fits[graph]], keys, pair, pairs.card)
    return found


def _over(clock: Clock | None) -> bool:
    return clock is not None and clock.stopped


def _squares(at: IntArray, near: IntArray, far: IntArray, keys: IntArray, pairs: Pairs) -> IntArray:
    """Return the loops [N, 4] of two paths between the same ends, where neither the ends nor the centres are a pair."""
    count = len(pairs.card)
    order = np.lexsort((at, near * count + far))
    ends = (near * count + far)[order]
    new = np.flatnonzero(np.r_[True, ends[1:] != ends[:-1]]) if len(ends) else np.zeros(0, np.int64)
    runs = np.r_[new, len(ends)]
    length = np.diff(runs)
    graph = pairs.graph[near[order][new]]
    total = np.bincount(graph, weights=length * (length - 1) / 2, minlength=1)
    few = (total <= MOST_PATHS)[graph]
    order = order[np.repeat(few, length)]
    _, one, two = _two_of_each(ptr_of(length[few]))
    one, two = order[one], order[two]
    # Each square is found twice, once from each diagonal. The find from the diagonal with its lowest variable is kept.
    kept = (near[one] < at[one]) & ~_among(keys, at[one] * count + at[two])
    one, two = one[kept], two[kept]
    return np.stack((near[one], at[one], far[one], at[two]), 1)


def _by_shape(corners: IntArray, keys: IntArray, pair: IntArray, card: IntArray) -> list[Rings]:
    """Return the loops, turned and mirrored so that equal shapes meet, with the pairs on their sides."""
    if not len(corners):
        return []
    length = corners.shape[1]
    ring = np.arange(length)
    images = [np.roll(way, turn) for way in (ring, ring[::-1]) for turn in range(length)]
    states = np.stack([card[corners[:, image]] for image in images])  # [2L, N, L]
    weight = float(card.max() + 1) ** ring[::-1]
    best = (states * weight).sum(2).argmin(0)
    corners = np.take_along_axis(corners, np.array(images)[best], 1)
    after = np.roll(corners, -1, axis=1)
    sides = pair[np.searchsorted(keys, np.minimum(corners, after) * len(card) + np.maximum(corners, after))]
    shapes, which = np.unique(card[corners], axis=0, return_inverse=True)
    return [
        Rings(tuple(shape.tolist()), corners[which.ravel() == n], sides[which.ravel() == n])
        for n, shape in enumerate(shapes)
    ]


def _two_of_each(ptr: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return all pairs of entries of the same row: the row, the earlier and the later entry."""
    row = row_of(ptr)
    entry = np.arange(int(ptr[-1]))
    later = ptr[row + 1] - entry - 1  # the number of entries after each in its row
    one = np.repeat(entry, later)
    two = one + 1 + place_in_row(ptr_of(later))
    return row[one], one, two


def _among(keys: IntArray, values: IntArray) -> BoolArray:
    """Return which of the values are in the sorted keys."""
    if not len(keys):
        return np.zeros(len(values), bool)
    place = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return np.asarray(keys[place] == values)
