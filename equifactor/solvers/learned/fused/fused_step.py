"""Which batches the fused kernels take, and one step of FE-Net with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from equifactor.base.torch_device import may_fuse
from equifactor.solvers.learned.fused.packed_weights import Sizes, pack, packing
from equifactor.solvers.learned.layers import settling

if TYPE_CHECKING:
    from equifactor.solvers.learned.fe_net import FENet
    from equifactor.solvers.learned.network import NetworkState
    from equifactor.solvers.learned.wiring import Wiring

# The most states of a variable. A tile of 16 states holds 8,192 table entries, which is what registers can hold.
_MOST_STATES = 16
# The most joint states of a loop: squares of four states.
_MOST_JOINT = 256


@dataclass(eq=False)
class Fused:
    """What the steps of one batch share: packed weights and indices."""

    sizes: Sizes
    weights: tuple[Tensor, Tensor, Tensor]  # Of the node, pair and update kernels.
    card: int
    loops: Any  # A `kernel_calls.LoopArrays`, or None if the torch path computes the corrections.
    none: Tensor  # [] zero: the share of the old state that stays in a step without `settle`.
    precision: str  # Of matrix products, a word of Triton.


def fuse(network: FENet, wiring: Wiring) -> Fused | None:
    """Return what the kernels need for a batch, or None if the torch path must run it.

    The kernels add with atomic operations in any order, as sums of torch do on a GPU. Someone who asks torch for
    deterministic algorithms gets the torch path.
    """
    if not may_fuse(wiring.unary.device) or torch.are_deterministic_algorithms_enabled():
        return None
    if not _takes(network, wiring):
        return None
    from equifactor.solvers.learned.fused.fused_trial import kernels_work

    return _prepared(network, wiring) if kernels_work(network, wiring, _prepared) else None


def _prepared(network: FENet, wiring: Wiring) -> Fused:
    """Return what the kernels need for a batch that they take."""
    from equifactor.solvers.learned.fused.kernel_calls import loop_arrays

    assert wiring.card is not None
    device = wiring.unary.device
    index = getattr(network, "_packing", None)
    if index is None or index.device != device:
        with torch.inference_mode(False):
            index = torch.tensor(packing(network), device=device)
        object.__setattr__(network, "_packing", index)  # Not a buffer: it is not a part of the model file.
    loops = None
    if wiring.loops is not None:
        joint = max(wiring.card ** len(group.shape) for group in wiring.loops.index.groups)
        loops = loop_arrays(wiring) if joint <= _MOST_JOINT else None
    # The same switch as that of the torch path; three products of TF32 numbers are as precise as float32.
    precision = "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    sizes = Sizes.of(network.channels, network.hidden, network.tables)
    none = torch.zeros((), device=device)
    return Fused(sizes, pack(network, index), wiring.card, loops, none, precision)


def _takes(network: FENet, wiring: Wiring) -> bool:
    """Return whether all larger factors are pair tables of one cardinality without zeros, in float32, for sums."""
    return (
        wiring.card is not None
        and wiring.card <= _MOST_STATES
        and len(wiring.groups) == 1
        and len(wiring.groups[0].shape) == 2
        and not wiring.kinds
        and not wiring.has_zeros
        and wiring.semiring == "sum"
        and network.tables > 0
        and wiring.unary.dtype == torch.float32
        and next(network.parameters()).dtype == torch.float32
        and not wiring.log_phi.requires_grad  # The kernels have no gradients with respect to the tables.
    )


def fused_step(network: FENet, fused: Fused, state: NetworkState) -> NetworkState:
    """Do steps 1 to 7 of the docstring of `FENet`, as `FENet.step` does."""
    from equifactor.solvers.learned.fused import kernel_calls as calls

    wiring, old, (before, seen_by_states, t) = state.wiring, state.msg_fv, state.hidden
    node, pair, update = fused.weights
    v, total, belief = calls.nodes(fused, wiring, old, before, node)
    new, u, q = calls.pairs(fused, wiring, old, belief, total, v, pair)
    if fused.loops is not None:
        delta, seen_by_states = calls.loops(fused, wiring, old, belief, new)
    elif wiring.loops is not None:
        delta, seen_by_states = wiring.loops.corrections(wiring, old, new)
    else:
        delta = torch.zeros_like(new)
    stays = fused.none
    if network.settle:
        stays = 1.0 - settling(t + 1.0, network.config.steps, network.settle)
    msg, h = calls.update(fused, network, wiring, old, belief, new, delta, u, q, before, update, stays)
    return state._replace(msg_fv=msg, hidden=(h, seen_by_states, t + 1.0))
