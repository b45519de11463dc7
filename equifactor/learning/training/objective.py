"""Network and loss as one module, which is differentiated and captured on a GPU."""

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
        """Return the loss [] of a batch. Graphs are not checked here. Gradients pass through the last 2T steps only."""
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
    """Return the number of steps before the last 2T steps, which are the steps with gradients."""
    return max(0, steps - 2 * trained)


# The multiples of T that are drawn for `vary_steps`. They are few, so that each number of steps can be captured once.
# Chosen by hand.
_FACTORS = (0.5, 1.0, 2.0, 4.0)


def judged_steps(settings: TrainingSettings, steps: int) -> tuple[int, ...]:
    """Return the numbers of steps after which validation measures the answers and takes their mean."""
    return (max(1, round(steps / 2)), steps, 4 * steps) if settings.vary_steps else (steps,)


def draw_steps(settings: TrainingSettings, steps: int, rng: np.random.Generator) -> tuple[int, tuple[int, ...]]:
    """Return the number of steps of a batch, and the steps after which the loss is taken.

    A network trained for a single T has no reason to keep its answer after T steps. Losses between T/2 and 4T train the
    network to keep it.
    """
    total = max(1, round(steps * float(rng.choice(_FACTORS)))) if settings.vary_steps else steps
    before = steps_before(total, steps)
    points = np.linspace(before, total, settings.losses_at + 1)[1:]
    return total, tuple(sorted({max(before + 1, round(p)) for p in points.tolist()} - {total}))
