"""One network on one part: trained within a time limit, resumed by the next call, its result a JSON file."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equifactor.errors import ModelError, SolveError
from experiments.map_config import Learned, MapExperiment
from experiments.parts import Part

Row = dict[str, Any]


@dataclass(frozen=True)
class Training:
    """What is to be trained; `tuning` runs only serve to choose a variant."""

    experiment: MapExperiment
    model: Learned
    part: Part
    variant: tuple[tuple[str, Any], ...]
    seed: int
    tuning: bool = False
    until: float | None = None  # time.time() at which to stop; the checkpoint keeps what was done

    @property
    def settings(self) -> Row:
        """Everything that decides the weights."""
        e = self.experiment
        training = {**e.training, **e.training_on.get(self.part.collection, {}), **self.model.training}
        if self.tuning:
            training |= {"epochs": max(1, round(e.tuning_share * training["epochs"])), "patience": 0}
        training["batch_size"] = min(training.get("batch_size", 1), len(self.part.train))
        return {
            "kind": self.model.kind, "network": {**self.model.network, **dict(self.variant)}, "training": training,
            "seed": self.seed, "data": [i.key for i in self.part.train],
        }  # fmt: skip

    @property
    def key(self) -> str:
        """File name, unique in a folder of results; other settings give another name."""
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:6]
        variant = "_".join(f"{k}={v}" for k, v in self.variant)
        parts = ["tune" * self.tuning, self.model.name, self.part.name, variant, f"seed{self.seed}", digest]
        return re.sub(r"[^A-Za-z0-9=.+-]+", "_", "-".join(filter(None, parts)))

    def file(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / "runs" / f"{self.key}.json"

    def weights(self, folder: Path) -> Path:
        """The model file."""
        return folder / "models" / f"{self.key}.safetensors"


def tunings(experiment: MapExperiment, parts: Sequence[Part], until: float | None = None) -> Iterator[Training]:
    """Every variant on every part, with the first seed; nothing for a network that has one variant."""
    for part in parts:
        for model in experiment.models:
            variants = model.variants()
            for variant in variants if len(variants) > 1 else ():
                items = tuple(variant.items())
                yield Training(experiment, model, part, items, experiment.seeds[0], tuning=True, until=until)


def finals(
    experiment: MapExperiment, parts: Sequence[Part], folder: Path, until: float | None = None
) -> Iterator[Training]:
    """The best variant of every network on every part, with every seed; none where a variant is not finished."""
    for part in parts:
        for model in experiment.models:
            best = _best_variant(experiment, model, part, folder)
            for seed in experiment.seeds if best is not None else ():
                yield Training(experiment, model, part, tuple((best or {}).items()), seed, until=until)


def _best_variant(experiment: MapExperiment, model: Learned, part: Part, folder: Path) -> dict[str, Any] | None:
    variants = model.variants()
    if len(variants) == 1:
        return variants[0]
    found: list[tuple[float, dict[str, Any]]] = []
    for run in tunings(experiment, [part]):
        if run.model.name == model.name:
            if not run.file(folder).is_file():
                return None
            row = json.loads(run.file(folder).read_text(encoding="utf-8"))
            found.append((row.get("validation_error", float("inf")), dict(run.variant)))
    return min(found, key=lambda pair: pair[0])[1]  # the first of equal ones


def perform(run: Training, folder: Path, device: str) -> Row:
    """Train, or go on; a finished run is only read. A run cut by its time has no file and `finished` is False."""
    path = run.file(folder)
    if path.is_file():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    row = {
        "name": run.model.name, "part": run.part.name, "collection": run.part.collection, "fold": run.part.fold,
        "tuning": run.tuning, "variant": dict(run.variant), **run.settings,
    }  # fmt: skip
    try:
        row |= _trained(run, folder, device)
    except ModelError as error:  # a network of one cardinality does not take every collection
        row |= {"finished": True, "refused": str(error)}
    if row["finished"]:
        from equifactor.io.files import write_text

        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(row, indent=1) + "\n")
    return row


def _trained(run: Training, folder: Path, device: str) -> Row:
    import torch

    from equifactor.training import train
    from experiments.runs import device_name

    if multiprocessing.parent_process() is not None:
        torch.set_num_threads(1)  # others run beside it
    out = run.weights(folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = out.with_suffix(".checkpoint")
    limit = None if run.until is None else max(0.0, run.until - time.time())
    start = time.perf_counter()
    settings = run.settings
    models: Any = list(run.part.train)  # `train` reads instances with their known scores
    try:
        done = train(
            run.model.kind, models, "MAP", out, network=settings["network"], seed=run.seed, device=device,
            resume=checkpoint.is_file(), time_limit=limit, **settings["training"],
        )  # fmt: skip
    except SolveError:
        if limit is None or time.perf_counter() - start < limit:
            raise
        return {"finished": False, "epochs": 0}  # the limit passed while models were read
    if not done.finished and (limit is None or time.perf_counter() - start < limit):
        raise KeyboardInterrupt  # training ends politely on Ctrl-C; the next run must not begin
    seconds = sum(h["seconds"] or 0.0 for h in done.history)
    row: Row = {
        "finished": done.finished, "epochs": len(done.history) - 1, "best_epoch": done.metrics.get("epoch"),
        "validation_error": done.metrics.get("error"), "start_error": done.history[0]["error"],
        "parameters": sum(p.numel() for p in done.network.parameters()), "left_out": done.left_out,
        "training_seconds": round(max(seconds, 0.0), 2), "last_call_seconds": round(time.perf_counter() - start, 2),
        "device": device_name(device),
    }  # fmt: skip
    if done.finished:
        checkpoint.unlink(missing_ok=True)
        if run.tuning:
            out.unlink(missing_ok=True)
    return row
