"""Belief propagation in place of elimination, for a CRF whose elimination does not fit into memory."""

from __future__ import annotations

import torch
from torch import Tensor

from equifactor.graph import FactorGraph, FlatGraph, compile
from equifactor.learning.crf.plan_layer import exact_numbers
from equifactor.solvers.learned.bp_layer import beliefs

_KEPT = 4  # The number of compiled batches that are kept: full and last batches of training and of validation.


class BPEngine:
    """Belief propagation on batches of one structure; the compiled batches are kept."""

    def __init__(self, graph: FactorGraph, iterations: int, damping: float) -> None:
        self.graph = graph
        self.iterations = iterations
        self.damping = damping
        self._compiled: dict[tuple[int, torch.device, torch.dtype], tuple[FlatGraph[Tensor], Tensor]] = {}

    def sums(self, log_phi: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ln Z [B], the probabilities of states [B, X] and of table entries [B, T], and the last changes [B]."""
        exact_numbers(log_phi)
        if log_phi.dtype not in (torch.float32, torch.float64):
            return tuple(t.to(log_phi.dtype) for t in self.sums(log_phi.float()))  # type: ignore[return-value]
        flat, order = self._flat(len(log_phi), log_phi)
        in_order = log_phi.reshape(-1).index_select(0, order)
        answer = beliefs(flat, in_order, damping=self.damping, iterations=self.iterations, gradient="implicit")
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        entries = answer.factors.index_select(0, back).reshape(log_phi.shape)
        return answer.log_z, answer.probabilities.reshape(len(log_phi), -1), entries, answer.change

    def _flat(self, count: int, like: Tensor) -> tuple[FlatGraph[Tensor], Tensor]:
        key = count, like.device, like.dtype
        if key not in self._compiled:
            if len(self._compiled) >= _KEPT:
                self._compiled.pop(next(iter(self._compiled)))
            compiled = compile([self.graph] * count)
            order = torch.tensor(compiled.entry_order, device=like.device)
            self._compiled[key] = compiled.to(str(like.device), str(like.dtype).removeprefix("torch.")), order
        return self._compiled[key]
