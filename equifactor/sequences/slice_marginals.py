"""The distribution of every variable of a slice, from that of the slice's state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from equifactor.sequences.chained_products import eliminated

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.sequences.slice_model import Patterns, SliceModel
    from equifactor.sequences.slice_sums import Observed


def slice_marginals(observed: Observed, t0: int, p: FloatArray) -> list[FloatArray]:
    """Return the distributions [N, B, states] of all variables, given p(state) [N, B, S] of a block from slice t0."""
    model, B = observed.model, p.shape[1]
    V = len(model.first)
    found: dict[int, FloatArray] = dict(_single_margins(p, list(model.state), model.card))
    for patterns in observed.patterns(t0):
        part, index = patterns.part, patterns.index[:, t0 : t0 + B]
        if not part.variables:
            continue
        single = len(part.scope) == 1
        of_scope = found[part.scope[0]] if single else margin(p, model.state, part.scope, model.card)
        for k, v in enumerate(part.variables):
            found[v] = _hidden(model, patterns, k, of_scope, index)
    return [found[V + i] for i in range(V)]


def _hidden(model: SliceModel, patterns: Patterns, k: int, of_scope: FloatArray, index: IntArray) -> FloatArray:
    """Return the distribution of one variable of a part: its mean given the state, over the states."""
    part, codes = patterns.part, patterns.codes[:, k]
    v = part.variables[k]
    d = model.card[v]
    if ((codes >= 0) & (codes < d)).all():
        return np.eye(d)[codes][index]
    factors = model.part_factors(part, patterns.codes, patterns.later)
    table = eliminated(factors, (-1, *part.scope, v)).table
    total = table.sum(axis=-1, keepdims=True)
    given = (table / np.where(total > 0.0, total, 1.0)).reshape(len(table), -1, d)  # [U, scope, states]
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
