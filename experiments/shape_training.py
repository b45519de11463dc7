"""Training of `fe-net` for MAR on few shapes of graphs, on a GPU: the second generation of the weights of the package.

Each gradient step takes one shape: pair models that draw their own potentials (`pair_shapes.py`), or other models with
targets made beforehand (`sharp_shapes.py`). Its loss is a power of the KL of a graph, so that strong couplings do not
dominate. The weights that are validated and written are a running mean over the steps.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equifactor.base.status import Task
from equifactor.graph import FlatGraph
from equifactor.learning.training.capture import Captures
from equifactor.learning.training.losses import kl_per_graph
from equifactor.learning.training.starting_weights import starting_network
from equifactor.solvers.learned.model_card import ModelCard
from equifactor.solvers.learned.model_files import save_model
from equifactor.solvers.learned.wiring import wire
from experiments.pair_shapes import PairShape, pair_shapes
from experiments.sharp_shapes import SharpShape, sharp_shapes

_POWER, _FLOOR = 0.3, 3e-5  # The loss of a graph is (KL + floor)^power.
_SHARP = 0.42  # The share of the steps on the shapes of `sharp_shapes.py`.
_EARLY = 0.75  # The loss is also taken after this share of the steps of the network.
_WARM_UP = 100  # Gradient steps over which the learning rate rises.
_MEMORY = 0.998  # The weight of the past in the running mean of the weights, which starts after `_MEAN_FROM` steps.
_MEAN_FROM = 200


@dataclass(frozen=True)
class ShapeRecipe:
    """The settings of a run.

    Attributes:
        network: settings of a network from random weights; empty to start from `start`.
        start: model file or name of the weights to start from.
        device: device of training.
        seconds: time for the whole run.
        every: seconds between validations.
        seed: seed of the draws.
        lr: the largest learning rate.
        share: share of the graphs of each family of `sharp_shapes.py`.
        pairs: the first shapes of `pair_shapes.py` that are used; None for all.
    """

    network: dict[str, Any]
    start: str = "shipped"
    device: str = "cuda"
    seconds: float = 430.0
    every: float = 60.0
    seed: int = 0
    lr: float = 1.5e-3
    share: float = 1.0
    pairs: int | None = None


class ShapeTraining:
    """One run: shapes, network, optimizer and the running mean of the weights."""

    def __init__(self, recipe: ShapeRecipe, shapes: Sequence[PairShape | SharpShape]) -> None:
        self.recipe, self.shapes = recipe, list(shapes)
        start = None if recipe.network else recipe.start
        self.network, self.origin = starting_network("fe-net", recipe.network, Task.MAR, start, recipe.seed)
        self.network = self.network.to(recipe.device).train()
        self.on_gpu = torch.device(recipe.device).type == "cuda"
        self.lr = torch.tensor(recipe.lr, device=recipe.device)
        self.parameters = list(self.network.parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=self.lr if self.on_gpu else recipe.lr, weight_decay=0.0, capturable=self.on_gpu,
            foreach=True,
        )  # fmt: skip
        self.captures = Captures(self.optimizer)
        self.mean = copy.deepcopy(self.network)
        self.steps = 0
        for number, shape in enumerate(self.shapes):
            shape.prepare(recipe.device, recipe.seed, number)

    def step(self, shape: PairShape | SharpShape, rate: float) -> Tensor:
        """Run a gradient step on the next batch of a shape; return its loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr.fill_(rate) if self.on_gpu else rate
        if isinstance(shape, PairShape):
            flat, target = shape.next()
            loss = self._run(shape.name, lambda: self._gradient_step(flat, target, plain=False))
        else:
            plan, rows = shape.next_plan()
            compiled = plan.compiled
            assert compiled is not None

            def on_rows() -> Tensor:
                batch = compiled.fill(rows)
                return self._gradient_step(batch.flat, batch.target, plain=True)

            loss = self._run((shape.name, id(compiled)), on_rows)
        self.steps += 1
        with torch.no_grad():
            for mean, own in zip(self.mean.parameters(), self.parameters, strict=True):
                mean.lerp_(own, 1.0 if self.steps <= _MEAN_FROM else 1.0 - _MEMORY)
        return loss

    def _run(self, key: Any, step: Any) -> Tensor:
        return self.captures.replay(key, step) if self.on_gpu else step()

    def _gradient_step(self, flat: FlatGraph[Tensor], target: Tensor, *, plain: bool) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        answers = self._answers(self.network, flat, plain)
        losses = [((kl_per_graph(flat, b, target).clamp_min(0.0) + _FLOOR) ** _POWER).mean() for b in answers]
        loss: Tensor = torch.stack(losses).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        own = [p for p in self.parameters if p.grad is not None]  # A batch without pairs does not reach all layers.
        finite = torch.stack([torch.isfinite(p.grad).all() for p in own if p.grad is not None]).all()
        for p in own:
            p.grad = torch.where(finite, p.grad, 0.0) if p.grad is not None else None
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        self.optimizer.step()
        return loss.detach()

    def _answers(self, network: Any, flat: FlatGraph[Tensor], plain: bool) -> list[Tensor]:
        """Return log beliefs [X] after part of the steps and after the last one."""
        state = (network.plain_start if plain else network.start)(wire(flat, "sum"))
        steps = network.config.steps
        return list(network.unroll(state, steps, (round(_EARLY * steps),)))

    @torch.no_grad()
    def judged(self) -> dict[str, float]:
        """Return the mean KL of the held-out graphs of each shape, with the running mean of the weights."""
        found = {}
        for shape in self.shapes:
            kl = [
                kl_per_graph(flat, self._answers(self.mean, flat, shape.plain)[-1], target)
                for flat, target in shape.judged()
            ]
            found[shape.name] = float(torch.cat(kl).mean())
        return found

    def save(self, path: Path, measures: dict[str, float | None]) -> None:
        """Write the running mean of the weights as a model file."""
        network = copy.deepcopy(self.mean).cpu()
        card = ModelCard.of(
            network, Task.MAR, data="experiments/shape_training.py", start=self.origin, metrics=measures,
            seed=self.recipe.seed, updates=self.steps,
        )  # fmt: skip
        save_model(path, network, card)


