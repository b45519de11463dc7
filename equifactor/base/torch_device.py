"""A check that torch and the requested device are available, made before a run starts."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from equifactor.base.errors import OptionError, brief
from equifactor.base.optional_packages import needed

if TYPE_CHECKING:
    import torch


def check_device(device: str, function: str = "the torch engine") -> None:
    """Raise `OptionError` if torch, which `function` needs, is missing or does not have this device."""
    torch = needed("torch", function)
    try:
        kind = torch.device(device).type
        index = torch.device(device).index
    except (RuntimeError, TypeError, ValueError):
        raise OptionError(f"There is no device {brief(device)}. Use cpu, cuda or cuda:0.") from None
    if kind == "cpu":
        return
    if kind != "cuda" or not torch.cuda.is_available():
        raise OptionError(
            f"Device {device!r} is not available: PyTorch {torch.__version__} does not see this GPU. Use cpu."
        )
    if index is not None and index >= torch.cuda.device_count():
        raise OptionError(f"Device {device!r} does not exist. The number of GPUs is {torch.cuda.device_count()}.")


def torch_batch_size(device: str, on_cpu: float) -> float:
    """Return how many edges and table entries are iterated together; a GPU takes all graphs at once."""
    return on_cpu if device == "cpu" else float("inf")


def free_memory(device: str) -> float:
    """Return the bytes that are free on a GPU, with those that torch holds and does not use."""
    torch = needed("torch", "A GPU")
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + held)


# The environment variable that switches Triton kernels off with 0. In the interpreter of Triton, 1 switches them on.
SWITCH = "EQUIFACTOR_FUSED"


def may_fuse(device: torch.device) -> bool:
    """Return whether Triton kernels may run on a device; on a CPU only the interpreter of Triton runs them."""
    if os.environ.get(SWITCH) == "0" or importlib.util.find_spec("triton") is None:
        return False
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return not interpreted if device.type == "cuda" else interpreted and os.environ.get(SWITCH) == "1"
