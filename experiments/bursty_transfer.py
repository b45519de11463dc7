"""Trained networks and decoders on codes other than the code of training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.bursty_experiment import BurstyExperiment, OtherCode
from experiments.bursty_runs import DecoderRun, LearnedRun, decoder_runs, network_runs, settings_hash
from experiments.network_files import file_hash
from experiments.run_store import Row, RunStore, run_key
from experiments.runner import device_name, finished_row


@dataclass(frozen=True)
class TransferRun:
    """A trained network judged on another code, without further training; an `ExperimentRun`."""

    experiment: BurstyExperiment
    other: OtherCode
    trained: LearnedRun

    @property
    def key(self) -> str:
        """The name of its row."""
        return run_key(self.other.name, self.trained.key)

    @property
    def configuration(self) -> str:
        """A short hash of everything that decides the result, except for the weights."""
        return settings_hash(self.experiment.on(self.other), self.trained.line, trained=self.trained.configuration)

    def made(self, row: Row, folder: Path) -> bool:
        """Return whether a row was made with these settings, and with the present model file if there is one."""
        path = self.trained.weights(folder)
        same = not path.is_file() or row["weights"] == file_hash(path)
        return bool(same and row["configuration"] == self.configuration)

    def perform(self, folder: Path, device: str, until: float | None = None) -> Row:
        """Judge the model file of the training."""
        from equifactor.solvers.learned.model_files import load_model

        path = self.trained.weights(folder)
        network, _ = load_model(path)
        there = dataclasses.replace(self.trained, experiment=self.experiment.on(self.other))
        return {
            "name": self.trained.line.name, "at": self.other.name, "seed": self.trained.seed,
            "weights": file_hash(path), "configuration": self.configuration, "device": device_name(device),
            **there.judge(network.to(device), device),
        }  # fmt: skip


def other_runs(experiment: BurstyExperiment, store: RunStore) -> Iterator[DecoderRun | TransferRun]:
    """Yield the runs of all lines on all other codes, for networks that are trained and whose files are kept."""
    for other in experiment.others:
        yield from decoder_runs(experiment.on(other))
        for run in network_runs(experiment, store):
            transfer = TransferRun(experiment, other, run)
            kept = run.weights(store.folder).is_file() or store.get(transfer.key) is not None
            if kept and finished_row(run, store) is not None:
                yield transfer
