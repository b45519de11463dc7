"""Circuits as torch modules: ln Z of many sets of evidence, with gradients in all table entries, on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.solvers.counting.circuit import LiteralCircuit
    from equifactor.solvers.counting.model_circuit import Circuit, Evidence

_Level = tuple["Tensor", "Tensor", "Tensor", "Tensor"]


class CircuitModule(torch.nn.Module):
    """ln Z of a model as a function of its log entries `log_phi` [T], in the order of `graph.log_phi`.

    Entries that are zero in the compiled model stay zero and have no gradient. Second derivatives are not available.

    Args:
        circuit: a circuit with parameters.
    """

    _kept: Tensor  # the entries that are not zero
    _literal: Tensor  # their literals

    def __init__(self, circuit: Circuit) -> None:
        super().__init__()
        entry = circuit._entries()
        assert circuit.log_phi is not None
        self._circuit = circuit
        self._num_literals = len(circuit.literals.log_weights)
        self.log_phi = torch.nn.Parameter(torch.tensor(circuit.log_phi))
        kept = np.flatnonzero(entry >= 0)
        self.register_buffer("_kept", torch.from_numpy(kept))
        self.register_buffer("_literal", torch.from_numpy(entry[kept]))
        self._num_levels = 0
        for level in _levels(circuit.literals):
            for name, array in zip(("nodes", "items", "branch", "closed"), level, strict=True):
                self.register_buffer(f"_{name}{self._num_levels}", torch.from_numpy(array))
            self._num_levels += 1

    def forward(self, evidence: Evidence | Tensor = None) -> Tensor:
        """Return ln Z given the evidence, or [N] for a list of mappings or states [N, V] with -1 for free variables."""
        if isinstance(evidence, torch.Tensor):
            evidence = evidence.cpu().numpy()
        rows, single = self._circuit._rows(evidence)
        excluded = torch.from_numpy(self._excluded(rows)).to(self.log_phi.device)
        weights = self.log_phi.new_zeros(self._num_literals).index_add(0, self._literal, self.log_phi[self._kept])
        weights = weights[:, None].masked_fill(excluded, -torch.inf)
        levels = [
            tuple(getattr(self, f"_{name}{k}") for name in ("nodes", "items", "branch", "closed"))
            for k in range(self._num_levels)
        ]
        log_z = _LogSum.apply(weights, levels, self._circuit.num_nodes)  # type: ignore[no-untyped-call]
        return cast("Tensor", log_z[0] if single else log_z)

    def _excluded(self, rows: IntArray) -> BoolArray:
        """Return [2n, N] which literals each row [V] of evidence excludes."""
        s, literal = self._circuit.domain.structure, self._circuit.state_literal
        state = np.arange(len(literal)) - np.repeat(s.state_ptr[:-1], s.card)
        given = np.repeat(rows, s.card, axis=1)
        row, x = np.nonzero((given >= 0) & (given != state))
        excluded = np.zeros((self._num_literals, len(rows)), bool)
        excluded[literal[x], row] = True
        return excluded


class _LogSum(torch.autograd.Function):
    """The log of the sum of a circuit, from the log weights [2n, N] of literals; its gradient are their shares."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, levels: list[_Level], num_nodes: int) -> Tensor:
        size, count = weights.shape
        free = torch.logaddexp(weights[::2], weights[1::2])
        leaves = torch.cat((weights, free))
        values = torch.cat((leaves, weights.new_empty(num_nodes, count)))
        branches = []
        for nodes, items, branch, closed in levels:
            sums = weights.new_zeros(len(closed), count).index_add_(0, branch, values[items])
            sums[closed] = -torch.inf
            values[nodes] = torch.logaddexp(sums[::2], sums[1::2])
            branches.append(sums)
        ctx.save_for_backward(leaves, values, *branches)
        ctx.levels, ctx.size = levels, size
        return values[-1].clone()

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        leaves, values, *branches = ctx.saved_tensors
        share = torch.zeros_like(values)
        share[-1] = slope
        for (nodes, items, branch, _), sums in zip(reversed(ctx.levels), reversed(branches), strict=True):
            part = _ratio(sums, values[nodes].repeat_interleave(2, 0)) * share[nodes].repeat_interleave(2, 0)
            share.index_add_(0, items, part[branch])
        literal, free = share[: ctx.size], share[ctx.size : len(leaves)]
        split = _ratio(leaves[: ctx.size], leaves[ctx.size :].repeat_interleave(2, 0))
        return literal + split * free.repeat_interleave(2, 0), None, None


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    """Return the ratio of two numbers given by their logs; 0 where the part is 0."""
    return torch.where(part > -torch.inf, torch.exp(part - whole), 0.0)


def _levels(circuit: LiteralCircuit) -> list[tuple[IntArray, IntArray, IntArray, BoolArray]]:
    """Return the nodes of a circuit in levels that need only the levels before them.

    A level has the places of its nodes among all values, the places of all items, the branch of each item, and which
    branches are closed: their sum is 0.
    """
    first, count = 3 * (len(circuit.log_weights) // 2), circuit.num_nodes
    at = circuit.node_ptr[:-1, None] + np.arange(2)
    sizes = circuit.arena[at].astype(np.int64)
    is_item = np.ones(len(circuit.arena), bool)
    is_item[at] = False
    items = circuit.arena[is_item].astype(np.int64)
    branch = np.repeat(np.arange(2 * count), np.maximum(sizes, 0).ravel())
    depth = np.zeros(count, np.int64)
    for child, parent in zip((-1 - items[items < 0]).tolist(), (branch[items < 0] >> 1).tolist(), strict=True):
        depth[parent] = max(depth[parent], depth[child] + 1)
    items = np.where(items < 0, first - 1 - items, items)
    levels = []
    place = np.zeros(count, np.int64)  # of each node among those of its level
    for level in range(int(depth.max(initial=0)) + 1):
        nodes = np.flatnonzero(depth == level)
        place[nodes] = np.arange(len(nodes))
        own = depth[branch >> 1] == level
        inside = 2 * place[branch[own] >> 1] + (branch[own] & 1)
        levels.append((first + nodes, items[own], inside, sizes[nodes].ravel() < 0))
    return levels
