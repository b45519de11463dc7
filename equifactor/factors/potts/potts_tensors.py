"""Messages of Potts factors in torch: O(d) for d states, for any mix of sizes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equifactor.factors.tensors.factor_trees import FactorTree
from equifactor.factors.tensors.label_tensors import LabelTensors
from equifactor.kernels.pointers import row_of
from equifactor.kernels.semirings import per_row, plus

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring
    from equifactor.graph.flat_graph import StructuredGroup


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
