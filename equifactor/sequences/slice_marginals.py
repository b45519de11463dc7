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
    from equifactor.sequences.slice_sums import Joints, Observed


def slice_marginals(observed: Observed, t0: int, joints: Joints) -> list[FloatArray]:
    """Return the distributions [N, B, states] of all variables in a block from slice t0.

    Args:
        observed: the observations.
        t0: the first slice of the block.
        joints: distributions of the state, or of groups of its variables; see `SliceSums`.
    """
    model = observed.model
    found: dict[int, FloatArray] = {}
    for variables, p in joints:
        if not {*variables} <= found.keys():
            found.update(_single_margins(p, list(variables), model.card))
    for patterns in observed.patterns(t0):
        part, scope = patterns.part, patterns.part.scope
        index = patterns.index[:, t0 : t0 + joints[0][1].shape[1]]
        for k, v in enumerate(part.variables):
            codes = patterns.codes[:, k]
            if ((codes >= 0) & (codes < model.card[v])).all():
                found[v] = np.eye(model.card[v])[codes][index]
                continue
            variables, p = next((own, p) for own, p in joints if {*scope} <= {*own})
            of_scope = found[scope[0]] if len(scope) == 1 else margin(p, variables, scope, model.card)
            found[v] = _hidden(model, patterns, k, of_scope, index)
    return [found[len(model.first) + i] for i in range(len(model.first))]


def _hidden(model: SliceModel, patterns: Patterns, k: int, of_scope: FloatArray, index: IntArray) -> FloatArray:
    """Return the distribution of one variable of a part: its mean given the state, over the states."""
    part = patterns.part
    v = part.variables[k]
    factors = model.part_factors(part, patterns.codes, patterns.later)
    table = eliminated(factors, (-1, *part.scope, v)).table
    total = table.sum(axis=-1, keepdims=True)
    given = (table / np.where(total > 0.0, total, 1.0)).reshape(len(table), -1, model.card[v])  # [U, scope, states]
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
