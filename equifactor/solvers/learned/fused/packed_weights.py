"""The weights of FE-Net in the order in which its kernels read them, padded with zeros to sizes the kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.solvers.learned.fe_net import FENet

_SEEN = 6  # The number of log messages that the GRU sees.
_LEAST = 16  # The smallest side of a matrix product in Triton.


def power_of_two(size: int, least: int = 1) -> int:
    """Return the smallest power of two that is at least `size` and at least `least`."""
    return max(least, 1 << (size - 1).bit_length())


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network and the padded sizes of its kernels."""

    channels: int  # C
    wide: int  # CP, the padded C.
    hidden: int  # H, padded.
    tables: int  # Q
    features: int  # FP, the padded number of features of the GRU besides u.

    @classmethod
    def of(cls, channels: int, hidden: int, tables: int) -> Sizes:
        """Return the sizes of a network with C channels, a hidden layer and Q tables."""
        features = power_of_two(tables + _SEEN + 1, _LEAST)
        return cls(channels, power_of_two(channels, _LEAST), power_of_two(hidden, _LEAST), tables, features)

    @property
    def parts(self) -> tuple[int, int, int]:
        """The number of packed weights of the node, pair and update kernels."""
        c, h, f = self.wide, self.hidden, self.features
        return 3 * c * h + h + c, 2 * c * h + h * f + 2 * h + 3 * f, 3 * f * c + 6 * c * c + 6 * c + 4 * c + 4


def packing(network: FENet) -> IntArray:
    """Return, for each packed weight, its place among all weights in a row; one past the last stands for zero."""
    own = dict(network.named_parameters())
    size = sum(p.numel() for p in own.values())
    at: dict[str, IntArray] = {}
    start = 0
    for name, p in own.items():
        at[name] = np.arange(start, start + p.numel()).reshape(p.shape)
        start += p.numel()
    sizes = Sizes.of(network.channels, network.hidden, network.tables)
    C, Q, CP, H, FP = sizes.channels, sizes.tables, sizes.wide, sizes.hidden, sizes.features

    def block(values: IntArray | None, *shape: int) -> IntArray:
        """Return the transposed values, padded to a shape, in a row."""
        out = np.full(shape, size)
        if values is not None:
            out[tuple(slice(n) for n in values.T.shape)] = values.T
        return out.ravel()

    first, second = at["mlp1.0.weight"], at["mlp2.0.weight"]
    context = network.context
    node = [
        block(first[:, :C], CP, H),
        block(first[:, C:] if context else None, CP, H),
        block(at["mlp1.2.weight"], H, CP),
        block(at["mlp1.0.bias"], H),
        block(at["mlp1.2.bias"], CP),
    ]
    pair = [
        block(second[:, :C], CP, H),
        block(second[:, C : 2 * C] if context else None, CP, H),
        block(at["mlp2.2.weight"], H, FP),
        block(second[:, -1], H),
        block(at["mlp2.0.bias"], H),
        *(block(at[name], FP) for name in ("mlp2.2.bias", "beta", "gamma")),
    ]
    seen, state = at["gru.weight_ih"].reshape(3, C, -1), at["gru.weight_hh"].reshape(3, C, C)
    # The GRU sees [log messages, u, q, delta]. The kernels see [q, log messages, delta] and u.
    order = [*range(_SEEN + C, _SEEN + C + Q), *range(_SEEN), *range(_SEEN + C + Q, seen.shape[2])]
    out, bias = at["out.weight"], at["out.bias"]
    # Alpha and epsilon come first, then kappa with loops, and tau with temper.
    rows = [0, 1, 2 if network.loops else None, len(out) - 1 if network.temper else None]
    update = [
        *(block(seen[n][:, order], FP, CP) for n in range(3)),
        *(block(seen[n][:, _SEEN : _SEEN + C], CP, CP) for n in range(3)),
        *(block(state[n], CP, CP) for n in range(3)),
        *(block(at[name].reshape(3, C)[n], CP) for name in ("gru.bias_ih", "gru.bias_hh") for n in range(3)),
        *(block(None if n is None else out[n], CP) for n in rows),
        *(block(None if n is None else bias[n : n + 1], 1) for n in rows),
    ]
    return np.concatenate([*node, *pair, *update])


def pack(network: FENet, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the packed weights of the node, pair and update kernels; gradients reach the network's own weights."""
    flat = torch.cat([p.reshape(-1) for p in network.parameters()] + [index.new_zeros(1, dtype=torch.float32)])
    packed = flat.index_select(0, index)
    sizes = Sizes.of(network.channels, network.hidden, network.tables)
    node, pair, update = torch.split(packed, list(sizes.parts))
    return node, pair, update
