"""The experiment on bursty noise from its config to its files."""

from __future__ import annotations

import functools
import time
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.bursty_experiment import BurstyExperiment
from experiments.bursty_page import bursty_page, draw_bursty
from experiments.bursty_runs import decoder_runs, network_runs, rate_runs
from experiments.bursty_transfer import other_runs
from experiments.network_files import unpack_models
from experiments.report import PAGE, RESULTS, line_by_line, origin, write_report
from experiments.run_store import Row, RunStore
from experiments.runner import Effort, ExperimentRun, finished_row, outdated, run_all

# The shares of the time limit after which tuning of learning rates, training and judging end. Chosen by hand.
_TUNED_BY, _TRAINED_BY, _JUDGED_BY = 0.3, 0.75, 0.95
_STARTING = 20.0  # The number of seconds from the start of a training to its first gradient step. Chosen by hand.
_LARGEST = 1_000_000  # The size, in bytes, from which a model file is not kept. Chosen by hand.
_MARGIN = 0.85  # The share of the remaining training time that gradient steps are planned to take. Chosen by hand.


class BurstyComparison:
    """An experiment and the folder of its results."""

    def __init__(self, experiment: BurstyExperiment, folder: Path) -> None:
        self.experiment, self.store = experiment, RunStore(folder)

    def run(self, effort: Effort, chosen: BurstyExperiment | None = None, limit: float | None = None) -> list[str]:
        """Run the missing runs of decoders, learning rates and networks; return one sentence for each unfinished run.

        Args:
            effort: the resources that may be used.
            chosen: the experiment with some of its lines only; None for all lines.
            limit: seconds after which all runs must have ended. Tuning, training and judging get shares of this time.
                Every network gets the same number of gradient steps, as many as the time allows.
        """
        experiment, start = chosen or self.experiment, time.time()
        unpack_models(self.store.folder)
        _, trouble = run_all(decoder_runs(experiment), self.store, effort)
        tuning = effort if limit is None else replace(effort, until=start + _TUNED_BY * limit)
        _, more = run_all(rate_runs(experiment), self.store, tuning)
        trouble += more
        train_until = None
        if limit is not None:
            train_until = start + _TRAINED_BY * limit
            effort = replace(effort, until=start + _JUDGED_BY * limit)
        runs = list(network_runs(experiment, self.store, self.updates(experiment, train_until), train_until))
        _, more = run_all(runs, self.store, effort)
        trouble += more
        _, more = run_all(list(other_runs(experiment, self.store)), self.store, effort)
        self.store.pack()
        self._pack_models()
        return trouble + more

    def updates(self, experiment: BurstyExperiment, train_until: float | None) -> int:
        """Return the number of gradient steps of every network: the number in the config, or fewer if time is short.

        The duration of a step is taken from tuning, when all networks shared the device. In training, all seeds of all
        networks share it.
        """
        rows = [row for run in rate_runs(experiment) if (row := finished_row(run, self.store)) is not None]
        most = experiment.training.updates
        if train_until is None or not rows:
            return most
        each = sum(row["each"] for row in rows) / len(rows) * len(experiment.seeds)
        fitting = int(_MARGIN * (train_until - time.time() - _STARTING) / each)
        return max(1, min(most, fitting // 10 * 10))

    def outdated(self) -> list[str]:
        """Return one sentence for each stored run that was made with other settings."""
        kept = [run for run in self._runs() if self.store.get(run.key) is not None]
        return [outdated(run, self.store) for run in kept if finished_row(run, self.store) is None]

    def write(self) -> list[Path]:
        """Write results, tables and the figure of all finished runs; return the paths."""
        experiment = self.experiment
        lines = [*decoder_runs(experiment), *network_runs(experiment, self.store), *other_runs(experiment, self.store)]
        rows = self._rows(lines)
        tuned = self._rows(rate_runs(experiment))
        if not rows:
            return []
        about = origin(self.store.folder, changed=self.store.changed)
        results = {"experiment": experiment.name, "provenance": about, "tuning": tuned, "runs": rows}
        texts = {RESULTS: line_by_line(results), PAGE: bursty_page(experiment, rows, tuned)}
        return write_report(self.store.folder, texts, {"figure.png": functools.partial(draw_bursty, experiment, rows)})

    def _runs(self) -> list[ExperimentRun]:
        experiment = self.experiment
        trained = [*network_runs(experiment, self.store), *other_runs(experiment, self.store)]
        return [*decoder_runs(experiment), *rate_runs(experiment), *trained]

    def _rows(self, runs: Sequence[ExperimentRun]) -> list[Row]:
        return [row for run in runs if (row := finished_row(run, self.store)) is not None]

    def _pack_models(self) -> None:
        """Write one file with the trained networks for git, without large networks."""
        paths = sorted(p for p in (self.store.folder / "models").glob("*.*") if p.stat().st_size < _LARGEST)
        if paths:
            with zipfile.ZipFile(self.store.folder / "models.zip", "w", zipfile.ZIP_DEFLATED) as packed:
                for path in paths:
                    packed.write(path, path.name)
