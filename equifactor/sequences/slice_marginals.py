"""The distribution of every variable of a slice, from that of the slice's state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from equifactor.sequences.chained_products import eliminated

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.sequences.slice_model import Patterns, SlicePart
    from equifactor.sequences.slice_sums import Observed


def slice_marginals(observed: Observed, t0: int, p: FloatArray) -> list[FloatArray]:
    """Return the distributions [N, B, states] of all variables, given p(state) [N, B, S] of slices t0 to t0 + B."""
    model, (N, B, _) = observed.model, p.shape
    V = len(model.first)
    found: list[FloatArray | None] = [None] * V
    for v, values in _single_margins(p, list(model.state), model.card):
        found[v - V] = values
    for part, first, later in observed.parts:
        if not part.variables:
            continue
        if len(part.scope) == 1:
            of_scope = found[part.scope[0] - V]
            assert of_scope is not None
        else:
            of_scope = margin(p, model.state, part.scope, model.card)
        for k, v in enumerate(part.variables):
            values = np.empty((N, B, model.card[v]))
            at = 0
            if t0 == 0:
                values[:, :1] = _hidden(observed, part, first, k, of_scope[:, :1], slice(0, 1))
                at = 1
            if at < B:
                places = slice(t0 + at - 1, t0 + B - 1)
                values[:, at:] = _hidden(observed, part, later, k, of_scope[:, at:], places)
            found[v - V] = values
    return [values for values in found if values is not None]


def _hidden(
    observed: Observed, part: SlicePart, patterns: Patterns, k: int, of_scope: FloatArray, at: slice
) -> FloatArray:
    """Return the distribution of one variable of a part: its mean given the state, over the states."""
    v, model = part.variables[k], observed.model
    if (patterns.states[:, k] >= 0).all():
        return np.asarray(patterns.states[:, k, None] == np.arange(model.card[v]), np.float64)[patterns.index[:, at]]
    factors = model.part_factors(part, patterns.states, patterns.later)
    table = eliminated(factors, (-1, *part.scope, v)).table
    total = table.sum(axis=-1, keepdims=True)
    given = (table / np.where(total > 0.0, total, 1.0)).reshape(len(table), -1, model.card[v])  # [U, scope, states]
    index = patterns.index[:, at]
    return np.einsum("nbs,nbsd->nbd", of_scope, given[index])


def margin(p: FloatArray, variables: Sequence[int], keep: Sequence[int], card: Mapping[int, int]) -> FloatArray:
    """Return the distribution [N, B, states] of some variables, from their joint with others [N, B, S].

    Neighbours that leave are summed in one go: NumPy is slow on arrays with many small axes.
    """
    before = 1
    for stays, run in groupby(variables, key=lambda v: v in keep):
        size = math.prod(card[v] for v in run)
        if stays:
            before *= size
        else:
            p = p.reshape(*p.shape[:2], before, size, -1).sum(axis=3)
            p = p.reshape(*p.shape[:2], -1)
    return p


def _single_margins(p: FloatArray, variables: list[int], card: Mapping[int, int]) -> Iterator[tuple[int, FloatArray]]:
    """Yield each variable with its distribution, from their joint [N, B, S]: one half is summed out at a time."""
    if len(variables) <= 1:
        if variables:
            yield variables[0], p
        return
    half = len(variables) // 2
    halves = variables[:half], variables[half:]
    left, right = (math.prod(card[v] for v in own) for own in halves)
    split = p.reshape(*p.shape[:2], left, right)
    yield from _single_margins(split.sum(axis=3), halves[0], card)
    yield from _single_margins(split.sum(axis=2), halves[1], card)
