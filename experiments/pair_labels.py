"""Exact marginals of many binary pair models at once, in torch: training graphs get their targets on the GPU.

The state of a spin is -1 or 1, and the log weight of a model is the sum of J s_i s_j over pairs and of h s_i over
variables. Symbols: B models, n variables.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

_BLOCK = 2**21  # Assignments that are summed at once; with 20 variables they take 0.3 GiB.


@functools.cache
def all_spins(n: int, device: str) -> Tensor:
    """Return [2^n, n] all assignments of n spins; the last variable changes first."""
    bits = torch.arange(2**n, device=device)[:, None] >> torch.arange(n - 1, -1, -1, device=device)
    return ((bits & 1) * 2 - 1).to(torch.float64)


def means_by_enumeration(couplings: Tensor, fields: Tensor) -> Tensor:
    """Return [B, n] mean spins; couplings [B, n, n] are symmetric with zeros on the diagonal, fields are [B, n]."""
    n = fields.shape[1]
    s = all_spins(n, str(fields.device))
    size = max(1, _BLOCK // 2**n)
    found = []
    for j, h in zip(torch.split(couplings, size), torch.split(fields, size), strict=True):
        log_weight = ((s @ j) * s).sum(2) / 2 + h @ s.T
        found.append(torch.softmax(log_weight, 1) @ s)
    return torch.cat(found)


def means_of_two_sides(couplings: Tensor, fields: Tensor) -> Tensor:
    """Return [B, n + m] mean spins of models with couplings [B, n, m] across two sides; the first is enumerated."""
    n = couplings.shape[1]
    s = all_spins(n, str(fields.device))
    found = []
    for w, h in zip(couplings, fields, strict=True):
        f = s @ w + h[n:]
        log_weight = s @ h[:n] + (f.abs() + torch.log1p(torch.exp(-2 * f.abs()))).sum(1)
        p = torch.softmax(log_weight, 0)
        found.append(torch.cat((p @ s, p @ torch.tanh(f))))
    return torch.stack(found)


def means_on_grid(across: Tensor, down: Tensor, fields: Tensor) -> Tensor:
    """Return [B, R, C] mean spins on a grid, summed column by column.

    Args:
        across: [B, R, C - 1] couplings between columns.
        down: [B, R - 1, C] couplings within columns.
        fields: [B, R, C].
    """
    count, rows, columns = fields.shape
    s = all_spins(rows, str(fields.device))
    neighbours = s[:, :-1] * s[:, 1:]
    own = []
    for c in range(columns):
        log_weight = fields[:, :, c] @ s.T + down[:, :, c] @ neighbours.T
        own.append(torch.exp(log_weight - log_weight.amax(1, keepdim=True)))

    def passed(values: Tensor, c: int) -> Tensor:
        """Return the sums over a column of values [B, 2^R], seen from the next column; the largest is 1."""
        for r in range(rows):
            j = across[:, r, c, None, None]
            same, other = torch.exp(j - j.abs()), torch.exp(-j - j.abs())
            low, high = values.view(count, 2**r, 2, -1).unbind(2)
            values = torch.stack((same * low + other * high, other * low + same * high), 2).view(count, -1)
        return values / values.amax(1, keepdim=True)

    before = [own[0]]
    for c in range(1, columns):
        before.append(own[c] * passed(before[-1], c - 1))
    after = torch.ones_like(own[0])
    means: list[Tensor] = []
    for c in range(columns - 1, -1, -1):
        p = before[c] * after
        means.append((p / p.sum(1, keepdim=True)) @ s)
        if c:
            after = passed(own[c] * after, c - 1)
    return torch.stack(means[::-1], 2)
