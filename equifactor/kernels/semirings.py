"""The sum of either semiring, ln(e^a + e^b) or the larger of two, for tensors with true zeros.

The gradients of these functions, of any order, have no NaN, also where all terms of a sum are -inf.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equifactor.base.typing import Semiring
from equifactor.kernels.segments import logsumexp, safe_log, segment_logsumexp, segment_max


def plus(a: Tensor, b: Tensor, semiring: Semiring) -> Tensor:
    """Return the larger of two logs, or the log of the sum of their exponentials."""
    if semiring == "max":
        return torch.maximum(a, b)
    top = torch.maximum(a, b).detach()
    top = torch.where(torch.isneginf(top), 0.0, top)
    return safe_log((a - top).exp() + (b - top).exp()) + top


def total(values: Tensor, axis: int, semiring: Semiring) -> Tensor:
    """Return the sum of the semiring along an axis that is not empty."""
    return values.amax(axis) if semiring == "max" else logsumexp(values, axis)


def segment_total(values: Tensor, index: Tensor, count: int, semiring: Semiring) -> Tensor:
    """Return in out[n] the semiring's sum over the values [N] (or [N, H]) with index n; -inf without such values."""
    reduce = segment_max if semiring == "max" else segment_logsumexp
    return reduce(values, index, count)


def log1mexp(x: Tensor) -> Tensor:
    """Return ln(1 - e^x) for x < 0, to full precision near 0 and far below; -inf with gradient 0 for x >= 0."""
    below = x < 0
    x = torch.where(below, x, -1.0)
    near = x > -0.6931471805599453
    # Each branch gets a harmless number where the other one is taken. Otherwise its gradient there would be NaN.
    close = (-torch.expm1(torch.where(near, x, -0.5))).log()
    far = torch.log1p(-torch.exp(torch.where(near, -1.0, x)))
    return torch.where(below, torch.where(near, close, far), -torch.inf)


def per_row(values: Tensor, like: Tensor) -> Tensor:
    """Return values [N] or [N, ..] with as many axes as `like`, to be broadcast."""
    return values.reshape(*values.shape, *[1] * (like.ndim - values.ndim))
