"""Small building blocks of the networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from equifactor.solvers.learned.wiring import Wiring

# A network sees a true zero as a log probability of -10,000. It is part of the network: trained weights depend on it.
_ZERO = 1e4


def squash(log_values: Tensor) -> Tensor:
    """Return arsinh(x), which is what a network sees of a log message. Near 0 it is x; a true zero becomes -9.9.

    Log messages of real models range from 1 to 1,000; a plain clamp would hide all but the smallest.
    """
    return log_values.clamp(-_ZERO, _ZERO).asinh()


def mlp(sizes: Sequence[int], activation: type[nn.Module] = nn.LeakyReLU, *, last_zero: bool = False) -> nn.Sequential:
    """Return a sequence of linear layers with activations between them.

    With `last_zero` it starts as the zero function and can still learn. Only the last layer is zero, so its gradient is
    not zero. After one step the gradients of the other layers are not zero either.
    """
    layers: list[nn.Module] = []
    for n, (size, next_size) in enumerate(pairwise(sizes)):
        layers += [activation()] * (n > 0) + [nn.Linear(size, next_size)]
    if last_zero:
        zero_(layers[-1])
    return nn.Sequential(*layers)


def zero_(layer: nn.Module, bias: float = 0.0) -> None:
    """Set the weight of a linear layer to 0 and its bias to a number."""
    assert isinstance(layer, nn.Linear)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, bias)


def spread(low: float, high: float, count: int) -> Tensor:
    """Return [count] numbers at equal distances. On the device `meta`, which stores no values, they are arbitrary.

    On that device `linspace` makes torch import sympy, which took half of the time of a cold start.
    """
    if torch.get_default_device().type == "meta":
        return torch.empty(count)
    return torch.linspace(low, high, count)


def logit(probability: float) -> float:
    """Return the inverse of the logistic function, at least -39, where the logistic function is 0 up to rounding."""
    p = min(max(probability, 1e-17), 1 - 1e-16)
    return math.log(p / (1 - p))


def settling(t: Tensor, trained: int, power: float) -> Tensor:
    """Return the factor that scales changes in step t: 1 in the T steps a network is trained for, then (T/t)^power.

    For a power above 1 the sum over all later steps is finite, about T / (power - 1), so a run of any length converges.
    Where messages oscillate it takes a mean over them.
    """
    return (trained / t).clamp_max(1.0).pow(power)


class GraphNorm(nn.Module):
    """Graph-wise normalisation (appendix E of [Sun21]): mean 0 and variance 1 over the edge states of a graph."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, wiring: Wiring, variance: Tensor, centred: Tensor) -> Tensor:
        """Return the normalised channels [S2, H], from variance and centred channels of `Wiring.graph_statistics`."""
        scale = (variance + self.eps).rsqrt() * self.scale
        return torch.addcmul(self.shift, centred, wiring.of_graph(scale))
