"""What Potts and truncated linear factors share in torch: labels of states, and two log values per factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equifactor.factors.tensors.kind_tensors import KindTensors
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
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
