"""Messages of clauses in torch: pairs of numbers that a tree over the scope joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equifactor.factors.tensors.factor_trees import FactorTree
from equifactor.factors.tensors.signed_tensors import SignedTensors, first_only, none_or_some, some_of_two

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring
    from equifactor.graph.flat_graph import StructuredGroup


class ClauseTensors(SignedTensors):
    """Clauses of a batch; a pair holds the sum where no literal holds and the sum where one does."""

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        self.signs = self.index(group.words)
        self.tree = FactorTree.of(group.edge_ptr, device)

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """Return messages: the value of a violated clause, and 0 otherwise, go to the root of the tree."""
        leaves = self.pairs(q)
        identity = first_only(leaves)
        found = self.tree.up(leaves, identity, some_of_two(semiring))
        roots = torch.stack((values, torch.zeros_like(values)), dim=1)
        return self.unpaired(self.tree.down(found, roots, identity, none_or_some(semiring)))

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """Return 0 where a literal holds."""
        return torch.where(self.number_held(states) > 0, 0.0, values)
