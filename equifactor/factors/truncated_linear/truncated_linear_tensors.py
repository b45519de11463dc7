"""Messages of truncated linear factors in torch: O(d log d) for d states, for any mix of sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equifactor.factors.tensors.label_tensors import LabelTensors
from equifactor.kernels.pointers import row_of
from equifactor.kernels.semirings import per_row, plus

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring
    from equifactor.graph.flat_graph import StructuredGroup


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
        """Return messages: labels in reach have slope times distance, the others the limit."""
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
        """Return minus the cost of the distance, which is at most the limit."""
        label = self.both_labels(states)
        slope, limit = values.reshape(-1, 2).unbind(1)
        return torch.maximum(slope * (label[:, :, 0] - label[:, :, 1]).abs().to(values.dtype), limit)

    def _stretches(self, slope: Tensor, limit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return [s] where the labels in reach of each state begin, pass it and end, in the other variable's order.

        At the border of reach both values are the same, so that rounding there does not matter. Channels scale slope
        and limit alike, so the channel of the steepest slope decides for all.
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
        """Return [s, ..] the sums of terms [s, ..] over stretches of sorted states."""
        return self._sum(self._blocks(terms, semiring), start, stop, semiring)

    def _blocks(self, terms: Tensor, semiring: Semiring) -> list[Tensor]:
        """Return sums of terms [s, ..] over 1, 2, 4, .. sorted states from each on; some reach into the next edge."""
        found = [terms.index_select(0, self.order)]
        for level in range(self.levels - 1):
            now, step = found[-1], min(2**level, len(terms))
            after = torch.cat((now[step:], now.new_full((step, *now.shape[1:]), -torch.inf)))
            found.append(plus(now, after, semiring))
        return found

    def _sum(self, blocks: list[Tensor], start: Tensor, stop: Tensor, semiring: Semiring) -> Tensor:
        """Return [s, ..] over stretches [s] of sorted states, each of them within one edge; -inf for an empty one."""
        left = stop - start
        found = torch.full_like(blocks[0], -torch.inf)
        for level, block in enumerate(blocks):
            taken = (left >> level) & 1 == 1
            part = block.index_select(0, torch.where(taken, start, 0))
            found = plus(found, torch.where(per_row(taken, part), part, -torch.inf), semiring)
            start = torch.where(taken, start + 2**level, start)
        return found
