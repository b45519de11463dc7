"""The training of one network on one split of the models, within a time limit. The next call continues it."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equifactor import ModelError, SolveError
from equifactor.base.options import with_settings
from experiments.map_experiment import MapExperiment, NetworkMethod
from experiments.map_splits import ModelSplit
from experiments.run_store import Row, RunStore, run_key
from experiments.runner import device_name


@dataclass(frozen=True)
class MapTraining:
    """The training of a network; an `ExperimentRun`.

    Attributes:
        experiment: the experiment it belongs to.
        method: the network.
        split: the models to train on.
        variant: settings of the network, as pairs.
        seed: seed of training.
        tuning: whether the training only serves to choose a variant.
    """

    experiment: MapExperiment
    method: NetworkMethod
    split: ModelSplit
    variant: tuple[tuple[str, Any], ...]
    seed: int
    tuning: bool = False

    @property
    def settings(self) -> Row:
        """Everything that decides the weights."""
        e = self.experiment
        training = {**e.training, **e.training_on.get(self.split.collection, {}), **self.method.training}
        if self.tuning:
            training |= {"epochs": max(1, round(e.tuning_share * training["epochs"])), "patience": 0}
        training["batch_size"] = min(training.get("batch_size", 1), len(self.split.train))
        return {
            "kind": self.method.kind, "network": {**self.method.network, **dict(self.variant)}, "training": training,
            "seed": self.seed, "data": [i.key for i in self.split.train],
        }  # fmt: skip

    @property
    def key(self) -> str:
        """The name of its row and of its model file; other settings give another name."""
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:6]
        variant = "_".join(f"{k}={v}" for k, v in self.variant)
        parts = ["tune" * self.tuning, self.method.name, self.split.name, variant, f"seed{self.seed}", digest]
        return run_key(*parts)

    def weights(self, folder: Path) -> Path:
        """Return the model file."""
        return folder / "models" / f"{self.key}.safetensors"

    def made(self, row: Row, folder: Path) -> bool:
        """Return True, because the key contains a hash of the settings."""
        return True

    def perform(self, folder: Path, device: str, until: float | None = None) -> Row:
        """Train, or continue from a checkpoint; the row of a training that ran out of time has `finished` False."""
        row = {
            "name": self.method.name, "part": self.split.name, "collection": self.split.collection,
            "fold": self.split.fold, "tuning": self.tuning, "variant": dict(self.variant), **self.settings,
        }  # fmt: skip
        try:
            return row | self._trained(folder, device, until)
        except ModelError as error:  # A network of one cardinality does not take every collection.
            return row | {"finished": True, "refused": str(error)}

    def _trained(self, folder: Path, device: str, until: float | None) -> Row:
        import torch

        from equifactor.learning.training import train

        if multiprocessing.parent_process() is not None:
            torch.set_num_threads(1)  # Other runs use the other cores.
        out = self.weights(folder)
        out.parent.mkdir(parents=True, exist_ok=True)
        checkpoint = out.with_suffix(".checkpoint")
        limit = None if until is None else max(0.0, until - time.time())
        start = time.perf_counter()
        settings = self.settings
        models: Any = list(self.split.train)  # `train` reads instances with their known scores.
        try:
            done = train(
                with_settings(self.method.kind, settings["network"]), models, "MAP", out, seed=self.seed, device=device,
                resume=checkpoint.is_file(), overwrite=True, time_limit=limit, **settings["training"],
            )  # fmt: skip
        except SolveError:
            if limit is None or time.perf_counter() - start < limit:
                raise
            return {"finished": False, "epochs": 0}  # The limit passed while models were read.
        if not done.finished and (limit is None or time.perf_counter() - start < limit):
            raise KeyboardInterrupt  # Training returns normally on Ctrl-C, but the next run must not start.
        seconds = sum(h["seconds"] or 0.0 for h in done.history)
        if done.finished:
            checkpoint.unlink(missing_ok=True)
            if self.tuning:
                out.unlink(missing_ok=True)
        return {
            "finished": done.finished, "epochs": len(done.history) - 1, "best_epoch": done.metrics.get("epoch"),
            "validation_error": done.metrics.get("error"), "start_error": done.history[0]["error"],
            "parameters": sum(p.numel() for p in done.network.parameters()), "left_out": done.left_out,
            "training_seconds": round(max(seconds, 0.0), 2), "last_call_seconds": round(time.perf_counter() - start, 2),
            "device": device_name(device),
        }  # fmt: skip


def variant_trainings(experiment: MapExperiment, splits: Sequence[ModelSplit]) -> Iterator[MapTraining]:
    """Yield every variant on every split, with the first seed; nothing for a network with a single variant."""
    for split in splits:
        for method in experiment.models:
            variants = method.variants()
            for variant in variants if len(variants) > 1 else ():
                items = tuple(variant.items())
                yield MapTraining(experiment, method, split, items, experiment.seeds[0], tuning=True)


def final_trainings(experiment: MapExperiment, splits: Sequence[ModelSplit], store: RunStore) -> Iterator[MapTraining]:
    """Yield the best variant of every network on every split, with every seed, once all its variants are finished."""
    for split in splits:
        for method in experiment.models:
            best = _best_variant(experiment, method, split, store)
            for seed in experiment.seeds if best is not None else ():
                yield MapTraining(experiment, method, split, tuple((best or {}).items()), seed)


def complete_trainings(
    experiment: MapExperiment, splits: Sequence[ModelSplit], store: RunStore
) -> tuple[list[MapTraining], list[str]]:
    """Return the runs of networks that are trained on all splits of a collection.

    Return also a sentence for each network that is not.
    """
    done = [run for run in final_trainings(experiment, splits, store) if store.get(run.key) is not None]
    whole: list[MapTraining] = []
    missing: list[str] = []
    for label in dict.fromkeys(split.label for split in splits):
        for method in experiment.models:
            mine = [r for r in done if r.split.label == label and r.method.name == method.name]
            wanted = sum(split.label == label for split in splits) * len(experiment.seeds)
            if len(mine) == wanted:
                whole += mine
            else:
                missing.append(f"{method.name} on {label}: {len(mine)} of {wanted} networks are trained")
    return whole, missing


def _best_variant(
    experiment: MapExperiment, method: NetworkMethod, split: ModelSplit, store: RunStore
) -> dict[str, Any] | None:
    variants = method.variants()
    if len(variants) == 1:
        return variants[0]
    found: list[tuple[float, dict[str, Any]]] = []
    for run in variant_trainings(experiment, [split]):
        if run.method.name == method.name:
            row = store.get(run.key)
            if row is None:
                return None
            found.append((row.get("validation_error", float("inf")), dict(run.variant)))
    return min(found, key=lambda pair: pair[0])[1]  # The first of equally good variants.
