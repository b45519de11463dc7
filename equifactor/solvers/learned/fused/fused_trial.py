"""A trial of the fused kernels on a small graph: whether they compile on this machine and agree with torch there."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from equifactor.graph import FactorGraph, compile
from equifactor.solvers.learned.network import NetworkState
from equifactor.solvers.learned.wiring import Wiring, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.solvers.learned.fe_net import FENet
    from equifactor.solvers.learned.fused.fused_step import Fused

# The largest difference from torch, relative to the largest number. Products in TF32 are off by 0.001, and wrong code
# by about 1.
_AGREE = 0.05
_known: dict[tuple[Any, ...], bool] = {}  # The outcomes of this process.


def kernels_work(network: FENet, wiring: Wiring, make: Callable[[FENet, Wiring], Fused]) -> bool:
    """Return whether a fused step agrees with torch for networks of these sizes and variables of this cardinality.

    The first trial compiles the kernels, which takes seconds and is cached on disk. With gradients it includes those.
    If the trial fails, it warns once and names the reason.

    Args:
        network: the network, whose weights the trial uses.
        wiring: a batch that the kernels take.
        make: the function that prepares the kernels for a batch.
    """
    device, backward = wiring.unary.device, torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    precision, card = torch.get_float32_matmul_precision(), wiring.card
    assert card is not None
    key = device, card, precision, backward, str(network.config)
    if key not in _known:
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False  # Kernels cannot be compiled and compared while a CUDA graph is captured.
        try:
            why = _difference(network, card, device, backward, make)
        except Exception as error:  # Compilers and drivers raise errors of their own classes.
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        _known[key] = not why
        if why:
            warnings.warn(
                f"The fused kernels of fe-net cannot be used on {device} ({why}). The network runs in torch, which is "
                "slower. EQUIFACTOR_FUSED=0 switches the kernels off without a trial.",
                RuntimeWarning,
                stacklevel=2,
            )
    return _known[key]


def _difference(
    network: FENet, card: int, device: torch.device, backward: bool, make: Callable[[FENet, Wiring], Fused]
) -> str:
    """Return how one fused step on a square of four variables differs from torch; empty if it agrees."""
    rng = np.random.default_rng(0)
    pairs = [((i, j), rng.standard_normal((card, card))) for i, j in ((0, 1), (1, 2), (3, 2), (0, 3))]
    graph = FactorGraph([card] * 4, pairs, log=True)
    with torch.inference_mode(False), torch.set_grad_enabled(backward):
        flat = compile([graph]).to(str(device), "float32")
        start = network.plain_start(wire(flat, "sum"))
        h = torch.tensor(rng.standard_normal(start.hidden[0].shape), dtype=torch.float32, device=device)
        start = start._replace(hidden=(h, *start.hidden[1:]))
        fused = replace(start.wiring, fused=make(network, start.wiring))
        want, got = _outcome(network, start, backward), _outcome(network, start._replace(wiring=fused), backward)
    for name, w in want.items():
        error = float((got[name] - w).abs().max()) / max(float(w.abs().max()), 1e-3)
        if not error <= _AGREE:
            return f"their {name} differ from those of torch by {error:.1g}"
    return ""


def _outcome(network: FENet, state: NetworkState, backward: bool) -> dict[str, Tensor]:
    """Return what one step gives: messages and hidden vectors, and the gradients of all weights in a row."""
    after = type(network).step(network, state)  # A compiled step would be compiled again for the small graph.
    found = {"messages": after.msg_fv, "hidden vectors": after.hidden[0]}
    if backward:
        own = [p for p in network.parameters() if p.requires_grad]
        total = found["messages"].sin().sum() + found["hidden vectors"].sin().sum()
        grads = torch.autograd.grad(total, own, allow_unused=True)
        rows = [torch.zeros_like(p) if g is None else g for p, g in zip(own, grads, strict=True)]
        found["gradients"] = torch.cat([row.reshape(-1) for row in rows])
    return {name: value.detach() for name, value in found.items()}
