"""Runs for the lines of the table of words under bursty noise: decoders, and networks that are tuned and trained."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.files import write_text
from equifactor.decoding import WordDecoder
from experiments.bursty_experiment import BurstyExperiment, DecoderLine, LearnedLine
from experiments.bursty_words import SentWords, count_errors, sent_words
from experiments.run_store import Row, RunStore, plain, run_key
from experiments.runner import device_name, finished_row

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray

_TUNING_SEED = 90  # The seed of the weights and training words while a learning rate is chosen. Chosen by hand.


@dataclass(frozen=True)
class DecoderRun:
    """A classical decoder, tuned on validation words and judged on the test words; an `ExperimentRun`."""

    experiment: BurstyExperiment
    line: DecoderLine

    @property
    def key(self) -> str:
        """The name of its row."""
        return run_key(self.experiment.at, self.line.name)

    @property
    def configuration(self) -> str:
        """A short hash of everything that decides the result."""
        training = self.experiment.training
        return settings_hash(self.experiment, self.line, validation=(training.validation, training.seed))

    def made(self, row: Row, folder: Path) -> bool:
        """Return whether a row was made with these settings."""
        return bool(row["configuration"] == self.configuration)

    def perform(self, folder: Path, device: str, until: float | None = None) -> Row:
        """Choose method and clip, then decode the test words."""
        start, experiment, code = time.perf_counter(), self.experiment, self.experiment.code()
        noise, knows = experiment.noise, self.line.knows
        choices = list(product(self.line.methods, self.line.clips))
        decoders = {method: WordDecoder(code, method) for method in self.line.methods}

        def read(words: SentWords, choice: tuple[str, float]) -> IntArray:
            method, clip = choice
            ratios = np.clip(words.log_ratios(noise, knows), -clip, clip)
            return np.asarray(decoders[method].decode(ratios).corrections, np.int64)

        wrong = dict.fromkeys(choices, 0)
        if len(choices) > 1:
            per_channel = max(1, experiment.training.validation // len(noise.sizes()))
            for cell, channel in enumerate(noise.channels()):
                rng = np.random.default_rng([experiment.training.seed, 2, cell])
                words = sent_words(code, channel, per_channel, rng)
                for choice in choices:
                    wrong[choice] += int(np.count_nonzero(read(words, choice) != words.bits))
        best = min(choices, key=lambda choice: wrong[choice])
        cells = count_errors(code, noise, lambda words, number: [read(w, best) for w in words], lambda: True)
        return {
            "name": self.line.name, "at": self.experiment.at, "knows": knows, "method": best[0], "clip": plain(best[1]),
            "cells": cells,
            "configuration": self.configuration, "seconds": round(time.perf_counter() - start, 2), "device": "cpu",
        }  # fmt: skip


@dataclass(frozen=True)
class RateRun:
    """The choice of the learning rate of a network by the validation loss of a short training with each candidate."""

    experiment: BurstyExperiment
    line: LearnedLine

    @property
    def key(self) -> str:
        """The name of its row."""
        return run_key("tune", self.line.name)

    @property
    def configuration(self) -> str:
        """A short hash of everything that decides the result."""
        return settings_hash(
            self.experiment, self.line, training=_words(self.experiment), tuning=asdict(self.experiment.tuning)
        )

    def made(self, row: Row, folder: Path) -> bool:
        """Return whether a row was made with these settings."""
        return bool(row["configuration"] == self.configuration)

    def perform(self, folder: Path, device: str, until: float | None = None) -> Row:
        """Train with all candidates, each for its share of the time."""
        from experiments.word_training import WordTrainer

        trainer, tuning = WordTrainer(self.experiment, self.line, device), self.experiment.tuning
        trainer.warm_up()
        tried = []
        for n, lr in enumerate(tuning.lrs):
            left = None if until is None else time.time() + (until - time.time()) / (len(tuning.lrs) - n)
            done = trainer.train(lr, _TUNING_SEED, tuning.updates, left)
            tried.append({"lr": lr, **plain(asdict(done))})
        best = min(tried, key=lambda t: math.inf if t["loss"] in (None, "inf") else t["loss"])
        return {
            "name": self.line.name, "lr": best["lr"], "each": float(np.median([t["each"] for t in tried])),
            "tried": tried, "configuration": self.configuration, "device": device_name(device),
        }  # fmt: skip


@dataclass(frozen=True)
class LearnedRun:
    """A network with one seed that is trained, then judged on the test words as far as time allows.

    Attributes:
        experiment: the experiment it belongs to.
        line: the network.
        seed: seed of weights and training words.
        lr: learning rate.
        updates: number of gradient steps.
        train_until: `time.time()` at which training stops early; None for no limit.
    """

    experiment: BurstyExperiment
    line: LearnedLine
    seed: int
    lr: float
    updates: int
    train_until: float | None = None

    @property
    def key(self) -> str:
        """The name of its row and of its model file."""
        return run_key(self.line.name, f"seed{self.seed}")

    @property
    def configuration(self) -> str:
        """A short hash of everything that decides the result, except for the number of gradient steps."""
        return settings_hash(self.experiment, self.line, training=_words(self.experiment), seed=self.seed, lr=self.lr)

    def weights(self, folder: Path) -> Path:
        """Return the model file."""
        return folder / "models" / f"{self.key}.safetensors"

    def made(self, row: Row, folder: Path) -> bool:
        """Return whether a row was made with these settings."""
        return bool(row["configuration"] == self.configuration)

    def perform(self, folder: Path, device: str, until: float | None = None) -> Row:
        """Train, or load the model file of a run that ran out of time after training; then judge."""
        from equifactor.solvers.learned.model_files import load_model

        path = self.weights(folder)
        about = path.with_suffix(".json")
        trained: Row = json.loads(about.read_text(encoding="utf-8")) if about.is_file() and path.is_file() else {}
        if trained.get("configuration") != self.configuration:
            trained = self._train(path, device)
            write_text(about, json.dumps(trained) + "\n")
        network, _ = load_model(path)
        return {**trained, **self.judge(network.to(device), device, until)}

    def _train(self, path: Path, device: str) -> Row:
        from equifactor.solvers.learned.model_card import ModelCard
        from equifactor.solvers.learned.model_files import save_model
        from experiments.word_training import WordTrainer

        start = time.perf_counter()
        trainer = WordTrainer(self.experiment, self.line, device)
        trainer.warm_up()
        done = trainer.train(self.lr, self.seed, self.updates, self.train_until)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = f"{self.experiment.title}, n={self.experiment.n}"
        save_model(path, trainer.network, ModelCard.of(trainer.network, "MAR", data=data, seed=self.seed))
        return {
            "name": self.line.name, "seed": self.seed, "lr": self.lr, "planned": self.updates,
            "updates": done.updates, "words": done.updates * self.experiment.training.batch_size,
            "validation_loss": plain(done.loss), "validation_wrong": plain(done.wrong_bits), "each": done.each,
            "parameters": sum(p.numel() for p in trainer.parameters), "configuration": self.configuration,
            "captured": trainer.captured is not None, "training_seconds": round(time.perf_counter() - start, 2),
            "device": device_name(device),
        }  # fmt: skip

    def judge(self, network: Any, device: str, until: float | None = None) -> Row:
        """Return errors after T steps, pass by pass while time is left.

        If there are several passes, the first pass is also judged after 2T steps (`twice`).
        """
        from experiments.word_training import WordReader

        noise, code, start = self.experiment.noise, self.experiment.code(), time.perf_counter()
        further = noise.passes > 1
        reader = WordReader(code, device, sum(noise.sizes()))
        twice: list[list[IntArray]] = []
        slowest = 0.0

        def read(words: list[SentWords], number: int) -> list[IntArray]:
            nonlocal slowest
            begin = time.perf_counter()
            ratios = np.concatenate([w.log_ratios(noise) for w in words])
            found = reader.read(network, ratios, 2 if further and not number else 1)
            ends = np.cumsum(noise.sizes())[:-1]
            if len(found) > 1:
                twice.append(np.split(found[1], ends))
            slowest = max(slowest, time.perf_counter() - begin)
            return np.split(found[0], ends)

        cells = count_errors(code, noise, read, lambda: until is None or time.time() + slowest < until)
        row: Row = {"cells": cells, "seconds": round(time.perf_counter() - start, 2)}
        if twice:
            first = dataclasses.replace(noise, words=tuple(w // noise.passes for w in noise.words), passes=1)
            row["twice"] = count_errors(code, first, lambda words, number: twice[0], lambda: True)
        return row


def decoder_runs(experiment: BurstyExperiment) -> list[DecoderRun]:
    """Return the runs of all classical lines."""
    return [DecoderRun(experiment, line) for line in experiment.classical]


def rate_runs(experiment: BurstyExperiment) -> list[RateRun]:
    """Return the runs that choose the learning rates of all networks."""
    return [RateRun(experiment, line) for line in experiment.models]


def network_runs(
    experiment: BurstyExperiment, store: RunStore, updates: int | None = None, train_until: float | None = None
) -> Iterator[LearnedRun]:
    """Yield the runs of all networks whose learning rate is known, seed by seed."""
    for seed, line in product(experiment.seeds, experiment.models):
        rate = finished_row(RateRun(experiment, line), store)
        if rate is not None:
            number = experiment.training.updates if updates is None else updates
            yield LearnedRun(experiment, line, seed, rate["lr"], number, train_until)


def _words(experiment: BurstyExperiment) -> Row:
    """Return the settings of training without the number of gradient steps, which the row states."""
    return asdict(dataclasses.replace(experiment.training, updates=0))


def settings_hash(experiment: BurstyExperiment, line: DecoderLine | LearnedLine, **more: Any) -> str:
    """Return a short hash of the code, the noise, a line and further values."""
    deciding = {
        "code": (experiment.n, experiment.k, experiment.code_seed), "noise": asdict(experiment.noise),
        "line": asdict(line), **more,
    }  # fmt: skip
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]
