"""Sums of variables, exchanged between the processes that `torchrun` started; a single process exchanges nothing.

Edges are divided among the processes. Every process knows all variables, and messages never leave their process.
"""

from __future__ import annotations

import atexit
import os
from typing import Any

import numpy as np

from equifactor.base.errors import OptionError, SolveError, brief
from equifactor.base.optional_packages import needed


class Exchange:
    """The processes of one run, by the environment variables of `torchrun`.

    The first one connects the processes. They stay connected until they end: to connect the same processes again right
    after they were disconnected fails.

    Attributes:
        rank: the number of this process; process 0 reports progress and writes files.
        size: the number of processes.
        connected: whether `torchrun` started this process, perhaps alone, or another program started several.
    """

    def __init__(self, device: str) -> None:
        self.rank, self.size = _from_environment("RANK", 0), _from_environment("WORLD_SIZE", 1)
        self.connected = self.size > 1 or "TORCHELASTIC_RUN_ID" in os.environ
        if self.connected:
            torch = needed("torch", "Running in several processes")
            self._dist: Any = needed("torch.distributed", "Running in several processes")
            self._torch, self._device = torch, device
            if not self._dist.is_initialized():
                try:
                    self._dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
                except (RuntimeError, ValueError) as error:
                    raise OptionError(
                        f"The {self.size} processes of WORLD_SIZE cannot be connected ({brief(str(error))}). Start "
                        "them by torchrun, or unset WORLD_SIZE."
                    ) from None
                atexit.register(self._disconnect)

    def _disconnect(self) -> None:
        if self._dist.is_initialized():
            self._dist.destroy_process_group()

    def add_up(self, sums: Any) -> None:
        """Replace sums, an array or a tensor, by the sums over all processes."""
        if not self.connected:
            return
        sums = self._torch.from_numpy(sums) if isinstance(sums, np.ndarray) else sums
        least, most = self._torch.aminmax(sums) if sums.numel() else (0, 0)
        # Half the bytes if the sums of all processes fit: the last number tells of a process whose sums are too large.
        small = self._torch.empty(sums.numel() + 1, dtype=self._torch.int32, device=sums.device)
        small[:-1], small[-1] = sums.reshape(-1), int(max(-int(least), int(most)) * self.size >= 2**31)
        self._reduce(small)
        if small[-1]:
            self._reduce(sums)
        else:
            sums.copy_(small[:-1].reshape(sums.shape))

    def largest(self, value: int) -> int:
        """Return the largest of the values of all processes, when every process has called this."""
        if not self.connected:
            return value
        shared = self._torch.tensor(value, dtype=self._torch.int64, device=self._device)
        self._reduce(shared, op=self._dist.ReduceOp.MAX)
        return int(shared)

    def _reduce(self, tensor: Any, **options: Any) -> None:
        """Replace a tensor by its sum or maximum over all processes; raise `SolveError` if a process has ended."""
        try:
            self._dist.all_reduce(tensor, **options)
        except RuntimeError as error:
            raise SolveError(
                f"Another process of this run has ended ({brief(str(error))}). A checkpoint continues the run."
            ) from None


def own_device(device: str) -> str:
    """Return the GPU of this process if several processes share a machine: `cuda` becomes `cuda:1` in process 1."""
    rank = _from_environment("LOCAL_RANK", 0)
    return f"cuda:{rank}" if device == "cuda" and _from_environment("WORLD_SIZE", 1) > 1 else device


def _from_environment(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise OptionError(f"The environment variable {name} must be a whole number, found {text!r}. torchrun sets it.")
    return int(text)
