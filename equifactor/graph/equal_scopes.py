"""Factors over the same variables: together their zeros exclude more than those of each factor alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph.structure import Structure


def zeros_of_equal_scopes(
    s: Structure, factors: IntArray, zero: BoolArray
) -> tuple[IntArray, list[tuple[IntArray, BoolArray]]]:
    """Return the factors that share their set of variables with no other, and the joint zeros of the others.

    Args:
        s: the structure.
        factors: [N] some factors, all of arity 2 at least.
        zero: [T] which table entries are zero.

    Returns:
        the factors that stand alone, and for each shape the scopes [n, k] with their variables in order and the
        entries [n, *shape] at which a factor over these variables is zero.

    Cost O(E log E) for the factors, and O(T) for those that share their variables.
    """
    alone, joint = [np.zeros(0, np.int64)], []
    for k in np.unique(s.arity[factors]).tolist():
        members = factors[s.arity[factors] == k]
        scopes = s.scope_vars[s.scope_ptr[members][:, None] + np.arange(k)]
        ordered = np.sort(scopes, axis=1)
        # Each scope is one number. Rows, where these numbers would be too large, take ten times as long.
        fit = k * np.log2(s.num_vars + 1) < 62
        keys, axis = (ordered @ s.num_vars ** np.arange(k)[::-1], None) if fit else (ordered, 0)
        if fit and np.diff(np.sort(keys)).all():
            alone.append(members)
            continue
        order = np.argsort(scopes, axis=1)
        _, first, which, count = np.unique(keys, axis=axis, return_index=True, return_inverse=True, return_counts=True)
        unique, which = ordered[first], which.ravel()
        shared = count[which] > 1
        alone.append(members[~shared])
        if shared.any():
            joint += list(_joined(s, members[shared], order[shared], unique, which[shared], zero))
    return np.concatenate(alone), joint


def _joined(
    s: Structure, members: IntArray, order: IntArray, scopes: IntArray, which: IntArray, zero: BoolArray
) -> Iterator[tuple[IntArray, BoolArray]]:
    """Yield the joint zeros of factors of one arity, shape by shape; `which` is the number of each ordered scope."""
    shapes = s.card[scopes]
    for shape in np.unique(shapes[which], axis=0):
        mine = np.flatnonzero((shapes[which] == shape).all(axis=1))
        classes, row = np.unique(which[mine], return_inverse=True)
        found = np.zeros((len(classes), *shape.tolist()), bool)
        for turn in np.unique(order[mine], axis=0):  # the factors that list their variables in one order
            some = np.flatnonzero((order[mine] == turn).all(axis=1))
            size = int(np.prod(shape))
            own = shape[np.argsort(turn)]  # the shape in the order of the factor's own scope
            tables = zero[s.table_ptr[members[mine[some]]][:, None] + np.arange(size)].reshape(-1, *own.tolist())
            np.logical_or.at(found, row.ravel()[some], tables.transpose(0, *(turn + 1).tolist()))
        yield scopes[classes], found
