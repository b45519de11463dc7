"""One or several processes: Lightning Fabric starts and connects them; gradients are averaged as one vector."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from equifactor.base.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.learning.training.training_settings import TrainingSettings


class Processes:
    """The processes of a run: `rank` of `world`. A single process does not import Lightning Fabric."""

    def __init__(self, settings: TrainingSettings) -> None:
        local = int(os.environ.get("LOCAL_WORLD_SIZE", settings.devices))
        nodes = int(os.environ.get("WORLD_SIZE", local * settings.nodes)) // local
        self.rank, self.world, self.device = 0, local * nodes, settings.device
        self.fabric: Any = None
        if self.world > 1:
            self.fabric = _fabric()(
                accelerator=torch.device(settings.device).type, devices=local, num_nodes=nodes, strategy="ddp"
            )
            self.fabric.launch()
            self.rank, self.device = self.fabric.global_rank, str(self.fabric.device)

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files and reports progress."""
        return self.rank == 0

    def average(self, parameters: Sequence[Tensor]) -> None:
        """Replace the gradients by their mean over all processes."""
        if self.world == 1:
            return
        joined = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters])
        joined = self.fabric.all_reduce(joined, reduce_op="mean")
        for p, piece in zip(parameters, torch.split(joined, [p.numel() for p in parameters]), strict=True):
            p.grad = piece.reshape(p.shape).clone()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true in any process; all processes get the same answer."""
        if self.world == 1:
            return flag
        return bool(self.fabric.all_reduce(torch.tensor(float(flag), device=self.device), reduce_op="sum") > 0)

    def mean(self, values: Tensor) -> Tensor:
        """Return the elementwise mean over the processes."""
        if self.world == 1:
            return values
        return torch.as_tensor(self.fabric.all_reduce(values, reduce_op="mean"))


def _fabric() -> Any:
    for package in ("lightning_fabric", "lightning.fabric"):  # Installed by itself, or as a part of Lightning.
        try:
            return importlib.import_module(package).Fabric
        except ImportError:
            continue
    raise OptionError("Several processes need Lightning Fabric. Run pip install 'equifactor[distributed]'.")
