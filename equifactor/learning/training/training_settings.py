"""The settings of a training run, each with its range and one line of help, which the command line shows too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import OptionError
from equifactor.base.options import check_options, option

CHECKPOINT_SUFFIX = ".checkpoint"  # The suffix of a checkpoint, which is otherwise named like its model file.


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of one training run. The network has its own settings, see `equifactor model`."""

    name: ClassVar[str] = "training"  # Error messages about settings begin with this name.

    epochs: int = option(100, "passes over the training graphs", low=1)
    batch_size: int = option(50, "graphs per gradient step", low=1)
    batch_states: int = option(0, "largest number of edge states in a batch, for large graphs; 0: no limit", low=0)
    fixed_batches: bool = option(
        False, "compose batches of several structures once and refill them, so that a GPU captures each one once"
    )
    steps_per_epoch: int = option(0, "gradient steps per epoch; 0: one pass over the data", low=0)
    lr: float = option(2e-3, "learning rate of Adam", low=0.0)
    schedule: Literal["cosine", "constant", "time"] = option(
        "cosine", "how the learning rate falls over the epochs; time: as a cosine over the time limit"
    )
    warmup: int = option(0, "gradient steps over which the learning rate rises from 0", low=0)
    weight_decay: float = option(0.0, "decoupled weight decay (AdamW)", low=0.0)
    clip: float = option(1.0, "largest norm of the gradient; 0: no limit", low=0.0)
    patience: int = option(20, "stop after this many epochs without a better validation; 0: never", low=0)
    loss: Literal["auto", "cross-entropy", "uai"] = option("auto", "the loss; auto: cross-entropy for MAR, uai for MAP")
    sharpen: float = option(1.0, "the loss uai raises beliefs to this power, closer to the decoded states", low=0.01)
    vary_steps: bool = option(
        False, "draw the number of steps of each batch, from T/2 to 4T; validate at T/2, T and 4T"
    )
    losses_at: int = option(1, "number of steps at which the loss is taken, evenly spaced up to the last", low=1)
    validation: str = option("0.1", "share of the graphs that is held out, or separate DATA")
    seed: int = option(0, "seed of the weights, the split and the order of the graphs", low=0)
    device: str = option("cpu", "the device: cpu or cuda")
    dtype: Literal["float32", "float64"] = option("float32", "float type of weights and messages")
    devices: int = option(1, "number of processes, one per GPU or share of the CPU; needs Lightning Fabric", low=1)
    nodes: int = option(1, "number of machines; run the same command on each with torchrun or fabric run", low=1)
    cluster: str = option("", "Dask scheduler, tcp://HOST:PORT or its file, whose workers compute the targets")
    compile: bool = option(False, "compile one step of the network with torch.compile, for long runs on a GPU")
    time_limit: float | None = option(None, "seconds after which the run stops as if interrupted", low=0.0)
    checkpoint_every: float = option(60.0, "seconds between checkpoints", low=0.0)

    def __post_init__(self) -> None:
        check_options(self)
        if self.schedule == "time" and not self.time_limit:
            raise OptionError("training: schedule=time needs a time_limit. Set time_limit, or use schedule=cosine.")
        if self.schedule == "time" and self.devices * self.nodes > 1:
            raise OptionError(
                "training: schedule=time is for one process, because the clocks of several processes differ. Set "
                "devices=1 and nodes=1, or use schedule=cosine."
            )

    @checks_types("step", "total", "seconds")
    def learning_rate(self, step: int, total: int, seconds: float = 0.0) -> float:
        """Return the learning rate in gradient step `step` of `total`, `seconds` after the start."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        if self.schedule == "constant":
            return self.lr * warm
        done = step / max(1, total)
        if self.schedule == "time" and self.time_limit is not None:
            done = min(1.0, seconds / self.time_limit)
        return self.lr * warm * 0.5 * (1 + math.cos(math.pi * done))
