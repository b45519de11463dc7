"""Elimination of a batch with torch: every table has the graphs as its last axis. For GPUs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.solvers.elimination.orders import Order
from equifactor.torch_device import check_device

if TYPE_CHECKING:
    import torch

    from equifactor.solvers.elimination.plan import Plan
    from equifactor.typing import FloatArray


_COPIES = 4.0  # This many tensors of a cluster's size are alive at once, beside the messages.


class TorchBatch:
    """The clusters of one plan, ready to run chunks of graphs.

    In the log domain throughout: a GPU waits for memory, not for exponentials. The axes of a cluster's table are its
    separator, latest elimination first, its own variable, and the graphs.
    """

    def __init__(self, steps: Plan, device: str, dtype: str) -> None:
        import torch

        check_device(device)
        if not isinstance(steps.found, Order):
            raise ValueError("an unfinished plan cannot be run")
        self.device = torch.device(device)
        self.dtype = getattr(torch, dtype)
        self.steps = steps
        r, order = steps.reduced.graph.structure, steps.found
        self.card = r.card.tolist()
        self.order = order.variables.tolist()
        self.parent = order.parent.tolist()
        place = np.argsort(order.variables)
        scopes = np.split(r.scope_vars, r.scope_ptr[1:-1])
        self.scopes = [scope.tolist() for scope in scopes]
        self.place = place.tolist()
        self.entries = [slice(a, b) for a, b in zip(r.table_ptr[:-1].tolist(), r.table_ptr[1:].tolist(), strict=True)]
        separators = np.split(order.separators, order.sep_ptr[1:-1])
        self.clusters = [
            [*(self.order[k] for k in sep.tolist()), v] for sep, v in zip(separators, self.order, strict=True)
        ]
        self.children: list[list[int]] = [[] for _ in self.order]
        for n, parent in enumerate(self.parent):
            if parent >= 0:
                self.children[parent].append(n)
        self.factors_of: list[list[int]] = [[] for _ in self.order]
        self.constants: list[int] = []
        for a, scope in enumerate(self.scopes):
            if scope:
                self.factors_of[min(self.place[v] for v in scope)].append(a)
            else:
                self.constants.append(self.entries[a].start)

    def chunk(self, memory_limit: float) -> int:
        """How many graphs fit into the memory (GiB) at once."""
        entries = self.steps.memory / 8.0 + _COPIES * 2.0**self.steps.log2_largest
        return max(1, int(memory_limit * 2**30 / (self.dtype.itemsize * entries)))

    def sums(self, log_phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities [n, x] and log_z [n] of the graphs with tables [n, t]."""
        import torch

        phi = torch.as_tensor(log_phi, dtype=self.dtype).to(self.device).T.contiguous()  # [t, n]
        messages: list[torch.Tensor] = []
        total = phi[self.constants].sum(0)
        for n in range(len(self.order)):
            message = torch.logsumexp(self._table(phi, n, messages), dim=-2)
            if self.parent[n] < 0:
                total = total + message.reshape(-1)
            messages.append(message)
        log_z = total.double().cpu().numpy()
        p = self._way_down(phi, messages) if messages else np.zeros((len(log_phi), 0))
        p[np.isneginf(log_z)] = 0.0  # One impossible component makes all of them meaningless.
        return p, log_z

    def _way_down(self, phi: torch.Tensor, messages: list[torch.Tensor]) -> FloatArray:
        """P(s, x) = P(s) q(s, x) / sum_x q(s, x), from the roots to the leaves.

        Tables are made again from the messages below them: time is cheaper than memory here.
        """
        import torch

        marginals: list[torch.Tensor] = [phi] * len(self.order)
        posterior: dict[int, torch.Tensor] = {}
        for n in range(len(self.order) - 1, -1, -1):
            message = messages.pop()
            possible = message > -math.inf
            joint = self._table(phi, n, messages) - torch.where(possible, message, 0.0).unsqueeze(-2)
            above = posterior.pop(n) if self.parent[n] >= 0 else possible.to(joint.dtype)
            joint = joint.exp_().mul_(above.unsqueeze(-2))
            p = joint.reshape(-1, *joint.shape[-2:]).sum(0)
            total = p.sum(0)
            marginals[self.order[n]] = p / torch.where(total > 0, total, 1.0)
            for child in self.children[n]:
                inside = set(self.clusters[child][:-1])
                axes = [k for k, v in enumerate(self.clusters[n]) if v not in inside]
                posterior[child] = joint.sum(axes) if axes else joint
        return torch.cat(marginals).T.double().cpu().numpy()

    def _table(self, phi: torch.Tensor, n: int, messages: list[torch.Tensor]) -> torch.Tensor:
        """Log products of a cluster: its factors and the messages of its children."""
        cluster = self.clusters[n]
        table = phi.new_zeros([1] * (len(cluster) - 1) + [self.card[cluster[-1]], phi.shape[1]])
        for a in self.factors_of[n]:
            table = table + self._factor(phi, a, cluster)
        for child in self.children[n]:
            table = table + self._expand(messages[child], self.clusters[child][:-1], cluster)
        return table

    def _factor(self, phi: torch.Tensor, a: int, cluster: list[int]) -> torch.Tensor:
        """A factor's table with its axes in the order of the cluster, absent ones of length one."""
        scope = self.scopes[a]
        table = phi[self.entries[a]].reshape([self.card[v] for v in scope] + [phi.shape[1]])
        by_place = sorted(range(len(scope)), key=lambda k: -self.place[scope[k]])
        return self._expand(table.permute([*by_place, len(scope)]), [scope[k] for k in by_place], cluster)

    def _expand(self, table: torch.Tensor, scope: list[int], cluster: list[int]) -> torch.Tensor:
        inside = set(scope)
        return table.reshape([self.card[v] if v in inside else 1 for v in cluster] + [table.shape[-1]])
