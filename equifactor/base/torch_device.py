"""A check that torch and the wanted device are there, made before anything starts."""

from __future__ import annotations

from equifactor.base.errors import OptionError
from equifactor.base.optional_packages import needed


def check_device(device: str, function: str = "the torch engine") -> None:
    """Raise `OptionError` when torch, which `function` needs, is missing or has no such device."""
    torch = needed("torch", function)
    try:
        kind = torch.device(device).type
        index = torch.device(device).index
    except RuntimeError:
        raise OptionError(f"there is no device {device!r}; use cpu, cuda or cuda:0") from None
    if kind == "cpu":
        return
    if kind != "cuda" or not torch.cuda.is_available():
        raise OptionError(
            f"device {device!r} is not available here: PyTorch {torch.__version__} sees no such GPU; use cpu"
        )
    if index is not None and index >= torch.cuda.device_count():
        raise OptionError(f"device {device!r} does not exist; there are {torch.cuda.device_count()} GPUs")


def torch_batch_size(device: str, on_cpu: float) -> float:
    """Edges and table entries of the graphs that are iterated together; a GPU takes all of them at once."""
    return on_cpu if device == "cpu" else float("inf")