def train_on_shapes(recipe: ShapeRecipe, out: Path) -> dict[str, Any]:
    """Train into the file `out`, with a log beside it; return the last line of the log.

    The file holds the best weights so far. They are judged by the mean over the shapes of the logarithm of the KL,
    relative to the start.
    """
    began = time.perf_counter()
    if torch.device(recipe.device).type == "cuda":
        torch.set_float32_matmul_precision("high")
    pairs = pair_shapes()[: recipe.pairs]
    run = ShapeTraining(recipe, [*pairs, *sharp_shapes(recipe.share)])
    share = np.array([(1.0 - _SHARP) / len(pairs)] * len(pairs))
    others = len(run.shapes) - len(pairs)
    share = np.append(share, [_SHARP / others] * others)
    rng = np.random.default_rng(recipe.seed)
    start, best, judged = run.judged(), math.inf, time.perf_counter()
    line: dict[str, Any] = {}
    with out.with_suffix(".jsonl").open("w", encoding="utf-8") as log:

        def judge() -> dict[str, Any]:
            nonlocal best
            found = run.judged()
            score = float(np.mean([math.log((found[k] + _FLOOR) / (start[k] + _FLOOR)) for k in found]))
            if score < best:
                best = score
                run.save(out, {"score": score})
            line = {"seconds": round(time.perf_counter() - began, 1), "steps": run.steps, "score": score, "kl": found}
            log.write(json.dumps(line) + "\n")
            log.flush()
            return line

        while (seconds := time.perf_counter() - began) < recipe.seconds:
            rate = min(1.0, (run.steps + 1) / _WARM_UP) * 0.5 * (1 + math.cos(math.pi * seconds / recipe.seconds))
            run.step(run.shapes[rng.choice(len(share), p=share)], recipe.lr * rate)
            if time.perf_counter() - judged >= recipe.every:
                judge()
                judged = time.perf_counter()
        line = judge()
    return line
