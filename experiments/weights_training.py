"""The weights that come with the package: general-purpose models, trained on a broad mixture of small graphs.

The mixture, listed in `weights/config.toml`, has several sizes and topologies, cardinalities 2 to 16, arities up to 4,
weak to strong couplings, and hard zeros. MAR training does not use the public UAI models. MAP training uses the
training split of the public models if their folder is given. The learning rate falls to zero within the given seconds,
so the weights depend on the speed of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equifactor import metrics, solve, train
from equifactor.base.options import with_settings
from equifactor.learning.training.data_sources import read_source
from experiments.experiment_config import ROOT, read_toml

KINDS = ("fe-net", "fe-nbp", "fe-gnn")
_FIRST_SEED = 7_000_000  # The seed of the first family; it differs from the seeds of all tests. Chosen by hand.
_SAMPLE = 6  # The number of graphs of a family on which its weight is measured. Chosen by hand.
_MOST_KL = 10.0  # The upper limit of KL, which is infinite if a state is wrongly excluded. Chosen by hand.


@dataclass(frozen=True)
class WeightsRecipe:
    """The settings of the training of a model.

    Attributes:
        kind: kind of network, of `KINDS`.
        task: "MAR" or "MAP".
        device: device of training.
        seconds: time for the whole run.
        seed: seed of training.
        start: model file to start from, for example of a run that was stopped.
        lr: learning rate; None for the rate of the kind.
        data: MAP: folder of the public models, whose training split is used as well.
        balance: MAR: 0 weighs graphs equally, 1 weighs families by their KL.
        network: settings that replace the settings of the kind.
        share: share of the graphs of each family.
        batch: graphs per gradient step.
        states: largest number of edge states per gradient step.
    """

    kind: str
    task: str
    device: str = "cpu"
    seconds: float = 600.0
    seed: int = 0
    start: Path | None = None
    lr: float | None = None
    data: str | None = None
    balance: float = 0.8
    network: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0
    batch: int = 100
    states: int = 40_000


def weights_config() -> dict[str, Any]:
    """Read the graphs that the weights are trained on and judged on."""
    return read_toml(ROOT / "weights" / "config.toml")


def mixture(kind: str, task: str, share: float = 1.0) -> list[str]:
    """Return the generators of the training graphs, with a share of the graphs and a seed for each family."""
    groups = weights_config()["mixture"]
    sources = groups["grids"] + groups["topologies"]
    sources += groups["states"] + groups["sharp"] if kind != "fe-gnn" else []
    sources += groups["large"] if task == "MAP" else []
    counts = [max(2, round(count * share)) for _, count in sources]
    return [
        f"{text.removesuffix(')')}, n={count}, seed={_FIRST_SEED + n})"
        for n, ((text, _), count) in enumerate(zip(sources, counts, strict=True))
    ]


def balancing_weights(kind: str, generators: Sequence[str], power: float) -> list[float]:
    """Return a weight for each graph. Without weights, a few strongly coupled families would have most of the loss.

    The KL of these families is a thousand times larger.
    """
    known = weights_config()["network"][kind]
    weights: list[float] = []
    for generator in generators:
        graphs = list(read_source(generator).graphs)
        some = graphs[:_SAMPLE]
        exact = [getattr(r, "marginals", None) for r in solve(some, "MAR", "exact")]
        found = []
        for solver in known["rivals"]:
            answers = [getattr(r, "marginals", None) for r in solve(some, "MAR", solver)]
            pairs = [(p, q) for p, q in zip(exact, answers, strict=True) if p is not None and q is not None]
            found.append(np.mean([min(metrics.kl(p, q), _MOST_KL) for p, q in pairs]))
        weights += [float((min(found) + known["floor"]) ** -power)] * len(graphs)
    return weights


def make_weights(recipe: WeightsRecipe, folder: Path) -> dict[str, Any]:
    """Train one model into a file of the folder; return its name, steps and measures."""
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    config = weights_config()
    known = config["network"][recipe.kind]
    data = mixture(recipe.kind, recipe.task, recipe.share)
    weights = balancing_weights(recipe.kind, data, recipe.balance) if recipe.task == "MAR" else None
    if recipe.data and recipe.task == "MAP":
        data.append(f"{recipe.data}:{config['public_split']}")
    out = folder / f"{recipe.kind}-{recipe.task.lower()}.safetensors"
    done = train(
        with_settings(recipe.kind, known["settings"] | dict(recipe.network)), data, recipe.task, out,
        overwrite=True, weights=weights, start=recipe.start, batch_size=recipe.batch, batch_states=recipe.states,
        epochs=10**6, steps_per_epoch=config["steps_per_epoch"], patience=0, lr=recipe.lr or known["learning_rate"],
        warmup=50, schedule="time", time_limit=recipe.seconds - (time.perf_counter() - start),
        vary_steps=recipe.task == "MAR", losses_at=3, validation="0.03", sharpen=known["sharpen"],
        fixed_batches=True, device=recipe.device, seed=recipe.seed,
    )  # fmt: skip
    steps = config["steps_per_epoch"] * (len(done.history) - 1)
    return {"file": out.name, "steps": steps, "start": done.history[0], "best": done.metrics}
