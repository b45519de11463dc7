"""Messages of counts in torch: a tree over the scope whose nodes know how many of their literals hold, up to a cap.

If the values of a factor are equal from some number on, larger numbers are merged. If they are equal up to some number,
the literals that fail are counted instead. With a gradient in the values, only true zeros are merged.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from equifactor.factors.tensors.factor_trees import FactorTree
from equifactor.factors.tensors.signed_tensors import SignedTensors, first_only
from equifactor.kernels.pointers import picked
from equifactor.kernels.semirings import total

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray, Semiring
    from equifactor.graph.flat_graph import StructuredGroup


class _CountBatch(NamedTuple):
    """The factors whose caps are rounded up to one power of two."""

    cap: int
    edges: Tensor  # [e'] among the edges of the group
    tree: FactorTree
    value: Tensor  # [N', cap + 1] where the value of each number lies; t for a number that is out of reach


class CountTensors(SignedTensors):
    """Counts in one batch for each power of two; caps are rounded up to powers of two."""

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        self.kept: dict[bool | None, tuple[Any, CountTensors]] = {}  # the last result of `given`, and its caps
        self.signs = self.index(group.words)

    def given(self, values: FloatArray | None, fixed: bool) -> CountTensors:
        """Return tensors with caps for these values: the number from which on, or down to which, values are equal."""
        arity, ptr = np.diff(self.group.edge_ptr), self.group.value_ptr
        caps, turned = arity, np.zeros(len(arity), bool)
        if values is not None:
            joined = np.isneginf(values) if not fixed else np.ones(len(values), bool)
            up = _last_change(values, ptr, joined, from_end=False)
            down = _last_change(values, ptr, joined, from_end=True)
            caps, turned = np.minimum(up, down), down < up
        wanted, key = np.stack((caps, turned)), None if values is None else fixed
        if key not in self.kept or not np.array_equal(self.kept[key][0], wanted):
            other = copy.copy(self)
            other._lay_out(caps, turned)
            self.kept[key] = wanted, other
        return self.kept[key][1]

    def _lay_out(self, caps: IntArray, turned: Any) -> None:
        group = self.group
        arity = np.diff(group.edge_ptr)
        self.batches: list[_CountBatch] = []
        self.counted = self.index(group.words ^ np.repeat(turned, arity))
        rounded = 2 ** np.ceil(np.log2(np.maximum(caps, 1))).astype(np.int64)
        for cap in np.unique(rounded).tolist():
            members = np.flatnonzero(rounded == cap)
            ptr, edges = picked(group.edge_ptr, members)
            number = np.arange(cap + 1)
            place = np.where(turned[members, None], arity[members, None] - number, number)
            place = np.where(
                number <= arity[members, None], group.value_ptr[members, None] + place, group.value_ptr[-1]
            )
            tree = FactorTree.of(ptr, self.device)
            self.batches.append(_CountBatch(cap, self.index(edges), tree, self.index(place)))

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """Return messages: the value of each number goes to the root of the tree."""
        pairs = q.reshape(self.num_edges, 2, *q.shape[1:])
        turn = self.counted.reshape(-1, *[1] * (pairs.ndim - 1)) == 1
        pairs = torch.where(turn, pairs, pairs.flip(1))
        out = torch.zeros_like(pairs)
        padded = torch.cat((values, values.new_full((1, *values.shape[1:]), -torch.inf)))
        for batch in self.batches:
            found = _batch_messages(batch, padded, pairs.index_select(0, batch.edges), semiring)
            out = out.index_copy(0, batch.edges, found) if len(self.batches) > 1 else found
        return torch.where(turn, out, out.flip(1)).reshape(q.shape)

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """Return the value of the number of literals that hold."""
        return values[self.first_value + self.number_held(states)]


def _batch_messages(batch: _CountBatch, padded: Tensor, leaves: Tensor, semiring: Semiring) -> Tensor:
    """Return the messages to the leaves [e', 2, ..]; nodes of level l have min(2^l, cap) + 1 numbers."""
    cap = batch.cap

    def join(a: Tensor, b: Tensor) -> Tensor:
        width = a.shape[1]
        side = b.new_full((len(b), width - 1, *b.shape[2:]), -torch.inf)
        windows = torch.cat((side, b, side), dim=1).unfold(1, width, 1)  # [n, 2 width - 1, .., width]
        sums = total(windows + a.flip(1).movedim(1, -1).unsqueeze(1), -1, semiring)
        if sums.shape[1] <= cap + 1:
            return sums
        return torch.cat((sums[:, :cap], total(sums[:, cap:], 1, semiring).unsqueeze(1)), dim=1)

    def give(out: Tensor, b: Tensor) -> Tensor:
        width = b.shape[1]
        more = 2 * width - 1 - out.shape[1]
        if more > 0:  # numbers above the cap have the value of the cap
            out = torch.cat((out, out[:, -1:].expand(-1, more, *out.shape[2:])), dim=1)
        return total(out.unfold(1, width, 1) + b.movedim(1, -1).unsqueeze(1), -1, semiring)

    identity = first_only(leaves)
    found = batch.tree.up(leaves, identity, join)
    roots = padded.index_select(0, batch.value.reshape(-1)).reshape(*batch.value.shape, *padded.shape[1:])
    return batch.tree.down(found, roots[:, : found[-1].shape[1]], identity, give)


def _last_change(values: FloatArray, ptr: IntArray, joined: Any, from_end: bool) -> IntArray:
    """Return [N] the least number from which on a factor's values [t] are equal and `joined`; otherwise its arity.

    With `from_end` numbers count down from the arity.
    """
    size = np.diff(ptr)
    row = np.repeat(np.arange(len(size)), size)
    place = np.arange(len(values)) - ptr[row]
    place = size[row] - 1 - place if from_end else place
    last = values[ptr[:-1] if from_end else ptr[1:] - 1]
    differs = (values != last[row]) | ~joined
    caps = np.zeros(len(size), np.int64)
    np.maximum.at(caps, row, np.where(differs, place + 1, 0))
    return np.minimum(caps, size - 1)
