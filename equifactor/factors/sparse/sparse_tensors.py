"""Messages of sparse tables in torch: every listed configuration on its own, all others in boxes that do not overlap.

`sparse_kernels` describes the boxes. The slots before the place of a box have the states of a listed configuration. The
slot at that place has one of several states, and the later slots have any state. Received messages are scaled first, so
that "any state" adds up to 1.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from equifactor.factors.sparse.sparse_kernels import SparseBoxes, sparse_boxes
from equifactor.factors.tensors.factor_trees import FactorTree
from equifactor.factors.tensors.kind_tensors import KindTensors
from equifactor.graph.layout import CARD, SLOT
from equifactor.kernels.pointers import place_in_row, ptr_of, row_of
from equifactor.kernels.segments import finite, segment_sum
from equifactor.kernels.semirings import per_row, plus, segment_total

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, Semiring
    from equifactor.graph.flat_graph import StructuredGroup


class _Boxes(NamedTuple):
    """The boxes of some factors, B of them; a leaf is one of their first states, or the states at their place."""

    tree: FactorTree
    factor: Tensor  # [B]
    edge: Tensor  # [B] at the place
    leaf_of_first: Tensor  # [f] the leaves that are first states
    state_of_first: Tensor  # [f] the edge states of these leaves
    leaf_of_place: Tensor  # [B]
    box_of_rest: Tensor  # [r] the box of each state that boxes have at their place
    state_of_rest: Tensor  # [r] these edge states
    num_leaves: int


class SparseTensors(KindTensors):
    """Listed configurations, and boxes for the factors whose default is above zero."""

    boxes: _Boxes | None = None

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        arity = np.diff(group.edge_ptr)
        listed = np.diff(group.value_ptr) - 1  # [N]
        factor = np.repeat(np.arange(self.num_factors), listed)
        word_ptr = ptr_of(arity[factor])  # of each listed configuration
        owner = row_of(word_ptr)
        self.state_ptr = ptr_of(group.card)
        edge = group.edge_ptr[factor[owner]] + place_in_row(word_ptr)
        self.edge_of_word = self.index(edge)
        self.listed_of_word = self.index(owner)
        self.words = self.index(group.words)
        self.state_of_word = self.index(self.state_ptr[edge] + group.words)
        self.factor_of_listed = self.index(factor)
        self.value_of_listed = self.index(np.delete(np.arange(group.value_ptr[-1]), group.value_ptr[:-1]))
        self.tree = FactorTree.of(word_ptr, device)
        self.slots = FactorTree.of(group.edge_ptr, device)
        self.place = self.index(place_in_row(group.edge_ptr))
        self.longest = int(arity.max())
        self.kept: dict[bool, tuple[BoolArray, SparseTensors]] = {}  # the last result of `given`, and its defaults

    def given(self, values: FloatArray | None, fixed: bool) -> SparseTensors:
        """Lay out boxes for defaults above zero, or for all factors if the values may not be looked at."""
        wanted = np.ones(self.num_factors, bool) if values is None else values[self.group.value_ptr[:-1]] > -np.inf
        key = values is None
        if key not in self.kept or not np.array_equal(self.kept[key][0], wanted):
            other = copy.copy(self)
            other.boxes = self._boxes(wanted) if wanted.any() else None
            self.kept[key] = wanted, other
        return self.kept[key][1]

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """Add up configurations and boxes: each sends a state its value plus the messages to its other states."""
        listed = values.index_select(0, self.value_of_listed)
        sent = [self.tree.sum_of_others(q.index_select(0, self.state_of_word), listed)]
        to = [self.state_of_word]
        if self.boxes is not None:
            self._add_boxes(self.boxes, values, q, semiring, sent, to)
        return segment_total(torch.cat(sent), torch.cat(to), self.num_states, semiring)

    def _add_boxes(
        self, boxes: _Boxes, values: Tensor, q: Tensor, semiring: Semiring, sent: list[Tensor], to: list[Tensor]
    ) -> None:
        scale = self.over_states(q, semiring)
        q = q - finite(scale).index_select(0, self.edge_of_state)
        default = values.index_select(0, self.first_value)
        # The part of a message from the other slots, with the default of the factor.
        others = self.slots.sum_of_others(scale, default).index_select(0, self.edge_of_state)
        rest = q.index_select(0, boxes.state_of_rest)
        here = segment_total(rest, boxes.box_of_rest, len(boxes.factor), semiring)
        leaves = q.new_zeros(boxes.num_leaves, *q.shape[1:]).index_copy(0, boxes.leaf_of_place, here)
        leaves = leaves.index_copy(0, boxes.leaf_of_first, q.index_select(0, boxes.state_of_first))
        nothing = leaves.new_zeros(1, *q.shape[1:])
        found = boxes.tree.up(leaves, nothing, torch.add)
        given = boxes.tree.down(found, torch.zeros_like(found[-1]), nothing, torch.add)
        states = (boxes.state_of_first, boxes.state_of_rest, torch.arange(self.num_states, device=self.device))
        ahead = self._before(segment_total(found[-1], boxes.edge, self.num_edges, semiring), semiring)
        parts = (
            given.index_select(0, boxes.leaf_of_first),
            given.index_select(0, boxes.leaf_of_place).index_select(0, boxes.box_of_rest),
            ahead.index_select(0, self.edge_of_state),
        )
        for part, state in zip(parts, states, strict=True):
            sent.append(part + others.index_select(0, state))
            to.append(state)

    def _before(self, values: Tensor, semiring: Semiring) -> Tensor:
        """Return [e, ..] the sum over the earlier slots of the same factor, by doubling."""
        add, step = partial(plus, semiring=semiring), 1
        lowest = torch.full_like(values[:1], -torch.inf)
        found = torch.where(per_row(self.place >= 1, values), torch.cat((lowest, values[:-1])), -torch.inf)
        while step < self.longest:
            shifted = torch.cat((lowest.expand(step, *values.shape[1:]), found[:-step]))
            found = add(found, torch.where(per_row(self.place >= step, values), shifted, -torch.inf))
            step *= 2
        return found

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """Return the value of the configuration that is met, or the default."""
        differing = (states[:, self.edge_of_word] != self.words).long().T  # [w, A]
        met = segment_sum(differing, self.listed_of_word, len(self.factor_of_listed)) == 0  # [listed, A]
        listed = per_row(values[self.value_of_listed], met).expand(met.shape)
        # At most one configuration is met; a product with 0 would make NaN of an infinite log.
        found = segment_sum(torch.where(met, listed, 0.0), self.factor_of_listed, self.num_factors).T
        any_met = segment_sum(met.long(), self.factor_of_listed, self.num_factors).T > 0
        return torch.where(any_met, found, values[self.first_value])

    def _boxes(self, wanted: BoolArray) -> _Boxes | None:
        group = self.group
        factors = np.zeros((self.num_factors + 1, 2), np.int64)  # as in `Layout`
        factors[:, SLOT] = group.edge_ptr
        slots = np.zeros((self.num_edges, 4), np.int64)
        slots[:, CARD] = group.card
        found = SparseBoxes(*sparse_boxes(factors, slots, np.flatnonzero(wanted), group.word_ptr, group.words))
        count = len(found.word)
        if not count:
            return None  # every assignment is listed
        factor = row_of(found.ptr)
        edge = group.edge_ptr[factor] + found.place
        leaf_ptr = ptr_of(found.place + 1)
        first_ptr = ptr_of(found.place)
        box, place = row_of(first_ptr), place_in_row(first_ptr)
        states = self.state_ptr[group.edge_ptr[factor[box]] + place] + group.words[found.word[box] + place]
        rest = row_of(found.rest_ptr)
        index = self.index
        return _Boxes(
            FactorTree.of(leaf_ptr, self.device), index(factor), index(edge),
            index(leaf_ptr[box] + place), index(states), index(leaf_ptr[1:] - 1),
            index(rest), index(self.state_ptr[edge[rest]] + found.rest), int(leaf_ptr[-1]),
        )  # fmt: skip
