"""The step of a factorial model: groups of variables that do not depend on each other from one slice to the next.

Where the tables of a step fall into small groups of variables, the step is one small matrix for each group, and takes
a compiled pass instead of products of large tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.sequences.chained_products import Factor, product

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.sequences.slice_model import SliceModel

    Scope = tuple[int, ...]

_ROWS = 64  # Most entries of each of the two groups behind; see chain_kernels.py.
_MERGED = 4  # Matrices of neighbours are merged up to this size: a kernel takes four rows at a time.


class FactorialMoves(NamedTuple):
    """A step for the kernels: matrices, and the axes that they multiply."""

    axes: IntArray  # [n, 4] for each matrix: entries before its axis, of it and after it in its group; its place
    ends: IntArray  # [3] where the matrices of the three groups end
    matrices: FloatArray  # [all entries]


@dataclass(frozen=True, eq=False)
class ChainSteps:
    """The three groups of the state, and the step as matrices."""

    high: Scope  # the state variables in front
    low: Scope  # those behind
    sizes: IntArray  # [3] entries of `high`, and of the two groups in `low`
    forward: FactorialMoves
    backward: FactorialMoves


def chain_steps(model: SliceModel) -> ChainSteps | None:
    """Return the step of a factorial model, or None if its variables do not fall into small neighbouring groups."""
    V, state = len(model.first), model.state
    tables = [*model.transitions(), *(Factor((v - V,), np.ones(model.card[v])) for v in state)]
    chains: list[Scope] = []
    for v in state:
        joined = {v}.union(*({u if u >= V else u + V for u in f.scope} for f in tables if {v, v - V} & {*f.scope}))
        while chains and joined & {*chains[-1]}:
            joined |= {*chains.pop()}
        chains.append(tuple(u for u in state if u in joined))
    placed = [v for own in chains for v in own]
    if placed != list(state) or max(math.prod(model.card[v] for v in own) for own in chains) > _ROWS:
        return None
    groups: list[list[Scope]] = [[], [], []]
    place, size = 2, 1
    for own in reversed(chains):
        entries = math.prod(model.card[v] for v in own)
        if place > 0 and size * entries > _ROWS:
            place, size = place - 1, 1
        size *= entries
        groups[place].insert(0, own)
    flat = [[v for own in group for v in own] for group in groups]
    sizes = np.array([math.prod(model.card[v] for v in own) for own in flat])
    moves = [_moves(model, groups, tables, back) for back in (False, True)]
    return ChainSteps(tuple(flat[0]), (*flat[1], *flat[2]), sizes, *moves)


def _moves(model: SliceModel, groups: list[list[Scope]], tables: Sequence[Factor], back: bool) -> FactorialMoves:
    """Return the matrices of each group, merged while they are small."""
    axes: list[tuple[int, ...]] = []
    matrices: list[FloatArray] = []
    ends: list[int] = []
    for group in groups:
        merged: list[Scope] = []
        for own in group:
            if merged and math.prod(model.card[v] for v in (*merged[-1], *own)) <= _MERGED:
                own = (*merged.pop(), *own)
            merged.append(own)
        before, after = 1, math.prod(model.card[v] for own in group for v in own)
        for own in merged:
            past = tuple(v - len(model.first) for v in own)
            X = math.prod(model.card[v] for v in own)
            after //= X
            matrix = product([f for f in tables if {*f.scope} & {*past, *own}], (*past, *own)).table.reshape(X, X)
            axes.append((before, X, after, sum(m.size for m in matrices)))
            matrices.append(matrix.T if back else matrix)
            before *= X
        ends.append(len(axes))
    return FactorialMoves(np.array(axes), np.array(ends), np.concatenate([np.ravel(m) for m in matrices]))
