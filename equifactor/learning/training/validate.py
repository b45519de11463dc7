"""Measures of a network on held-out graphs, as in `metrics` but always finite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from equifactor.base.status import Task
from equifactor.factors import tensors
from equifactor.learning.training.compiled_batches import Batch
from equifactor.learning.training.losses import SMALLEST_SCORE, kl_per_graph, squared_error_per_graph
from equifactor.solvers.learned.network import Network
from equifactor.solvers.learned.wiring import wire


def measures(network: Network, batches: Sequence[Batch], task: Task, steps: int | None = None) -> dict[str, float]:
    """Return `kl` and `rmse` for MAR; for MAP the `error` of decoded assignments, and how many are impossible (`zero`).

    Early stopping uses the first measure; smaller is better. An impossible assignment counts as an error of 1, and an
    assignment that is better than the best known score as an error of 0. Graphs have their weights, as in the loss.
    """
    weight = torch.cat([b.weight.double() * len(b.weight) for b in batches]).cpu()
    weight = weight / weight.sum() if weight.any() else torch.full_like(weight, 1 / len(weight))
    if task is Task.MAP:
        found = [(scores(network, b, steps), b.target.double().cpu().numpy()) for b in batches]
        score, best = (np.concatenate(part) for part in zip(*found, strict=True))
        possible = np.isfinite(score)
        short = best - np.minimum(np.where(possible, score, best), best)
        error = np.where(possible, short / np.maximum(np.abs(best), SMALLEST_SCORE), 1.0)
        return {"error": float(error @ weight.numpy()), "zero": float((~possible).sum())}
    kl, square = [], []
    with torch.no_grad():
        for batch in batches:
            log_b = network.unroll(network.start(wire(batch.flat, "sum")), steps)[-1]
            kl.append(kl_per_graph(batch.flat, log_b, batch.target).double())
            square.append(squared_error_per_graph(batch.flat, log_b, batch.target).double())
        means = ((torch.cat(values).cpu() @ weight).item() for values in (kl, square))
        return {"kl": next(means), "rmse": next(means) ** 0.5}


def scores(network: Network, batch: Batch, steps: int | None = None) -> np.ndarray:
    """Return [G] the log score of the assignment with the highest belief of each variable."""
    with torch.no_grad():
        log_b = network.unroll(network.start(wire(batch.flat, "max")), steps)[-1]
        return tensors.log_scores(batch.flat, tensors.max_states(batch.flat, log_b)).double().cpu().numpy()
