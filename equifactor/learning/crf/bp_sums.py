"""Belief propagation in place of elimination, for a CRF whose elimination does not fit into memory."""

from __future__ import annotations

import torch
from torch import Tensor

from equifactor.graph import FactorGraph
from equifactor.learning.crf.plan_layer import exact_numbers
from equifactor.solvers.learned.bp_layer import BPLayer


class BPEngine:
    """Belief propagation on batches of one structure, with the gradients of its fixed point."""

    def __init__(self, graph: FactorGraph, iterations: int, damping: float) -> None:
        self.iterations = iterations
        self._layer = BPLayer(graph, iterations=iterations, damping=damping, gradient="implicit")

    def sums(self, log_phi: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ln Z [B], the probabilities of states [B, X] and of table entries [B, T], and the last changes [B]."""
        exact_numbers(log_phi)
        if log_phi.dtype not in (torch.float32, torch.float64):
            return tuple(t.to(log_phi.dtype) for t in self.sums(log_phi.float()))  # type: ignore[return-value]
        answer = self._layer(log_phi)
        return answer.log_z[:, 0], answer.probabilities, answer.factors, answer.change[:, 0]
