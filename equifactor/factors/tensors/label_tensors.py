"""Messages of Potts and truncated linear factors in torch: O(d) and O(d log d) for d states, for any mix of sizes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equifactor.factors.tensors.factor_trees import FactorTree
from equifactor.factors.tensors.kind_tensors import KindTensors
from equifactor.kernels.pointers import ptr_of, row_of
from equifactor.kernels.semirings import per_row, plus

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring
    from equifactor.graph.flat_graph import StructuredGroup


class LabelTensors(KindTensors):
    """Factors over two variables with a label for every state; edges 2n and 2n + 1 belong to factor n."""

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        self.state_ptr = ptr_of(group.card)
        self.labels = self.index(group.words)  # [s]
        self.factor_of_state = self.index(row_of(self.state_ptr) // 2)

    def values_of(self, values: Tensor, which: int) -> Tensor:
        """[s, ..] one of both log values of the factor of each edge state."""
        pairs = values.reshape(self.num_factors, 2, *values.shape[1:])
        return pairs[:, which].index_select(0, self.factor_of_state)

    def both_labels(self, states: Tensor) -> Tensor:
        """[A, N, 2] the labels of the states [A, e]."""
        return self.labels[self.first_state + states].reshape(len(states), -1, 2)


class PottsTensors(LabelTensors):
    """A state receives from the one with its label, and from the sum of all others."""

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        self.tree = FactorTree.of(self.state_ptr, device)
        edge = row_of(self.state_ptr)
        order = np.lexsort((edge, group.words, edge // 2))
        here, after = order[:-1], order[1:]
        same = (group.words[here] == group.words[after]) & (edge[here] // 2 == edge[after] // 2)
        match = np.full(len(edge), -1)
        match[here[same]], match[after[same]] = after[same], here[same]
        self.has_match = self.index(match >= 0)
        self.match = self.index(np.maximum(match, 0))
        self.other_edge = self.index(edge ^ 1)

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """No state is subtracted from a sum that it is part of."""
        add = partial(plus, semiring=semiring)
        none = q.new_full((1, *q.shape[1:]), -torch.inf)
        found = self.tree.up(q, none, add)
        roots = torch.full_like(found[-1], -torch.inf)
        others = self.tree.down(found, roots, none, add)
        has = per_row(self.has_match, q)
        like = torch.where(has, q.index_select(0, self.match), -torch.inf)
        rest = torch.where(has, others.index_select(0, self.match), found[-1].index_select(0, self.other_edge))
        return add(self.values_of(values, 0) + like, self.values_of(values, 1) + rest)

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """The first value where labels are equal, else the second."""
        label = self.both_labels(states)
        equal, different = values.reshape(-1, 2).unbind(1)
        return torch.where(label[:, :, 0] == label[:, :, 1], equal, different)


class TruncatedLinearTensors(LabelTensors):
    """A state receives from four stretches of labels: near and far, below and above it.

    The labels in reach depend on slope and limit; each stretch is put together from blocks of 1, 2, 4, .. states.
    """

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        edge = row_of(self.state_ptr)
        order = np.lexsort((group.words, edge))
        self.order = self.index(order)  # [s] states by edge and growing label
        self.width = int(group.words.max()) + 1
        self.keys = self.index(edge * self.width + group.words[order])  # `edge` is the same before and after sorting
        self.other_first = self.index(self.state_ptr[edge ^ 1])
        self.other_last = self.index(self.state_ptr[(edge ^ 1) + 1])
        self.other_key = self.index((edge ^ 1) * self.width)
        self.levels = int(group.card.max()).bit_length()

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """What is near has slope times distance, what is far the limit."""
        slope, limit = self.values_of(values, 0), self.values_of(values, 1)
        low, middle, high = self._stretches(slope, limit)
        label = per_row(self.labels - self.width // 2, q).to(q.dtype)
        first, last = self.other_first, self.other_last
        near_below = self._between(q - slope * label, low, middle, semiring) + slope * label
        near_above = self._between(q + slope * label, middle, high, semiring) - slope * label
        blocks = self._blocks(q, semiring)
        far = plus(self._sum(blocks, first, low, semiring), self._sum(blocks, high, last, semiring), semiring) + limit
        return plus(plus(near_below, near_above, semiring), far, semiring)

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """The cost of the distance, at most the limit, negative."""
        label = self.both_labels(states)
        slope, limit = values.reshape(-1, 2).unbind(1)
        return torch.maximum(slope * (label[:, :, 0] - label[:, :, 1]).abs().to(values.dtype), limit)

    def _stretches(self, slope: Tensor, limit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[s] where labels in reach of each state begin, pass it and end, among the other variable's sorted states.

        At the border of reach both values are the same, so that rounding there does not matter. Channels scale slope
        and limit alike, and the first one that is not 0 tells.
        """
        if slope.ndim > 1:
            best = slope.detach().abs().argmax(1, keepdim=True)
            slope, limit = slope.gather(1, best).squeeze(1), limit.gather(1, best).squeeze(1)
        slope, limit = slope.detach(), limit.detach()
        steps = torch.where(slope == 0, float(self.width), limit / torch.where(slope == 0, -1.0, slope))
        reach = steps.clamp(0.0, float(self.width)).double().floor().long()
        begin = self.other_key + (self.labels - reach).clamp_min(0)
        end = self.other_key + (self.labels + reach).clamp_max(self.width - 1)
        low = torch.searchsorted(self.keys, begin)
        middle = torch.searchsorted(self.keys, self.other_key + self.labels, right=True)
        return low, middle, torch.searchsorted(self.keys, end, right=True)

    def _between(self, terms: Tensor, start: Tensor, stop: Tensor, semiring: Semiring) -> Tensor:
        """[s, ..] the sums of terms [s, ..] over stretches of sorted states."""
        return self._sum(self._blocks(terms, semiring), start, stop, semiring)

    def _blocks(self, terms: Tensor, semiring: Semiring) -> list[Tensor]:
        """Sums of terms [s, ..] over 1, 2, 4, .. sorted states from each one on; blocks may run into the next edge."""
        found = [terms.index_select(0, self.order)]
        for level in range(self.levels - 1):
            now, step = found[-1], min(2**level, len(terms))
            after = torch.cat((now[step:], now.new_full((step, *now.shape[1:]), -torch.inf)))
            found.append(plus(now, after, semiring))
        return found

    def _sum(self, blocks: list[Tensor], start: Tensor, stop: Tensor, semiring: Semiring) -> Tensor:
        """[s, ..] over stretches [s] of sorted states, each of them within one edge; -inf for an empty one."""
        left = stop - start
        found = torch.full_like(blocks[0], -torch.inf)
        for level, block in enumerate(blocks):
            taken = (left >> level) & 1 == 1
            part = block.index_select(0, torch.where(taken, start, 0))
            found = plus(found, torch.where(per_row(taken, part), part, -torch.inf), semiring)
            start = torch.where(taken, start + 2**level, start)
        return found
