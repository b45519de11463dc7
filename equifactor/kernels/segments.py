"""Sums and maxima over index segments.

Gathers that carry a gradient use `index_select`, whose backward pass is an `index_add`. The backward pass of
`values[index]` sorts.
"""

from __future__ import annotations

import torch
from torch import Tensor


def segment_sum(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return in out[n] the sum of the values [N] (or [N, H]) whose index is n."""
    return values.new_zeros(count, *values.shape[1:]).index_add(0, index, values)


def segment_max(values: Tensor, index: Tensor, count: int, empty: float = -torch.inf) -> Tensor:
    """Return in out[n] the largest of the values [N] (or [N, H]) whose index is n; `empty` without such values."""
    out = values.new_full((count, *values.shape[1:]), empty)
    return out.scatter_reduce(0, index.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values), values, "amax")


def segment_logsumexp(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return in out[n] ln sum exp of the values [N] (or [N, H]) whose index is n; -inf if all are."""
    top = segment_max(values.detach(), index, count)
    top = torch.where(torch.isneginf(top), 0.0, top)
    return safe_log(segment_sum((values - top[index]).exp(), index, count)) + top


def logsumexp(values: Tensor, axis: int) -> Tensor:
    """Return ln sum exp along an axis; if all are -inf, -inf with gradient 0 (torch's own gradient is NaN)."""
    top = values.detach().amax(axis, keepdim=True)
    top = torch.where(torch.isneginf(top), 0.0, top)
    return safe_log((values - top).exp().sum(axis)) + top.squeeze(axis)


def finite(log_total: Tensor) -> Tensor:
    """Return 0 in place of -inf: a variable without any possible state stays -inf, and no NaN arises."""
    return torch.where(torch.isneginf(log_total), 0.0, log_total)


def safe_log(total: Tensor) -> Tensor:
    """Return ln of a number >= 0 whose gradient at 0 is 0 instead of 0 times infinity."""
    positive = total > 0
    return torch.where(positive, torch.where(positive, total, 1.0).log(), -torch.inf)
