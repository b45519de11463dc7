"""Messages of parities in torch: pairs of numbers that a tree over the scope joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equifactor.factors.tensors.factor_trees import FactorTree
from equifactor.factors.tensors.kind_tensors import KindTensors
from equifactor.factors.tensors.signed_tensors import first_only
from equifactor.kernels.segments import segment_sum
from equifactor.kernels.semirings import total

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring
    from equifactor.graph.flat_graph import StructuredGroup


class ParityTensors(KindTensors):
    """Parities of a batch; a pair holds the sums of an even and of an odd number of ones."""

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        self.tree = FactorTree.of(group.edge_ptr, device)

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """Return messages: the even and the odd value of a factor go to its root, and each leaf gets its message."""

        def join(a: Tensor, b: Tensor) -> Tensor:
            return torch.stack((total(a + b, 1, semiring), total(a + b.flip(1), 1, semiring)), dim=1)

        leaves = q.reshape(self.num_edges, 2, *q.shape[1:])
        identity = first_only(leaves)
        found = self.tree.up(leaves, identity, join)
        roots = values.reshape(self.num_factors, 2, *values.shape[1:])
        return self.tree.down(found, roots, identity, join).reshape(q.shape)

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """Return the value of even or odd."""
        odd = segment_sum(states.T, self.factor_of_edge, self.num_factors).T % 2
        return values[self.first_value + odd]
