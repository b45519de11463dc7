"""What kinds over signed binary variables share in torch: pairs of the state that fails and the one that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equifactor.factors.tensors.factor_trees import Join
from equifactor.factors.tensors.kind_tensors import KindTensors
from equifactor.kernels.segments import segment_sum
from equifactor.kernels.semirings import per_row, plus, total

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring


class SignedTensors(KindTensors):
    """Kinds over binary variables; the sign of a variable is the state in which it holds."""

    signs: Tensor  # [e]

    def pairs(self, q: Tensor) -> Tensor:
        """Return messages [s, ..] as pairs [e, 2, ..] of the state that fails and the one that holds."""
        return self._turned(q.reshape(self.num_edges, 2, *q.shape[1:]))

    def unpaired(self, pairs: Tensor) -> Tensor:
        """Return pairs [e, 2, ..] as messages [s, ..]."""
        return self._turned(pairs).reshape(self.num_states, *pairs.shape[2:])

    def _turned(self, pairs: Tensor) -> Tensor:
        return torch.where(per_row(self.signs, pairs) == 1, pairs, pairs.flip(1))

    def number_held(self, states: Tensor) -> Tensor:
        """Return [A, N] how many literals hold at the states [A, e]."""
        return segment_sum((states == self.signs).long().T, self.factor_of_edge, self.num_factors).T


def some_of_two(semiring: Semiring) -> Join:
    """Return the function that joins two pairs (none, some) [n, 2, ..]: none of either, or some of one."""

    def join(a: Tensor, b: Tensor) -> Tensor:
        some = plus(a[:, 1] + total(b, 1, semiring), a[:, 0] + b[:, 1], semiring)
        return torch.stack((a[:, 0] + b[:, 0], some), dim=1)

    return join


def none_or_some(semiring: Semiring) -> Join:
    """Return the function that computes the message to one of two joined pairs (none, some).

    Its arguments are the message to both pairs and the value of the other pair.
    """

    def give(out: Tensor, b: Tensor) -> Tensor:
        return torch.stack((total(out + b, 1, semiring), out[:, 1] + total(b, 1, semiring)), dim=1)

    return give


def first_only(nodes: Tensor) -> Tensor:
    """Return [1, 2, ..] the value of a node with nothing below it: certainly the first of the two."""
    shape = (1, 1, *nodes.shape[2:])
    return torch.cat((nodes.new_zeros(shape), nodes.new_full(shape, -torch.inf)), dim=1)
