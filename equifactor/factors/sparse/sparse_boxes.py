"""Sparse tables as small tables: a selector variable chooses a listed configuration, or a box of the others.

The assignments that are not listed are cut into boxes that do not overlap. In a box, the first states are those of a
listed configuration. No listed configuration that begins with them has the next state. The rest is free. An assignment
is in exactly one box or is exactly one configuration. So the selector is a function of it, and the product is right for
sums and maxima.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.pointers import picked, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows


def add_selectors(builder: LoweredBuilder, rows: FactorRows) -> None:
    """Add every factor as a unary table of its selector and one table per variable that ties both."""
    for n in range(rows.num_factors):
        one = rows.take(np.array([n]))
        cards = one.card
        _, places = picked(one.word_ptr, np.array([0]))
        listed = one.words[places].reshape(-1, len(cards))
        default, values = one.log_values[0], one.log_values[1:]
        builder.expect(len(listed) * (1 + cards.sum()))
        allowed = [np.arange(d) == listed[:, j, None] for j, d in enumerate(cards.tolist())]  # [listed, d] each
        if default > -np.inf:
            boxes = _boxes(builder, listed, cards)
            allowed = [np.vstack(both) for both in zip(allowed, boxes, strict=True)]
            values = np.concatenate((values, np.full(len(boxes[0]), default)))
        if not len(values):  # nothing is listed and the rest is zero: one state that nothing fits
            allowed = [np.zeros((1, d), bool) for d in cards.tolist()]
            values = np.array([-np.inf])
        selector = builder.auxiliary(np.array([len(values)]))
        builder.add(selector[None], values[None])
        for variable, fits in zip(one.scope_vars.tolist(), allowed, strict=True):
            builder.add(np.array([[selector[0], variable]]), np.where(fits, 0.0, -np.inf)[None])


def _boxes(builder: LoweredBuilder, listed: IntArray, cards: IntArray) -> list[BoolArray]:
    """Return [boxes, d] for each variable the states that each box allows; the boxes cover all that is not listed."""
    if not len(listed):
        return [np.ones((1, d), bool) for d in cards.tolist()]
    listed = listed[np.lexsort(listed.T[::-1])]
    begins = np.arange(len(listed)) == 0  # where configurations begin that agree in all variables so far
    first: list[IntArray] = []  # for each place the first configurations that agree with its boxes before it
    rest: list[BoolArray] = []  # and the states [boxes, d] that no configuration has there
    for j, d in enumerate(cards.tolist()):
        start = np.flatnonzero(begins)
        builder.expect(d * len(start))
        taken = np.zeros((len(start), d), bool)
        taken[np.cumsum(begins) - 1, listed[:, j]] = True
        has_rest = ~taken.all(axis=1)
        first.append(start[has_rest])
        rest.append(~taken[has_rest])
        begins[1:] |= listed[1:, j] != listed[:-1, j]
    ptr = ptr_of([len(own) for own in first])
    owner = np.concatenate(first)
    builder.expect(ptr[-1] * cards.sum())
    allowed = []
    for j, d in enumerate(cards.tolist()):
        states = np.ones((ptr[-1], d), bool)  # free in the boxes that leave the listed ones before this place
        states[ptr[j] : ptr[j + 1]] = rest[j]
        states[ptr[j + 1] :] = np.arange(d) == listed[owner[ptr[j + 1] :], j, None]
        allowed.append(states)
    return allowed
