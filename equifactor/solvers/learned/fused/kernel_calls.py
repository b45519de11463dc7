"""The four parts of a fused step as functions with gradients. A backward pass computes activations again."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from equifactor.solvers.learned.fused.fused_nodes import node_backward, node_forward
from equifactor.solvers.learned.fused.fused_pairs import pair_backward, pair_forward
from equifactor.solvers.learned.fused.loop_kernels import loop_backward, loop_forward
from equifactor.solvers.learned.fused.packed_weights import power_of_two
from equifactor.solvers.learned.fused.update_gradients import update_backward
from equifactor.solvers.learned.fused.update_kernels import update_forward

if TYPE_CHECKING:
    from equifactor.solvers.learned.fe_net import FENet
    from equifactor.solvers.learned.fused.fused_step import Fused
    from equifactor.solvers.learned.wiring import Wiring

_ROWS = 64  # Edge states per tile.
_JOINT = 1024  # Joint states of loops per tile.
_PER_CORE = 4  # Programs per multiprocessor; each writes one share of the gradient of the weights.


@functools.cache
def _most_programs(device: torch.device) -> int:
    """Return the number of programs that fill a device; two in the interpreter, where programs run one by one."""
    return _PER_CORE * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def _tiles(count: int, of: int, device: torch.device) -> tuple[int, int]:
    """Return the number of tiles and of programs."""
    blocks = -(-count // of)
    return blocks, min(blocks, _most_programs(device))


def _padded(fused: Fused) -> tuple[int, int, dict[str, Any]]:
    """Return the padded number of states, the number of edges of a tile and what all kernels with weights take."""
    states = power_of_two(fused.card)
    s = fused.sizes
    return (
        states,
        max(2, _ROWS // states),
        {"D": fused.card, "P": states, "C": s.channels, "CP": s.wide, "PREC": fused.precision},
    )


# ---- v and its sums -------------------------------------------------------------------------------------


class _Nodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, msg: Tensor, h: Tensor, w: Tensor, fused: Fused, wiring: Wiring) -> Any:
        _, edges, settings = _padded(fused)
        settings |= {"G": edges, "H": fused.sizes.hidden}
        blocks, programs = _tiles(wiring.num_edges, edges, h.device)
        v, total = torch.empty_like(h), h.new_zeros(wiring.num_states, h.shape[1])
        belief = wiring.unary.clone()
        node_forward[(programs,)](msg, h, wiring.state, w, v, total, belief, wiring.num_edges, blocks, **settings)
        ctx.save_for_backward(h, w)
        ctx.rest = wiring, settings, blocks, programs
        return v, total, belief

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        h, w = ctx.saved_tensors
        wiring, settings, blocks, programs = ctx.rest
        g_v, g_total, g_belief = (g.contiguous() for g in grads)
        g_msg, g_h, g_w = h.new_empty(len(h)), torch.empty_like(h), w.new_empty(programs, len(w))
        node_backward[(programs,)](
            h, wiring.state, w, g_v, g_total, g_belief, g_msg, g_h, g_w, wiring.num_edges, blocks,
            SIZE=len(w), **settings,
        )  # fmt: skip
        return g_msg, g_h, g_w.sum(0), None, None


def nodes(fused: Fused, wiring: Wiring, msg: Tensor, h: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return v = MLP1[h, mean of h] [S2, C], its sum [X, C] and the log belief [X] at each variable state."""
    v, total, belief = _Nodes.apply(msg, h, w, fused, wiring)  # type: ignore[no-untyped-call]
    return v, total, belief


# ---- tables ---------------------------------------------------------------------------------------------


