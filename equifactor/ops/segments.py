"""Sums and maxima over index segments."""

from __future__ import annotations

import torch
from torch import Tensor


def segment_sum(values: Tensor, index: Tensor, count: int) -> Tensor:
    """out[n] = sum of values [N] (or [N, H]) whose index is n."""
    return values.new_zeros(count, *values.shape[1:]).index_add(0, index, values)


def segment_max(values: Tensor, index: Tensor, count: int, empty: float = -torch.inf) -> Tensor:
    """out[n] = largest of values [N] whose index is n; `empty` where there are none."""
    return values.new_full((count,), empty).scatter_reduce(0, index, values, "amax")


def segment_logsumexp(values: Tensor, index: Tensor, count: int) -> Tensor:
    """out[n] = ln sum exp of values [N] whose index is n; -inf where all are."""
    top = segment_max(values.detach(), index, count)
    top = torch.where(torch.isneginf(top), 0.0, top)
    return segment_sum((values - top[index]).exp(), index, count).log() + top
