"""Ragged binary trees: the joint value of all other members of a row, for each member, in O(log k) steps.

A factor of k exchangeable variables (a parity, a clause, a count, a product) joins their values two by two, up to its
root. On the way down each child gets the value from above joined with that of its sibling. So every member gets all
others without a subtraction, for O(k) work in O(log k) operations, for rows of any lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from equifactor.kernels.pointers import place_in_row, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray


class _Level(NamedTuple):
    """How the nodes of one level, n of them, hang below those of the next one; n stands for a missing node."""

    left: Tensor  # [m] of each node above
    right: Tensor  # [m]
    above: Tensor  # [n] of each node here
    sibling: Tensor  # [n]


Join = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class FactorTree:
    """One tree over the members of each of N rows; `of` lays it out."""

    levels: tuple[_Level, ...]

    @staticmethod
    def of(ptr: IntArray, device: torch.device) -> FactorTree:
        """Return trees over the rows of a flat array, given by their pointer [N+1]. No row may be empty."""
        levels = []
        while np.any(np.diff(ptr) > 1):
            count, size = int(ptr[-1]), np.diff(ptr)
            above = ptr_of((size + 1) // 2)
            row = np.repeat(np.arange(len(size)), np.diff(above))
            left = ptr[row] + 2 * place_in_row(above)
            right = np.where(left + 1 < ptr[row + 1], left + 1, count)
            place, owner = place_in_row(ptr), np.repeat(np.arange(len(size)), size)
            sibling = ptr[owner] + (place ^ 1)
            sibling = np.where(sibling < ptr[owner + 1], sibling, count)
            arrays = (left, right, above[owner] + place // 2, sibling)
            levels.append(_Level(*(torch.tensor(a, device=device) for a in arrays)))
            ptr = above
        return FactorTree(tuple(levels))

    def up(self, leaves: Tensor, identity: Tensor, join: Join) -> list[Tensor]:
        """Return the values of the nodes of each level, from the leaves [n, ..] to the roots [N, ..].

        `identity` [1, ..] joined with anything changes nothing. Where nodes above are wider than those below, along
        the second axis, it is padded with -inf.
        """
        found = [leaves]
        for level in self.levels:
            below = _with_missing(found[-1], identity)
            found.append(join(below.index_select(0, level.left), below.index_select(0, level.right)))
        return found

    def down(self, found: list[Tensor], roots: Tensor, identity: Tensor, give: Join) -> Tensor:
        """Return the joint value of all other leaves at each leaf [n, ..], from the roots [N, ..] and `up`."""
        for level, inside in zip(reversed(self.levels), reversed(found[:-1]), strict=True):
            siblings = _with_missing(inside, identity).index_select(0, level.sibling)
            roots = give(roots.index_select(0, level.above), siblings)
        return roots

    def sum_of_others(self, leaves: Tensor, roots: Tensor) -> Tensor:
        """Return [n, ..] the sum of all other leaves of the row and of the value at the root; -inf stays -inf."""
        zero = leaves.new_zeros(1, *leaves.shape[1:])
        return self.down(self.up(leaves, zero, torch.add), roots, zero, torch.add)


def _with_missing(nodes: Tensor, identity: Tensor) -> Tensor:
    """Return nodes [n, ..] and behind them the one that stands for a missing node."""
    wider = nodes.shape[1] - identity.shape[1] if nodes.ndim > 1 else 0
    if wider > 0:
        identity = torch.cat((identity, identity.new_full((1, wider, *identity.shape[2:]), -torch.inf)), dim=1)
    return torch.cat((nodes, identity))