class _Pairs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, msg: Tensor, belief: Tensor, total: Tensor, v: Tensor, w: Tensor, fused: Fused, wiring: Wiring
    ) -> Any:
        (group,) = wiring.groups
        _, edges, settings = _padded(fused)
        settings |= {"B": edges // 2, "H": fused.sizes.hidden, "Q": fused.sizes.tables, "FP": fused.sizes.features}
        factors = group.num_factors
        blocks, programs = _tiles(factors, edges // 2, v.device)
        places = factors, group.slots[0].start, group.slots[1].start, group.entries.start, blocks
        new, u, q = torch.empty_like(msg), torch.empty_like(v), v.new_empty(len(v), fused.sizes.tables)
        pair_forward[(programs,)](
            msg, belief, total, v, wiring.state, wiring.log_phi, w, new, u, q, *places, **settings
        )
        ctx.save_for_backward(msg, belief, total, v, w)
        ctx.rest = wiring, settings, places, programs
        return new, u, q

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        msg, belief, total, v, w = ctx.saved_tensors
        wiring, settings, places, programs = ctx.rest
        g_new, g_u, g_q = (g.contiguous() for g in grads)
        g_msg, g_v, g_w = torch.empty_like(msg), torch.empty_like(v), w.new_empty(programs, len(w))
        g_belief, g_total = torch.zeros_like(belief), torch.zeros_like(total)
        pair_backward[(programs,)](
            msg, belief, total, v, wiring.state, wiring.log_phi, w, g_new, g_u, g_q,
            g_msg, g_belief, g_total, g_v, g_w, *places, SIZE=len(w), **settings,
        )  # fmt: skip
        return g_msg, g_belief, g_total, g_v, g_w.sum(0), None, None


def pairs(
    fused: Fused, wiring: Wiring, msg: Tensor, belief: Tensor, total: Tensor, v: Tensor, w: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the BP messages m~ [S2], u [S2, C] and q [S2, Q] as the GRU sees it."""
    new, u, q = _Pairs.apply(msg, belief, total, v, w, fused, wiring)  # type: ignore[no-untyped-call]
    return new, u, q


# ---- loops ----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class LoopArrays:
    """The index arrays of loops, with shares in float32, and the place of each group."""

    share: Tensor
    mean: Tensor
    groups: tuple[tuple[Tensor, int, int, int], ...]  # Joint tables, number of loops, first corner state, corners.


def loop_arrays(wiring: Wiring) -> LoopArrays:
    """Return the arrays of the loops of a batch."""
    assert wiring.loops is not None
    index, cache = wiring.loops.index, wiring.flat.cache
    if "fused loops" not in cache:
        with torch.inference_mode(False):
            cache["fused loops"] = index.share.float(), index.mean.float()
    share, mean = cache["fused loops"]
    groups = tuple(
        (wiring.loops.tables[g.entries], g.num_factors, g.slots[0].start, len(g.shape)) for g in index.groups
    )
    return LoopArrays(share, mean, groups)


class _Loops(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, msg: Tensor, belief: Tensor, new: Tensor, fused: Fused, wiring: Wiring) -> Any:
        delta, at_states = torch.zeros_like(new), torch.zeros_like(belief)
        arrays = fused.loops
        for table, count, start, settings, programs, where in _loop_groups(fused, wiring):
            loop_forward[(programs,)](
                msg, belief, new, table, *where, arrays.share, arrays.mean, delta, at_states, count, start, **settings
            )
        ctx.save_for_backward(msg, belief)
        ctx.rest = fused, wiring
        return delta, at_states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        msg, belief = ctx.saved_tensors
        fused, wiring = ctx.rest
        g_delta, g_at_states = (g.contiguous() for g in grads)
        g_msg, g_new, g_belief = torch.zeros_like(msg), torch.zeros_like(msg), torch.zeros_like(belief)
        arrays = fused.loops
        for table, count, start, settings, programs, where in _loop_groups(fused, wiring):
            loop_backward[(programs,)](
                msg, belief, table, *where, arrays.share, arrays.mean, g_delta, g_at_states,
                g_msg, g_belief, g_new, count, start, **settings,
            )  # fmt: skip
        return g_msg, g_belief, g_new, None, None


def _loop_groups(fused: Fused, wiring: Wiring) -> list[tuple[Any, ...]]:
    """Return the arguments of the loop kernels for each shape of loops."""
    assert wiring.loops is not None
    index = wiring.loops.index
    calls = []
    for table, count, start, corners in fused.loops.groups:
        joint = fused.card**corners
        padded = power_of_two(joint)
        settings = {"D": fused.card, "L": corners, "N": joint, "NP": padded, "B": max(1, _JOINT // padded)}
        programs = -(-count // settings["B"])
        calls.append((table, count, start, settings, programs, (index.state, *index.inside)))
    return calls


def loops(fused: Fused, wiring: Wiring, msg: Tensor, belief: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Return half of each correction [S2] and their mean at each variable state [X], as `Loops.corrections` does."""
    delta, at_states = _Loops.apply(msg, belief, new, fused, wiring)  # type: ignore[no-untyped-call]
    return delta, at_states


# ---- GRU and message ------------------------------------------------------------------------------------


class _Update(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        msg, belief, new, delta, u, q, h, w, stays, fused, network, wiring = args
        _, edges, settings = _padded(fused)
        settings |= {"G": edges, "Q": fused.sizes.tables, "FP": fused.sizes.features, "TEMPER": network.temper}
        blocks, programs = _tiles(wiring.num_edges, edges, h.device)
        msg_out, h_out = torch.empty_like(msg), torch.empty_like(h)
        rest = wiring.num_edges, blocks, network.first_alpha
        update_forward[(programs,)](
            msg, belief, new, wiring.unary_seen, delta, u, q, h, wiring.state, w, stays, msg_out, h_out,
            *rest, **settings,
        )  # fmt: skip
        ctx.save_for_backward(msg, belief, new, delta, u, q, h, w, stays)
        ctx.rest = wiring, settings, rest, programs
        return msg_out, h_out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        msg, belief, new, delta, u, q, h, w, stays = ctx.saved_tensors
        wiring, settings, rest, programs = ctx.rest
        g_msg_out, g_h_out = (g.contiguous() for g in grads)
        g_msg, g_new, g_delta, g_u, g_q, g_h = (torch.empty_like(t) for t in (msg, new, delta, u, q, h))
        g_belief, g_w = torch.zeros_like(belief), w.new_empty(programs, len(w))
        update_backward[(programs,)](
            msg, belief, new, wiring.unary_seen, delta, u, q, h, wiring.state, w, stays, g_msg_out, g_h_out,
            g_msg, g_belief, g_new, g_delta, g_u, g_q, g_h, g_w, *rest, SIZE=len(w), **settings,
        )  # fmt: skip
        return g_msg, g_belief, g_new, g_delta, g_u, g_q, g_h, g_w.sum(0), None, None, None, None


def update(fused: Fused, network: FENet, wiring: Wiring, *tensors: Tensor) -> tuple[Tensor, Tensor]:
    """Return messages [S2] and hidden vectors [S2, C] after the step.

    The tensors are msg, belief, new, delta, u, q, h, the packed weights, and the share of the old state that stays.
    """
    msg, h = _Update.apply(*tensors, fused, network, wiring)  # type: ignore[no-untyped-call]
    return msg, h
