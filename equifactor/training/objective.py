"""Network and loss as one module: what is differentiated, wrapped by several processes, captured on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from torch import Tensor, nn

from equifactor.neural.network import Network
from equifactor.neural.wiring import wire
from equifactor.result import Task
from equifactor.training.batches import Batch
from equifactor.training.losses import kl_per_graph, uai_per_graph
from equifactor.training.settings import Settings


class Objective(nn.Module):
    """Weighted mean over the graphs of a batch, and over the steps at which the loss is taken."""

    def __init__(self, network: Network, task: Task, loss: Literal["auto", "cross-entropy", "uai"] = "auto") -> None:
        super().__init__()
        self.network = network
        self.semiring: Literal["sum", "max"] = "max" if task is Task.MAP else "sum"
        self.per_graph = uai_per_graph if loss == "uai" or (loss == "auto" and task is Task.MAP) else kl_per_graph

    def forward(self, batch: Batch, steps: int, read_at: Sequence[int] = ()) -> Tensor:
        """The loss []; the graphs were checked when the data was read."""
        state = self.network.start(wire(batch.flat, self.semiring))
        answers = self.network.unroll(state, steps, read_at)
        losses = [(self.per_graph(batch.flat, a, batch.target) * batch.weight).sum() for a in answers]
        total: Tensor = sum(losses[1:], losses[0])
        return total / len(losses)


def draw_steps(settings: Settings, steps: int, rng: np.random.Generator) -> tuple[int, tuple[int, ...]]:
    """How many steps a batch is run for, and after which of them the loss is taken.

    A network trained for one T only has no reason to stay where it arrives; one that is judged anywhere between T/2 and
    2T learns to. Few choices, so that each can be captured once.
    """
    if settings.vary_steps:
        steps = max(1, round(steps * float(rng.choice([0.5, 1.0, 1.5, 2.0]))))
    points = np.linspace(0, steps, settings.losses_at + 1)[1:]
    return steps, tuple(sorted({max(1, round(p)) for p in points.tolist()} - {steps}))
