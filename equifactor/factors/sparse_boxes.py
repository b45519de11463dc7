"""Sparse tables in small tables: one selector variable that says which listed configuration, or which box of the rest.

What is not listed is cut into boxes that do not overlap: the first states are those of a listed configuration, the next
one leaves all of them, the rest is free. An assignment is in exactly one box or on exactly one configuration, so that
the selector is a function of it and the product is right for sums and for maxima.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.pointers import picked

if TYPE_CHECKING:
    from equifactor.factors.factor_rows import FactorRows
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.typing import BoolArray, IntArray


def add_selectors(builder: LoweredBuilder, rows: FactorRows) -> None:
    """Every factor as a unary table of its selector and one table per variable that ties both."""
    for n in range(rows.num_factors):
        one = rows.take(np.array([n]))
        cards = one.card
        _, places = picked(one.word_ptr, np.array([0]))
        listed = one.words[places].reshape(-1, len(cards))
        default, values = one.log_values[0], one.log_values[1:]
        allowed = [np.arange(d) == listed[:, j, None] for j, d in enumerate(cards.tolist())]  # [listed, d] each
        if default > -np.inf:
            boxes = _boxes(listed, cards)
            allowed = [np.vstack(both) for both in zip(allowed, boxes, strict=True)]
            values = np.concatenate((values, np.full(len(boxes[0]), default)))
        if not len(values):  # nothing is listed and the rest is zero: one state that nothing fits
            allowed = [np.zeros((1, d), bool) for d in cards.tolist()]
            values = np.array([-np.inf])
        selector = builder.auxiliary(np.array([len(values)]))
        builder.add(selector[None], values[None])
        for variable, fits in zip(one.scope_vars.tolist(), allowed, strict=True):
            builder.add(np.array([[selector[0], variable]]), np.where(fits, 0.0, -np.inf)[None])


def _boxes(listed: IntArray, cards: IntArray) -> list[BoolArray]:
    """[boxes, d] for each variable the states that each box allows; together all that is not listed."""
    order = np.lexsort(listed.T[::-1])
    listed = listed[order]
    fixed: list[IntArray] = []  # of each box its first states, then -1
    leaves: list[tuple[int, BoolArray]] = []  # of each box the place and the states after them
    groups = [np.arange(len(listed))]  # configurations that agree so far
    for j, d in enumerate(cards.tolist()):
        following = []
        for group in groups:
            taken = np.bincount(listed[group, j], minlength=d) > 0
            if not taken.all():
                prefix = np.full(len(cards), -1)
                if len(group):
                    prefix[:j] = listed[group[0], :j]
                fixed.append(prefix)
                leaves.append((j, ~taken))
            cuts = np.flatnonzero(np.diff(listed[group, j])) + 1
            following += [piece for piece in np.split(group, cuts) if len(piece)]
        groups = following
    allowed = []
    for j, d in enumerate(cards.tolist()):
        states = np.ones((len(fixed), d), bool)
        for box, (prefix, (place, rest)) in enumerate(zip(fixed, leaves, strict=True)):
            if prefix[j] >= 0:
                states[box] = np.arange(d) == prefix[j]
            elif place == j:
                states[box] = rest
        allowed.append(states)
    return allowed
