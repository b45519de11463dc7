"""A check that torch and the requested device are available, made before a run starts."""

from __future__ import annotations

from equifactor.base.errors import OptionError
from equifactor.base.optional_packages import needed


def check_device(device: str, function: str = "the torch engine") -> None:
    """Raise `OptionError` if torch, which `function` needs, is missing or does not have this device."""
    torch = needed("torch", function)
    try:
        kind = torch.device(device).type
        index = torch.device(device).index
    except RuntimeError:
        raise OptionError(f"There is no device {device!r}. Use cpu, cuda or cuda:0.") from None
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
