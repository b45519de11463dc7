"""Network and loss as one module: what is differentiated, wrapped by several processes, captured on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from equifactor.base.status import Task
from equifactor.learning.training.compiled_batches import Batch
from equifactor.learning.training.losses import kl_per_graph, uai_per_graph
from equifactor.learning.training.training_settings import TrainingSettings
from equifactor.solvers.learned.network import Network
from equifactor.solvers.learned.wiring import wire


class Objective(nn.Module):
    """The weighted mean loss over the graphs of a batch, and over the steps at which the loss is taken."""

    def __init__(
        self,
        network: Network,
        task: Task,
        loss: Literal["auto", "cross-entropy", "uai"] = "auto",
        sharpen: float = 1.0,
    ) -> None:
        super().__init__()
        self.network = network
        self.semiring: Literal["sum", "max"] = "max" if task is Task.MAP else "sum"
        is_uai = loss == "uai" or (loss == "auto" and task is Task.MAP)
        self.per_graph = functools.partial(uai_per_graph, power=sharpen) if is_uai else kl_per_graph

    def forward(self, batch: Batch, steps: int, read_at: Sequence[int] = ()) -> Tensor:
        """The loss [] of graphs that were checked when read; gradients pass through the last 2T steps only."""
        state = self.network.start(wire(batch.flat, self.semiring))
        before = steps_before(steps, self.network.config.steps)
        with torch.no_grad():
            for _ in range(before):
                state = self.network.step(state)
        answers = self.network.unroll(state, steps - before, [n - before for n in read_at])
        losses = [(self.per_graph(batch.flat, a, batch.target) * batch.weight).sum() for a in answers]
        total: Tensor = sum(losses[1:], losses[0])
        return total / len(losses)


def steps_before(steps: int, trained: int) -> int:
    """How many of the steps run before the last 2T, which are the ones that learn."""
    return max(0, steps - 2 * trained)


_FACTORS = (0.5, 1.0, 2.0, 4.0)  # There are few, so that each number of steps can be captured once.


def judged_steps(settings: TrainingSettings, steps: int) -> tuple[int, ...]:
    """After how many steps validation looks at the answers; it takes the mean."""
    return (max(1, round(steps / 2)), steps, 4 * steps) if settings.vary_steps else (steps,)


def draw_steps(settings: TrainingSettings, steps: int, rng: np.random.Generator) -> tuple[int, tuple[int, ...]]:
    """How many steps a batch is run for, and after which of them the loss is taken.

    A network trained for one T only has no reason to stay where it arrives; one that is judged anywhere between T/2 and
    4T learns to.
    """
    total = max(1, round(steps * float(rng.choice(_FACTORS)))) if settings.vary_steps else steps
    before = steps_before(total, steps)
    points = np.linspace(before, total, settings.losses_at + 1)[1:]
    return total, tuple(sorted({max(before + 1, round(p)) for p in points.tolist()} - {total}))
