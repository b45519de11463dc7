"""How a training run goes: every setting with its range and one line of help, which the command line shows too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from equifactor.base.errors import OptionError
from equifactor.base.options import check_options, option


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of one training run; the network has its own, see `equifactor model`."""

    name: ClassVar[str] = "training"  # Messages about settings begin with it.

    epochs: int = option(100, "passes over the training graphs", low=1)
    batch_size: int = option(50, "graphs per gradient step", low=1)
    batch_states: int = option(0, "largest number of edge states in a batch: large graphs come in fewer; 0: any", low=0)
    fixed_batches: bool = option(
        False, "compose batches of many structures once and refill them: on a GPU each is then one captured graph"
    )
    steps_per_epoch: int = option(0, "gradient steps per epoch; 0: one pass over the data", low=0)
    lr: float = option(2e-3, "learning rate of Adam", low=0.0)
    schedule: Literal["cosine", "constant", "time"] = option(
        "cosine", "how the learning rate falls over the epochs; time: as a cosine over the time limit instead"
    )
    warmup: int = option(0, "gradient steps over which the learning rate rises from 0", low=0)
    weight_decay: float = option(0.0, "decoupled weight decay (AdamW)", low=0.0)
    clip: float = option(1.0, "largest norm of the gradient; 0: any", low=0.0)
    patience: int = option(20, "epochs without a better validation after which it stops; 0: never", low=0)
    loss: Literal["auto", "cross-entropy", "uai"] = option("auto", "auto: cross-entropy for MAR, uai for MAP")
    sharpen: float = option(1.0, "the loss uai raises beliefs to this power, closer to what is decoded", low=0.01)
    vary_steps: bool = option(
        False, "draw the number of steps of each batch, from T/2 to 4T; validate at T/2, T and 4T"
    )
    losses_at: int = option(1, "number of steps at which the loss is taken, evenly spaced up to the last", low=1)
    validation: str = option("0.1", "share of the graphs held out, or DATA of its own")
    seed: int = option(0, "of the weights, the split and the order of the graphs")
    device: str = option("cpu", "cpu or cuda")
    dtype: Literal["float32", "float64"] = option("float32", "float type of weights and messages")
    devices: int = option(1, "processes, one per CPU share or GPU, by Lightning Fabric", low=1)
    nodes: int = option(1, "machines; start the same command on each with torchrun or fabric run", low=1)
    cluster: str = option("", "Dask scheduler, tcp://HOST:PORT or its file, whose workers compute the targets")
    compile: bool = option(False, "compile one step of the network with torch.compile; pays off in long GPU runs")
    time_limit: float | None = option(None, "seconds, after which it stops as if interrupted", low=0.0)
    checkpoint_every: float = option(60.0, "seconds between checkpoints", low=0.0)

    def __post_init__(self) -> None:
        check_options(self)
        if self.schedule == "time" and not self.time_limit:
            raise OptionError("training: schedule=time needs a time_limit")
        if self.schedule == "time" and self.devices * self.nodes > 1:
            raise OptionError("training: schedule=time is for one process, as several would not agree on the time")

    def learning_rate(self, step: int, total: int, seconds: float = 0.0) -> float:
        """The learning rate at one of `total` gradient steps, some seconds after the start."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        if self.schedule == "constant":
            return self.lr * warm
        done = step / max(1, total)
        if self.schedule == "time" and self.time_limit is not None:
            done = min(1.0, seconds / self.time_limit)
        return self.lr * warm * 0.5 * (1 + math.cos(math.pi * done))
