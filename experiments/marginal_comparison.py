"""An experiment on marginals from its config to its files."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from experiments.figures import draw_sizes, draw_steps
from experiments.marginal_experiment import MarginalExperiment
from experiments.marginal_page import marginal_latex, marginal_page, seed_means
from experiments.marginal_runs import MarginalRun, final_runs, tuning_runs
from experiments.report import PAGE, RESULTS, origin, write_report
from experiments.run_store import Row, RunStore
from experiments.runner import Effort, finished_row, outdated, run_all


class MarginalComparison:
    """An experiment and the folder of its results."""

    def __init__(self, experiment: MarginalExperiment, folder: Path) -> None:
        self.experiment = experiment
        self.store = RunStore(folder)

    def run(self, effort: Effort, chosen: MarginalExperiment | None = None) -> list[str]:
        """Run the missing runs of tuning, then of all lines; return one sentence for each run that is not finished.

        Args:
            effort: the resources that may be used.
            chosen: the experiment with some of its lines and sizes only; None for all.
        """
        experiment = chosen or self.experiment
        _, trouble = run_all(list(tuning_runs(experiment)), self.store, effort)
        _, more = run_all(list(final_runs(experiment, self.store)), self.store, effort)
        self.store.pack()
        return trouble + more

    def outdated(self) -> list[str]:
        """Return one sentence for each stored run that was made with other settings."""
        runs = (*tuning_runs(self.experiment), *final_runs(self.experiment, self.store))
        kept = [run for run in runs if self.store.get(run.key) is not None]
        return [outdated(run, self.store) for run in kept if finished_row(run, self.store) is None]

    def write(self) -> list[Path]:
        """Write results, tables and figures of all finished runs; return the paths."""
        experiment = self.experiment
        rows, tuned = self._rows(list(final_runs(experiment, self.store))), self._rows(list(tuning_runs(experiment)))
        if not rows:
            return []
        means = seed_means(rows)
        about = origin(self.store.folder, changed=self.store.changed)
        results = {"experiment": experiment.name, "provenance": about, "tuning": tuned, "runs": rows}
        texts = {
            RESULTS: json.dumps(results, indent=1) + "\n",
            PAGE: marginal_page(experiment, rows, tuned),
            "table.tex": marginal_latex(experiment, means),
        }
        figures = {}
        if experiment.step_factors:
            figures["steps.png"] = functools.partial(draw_steps, experiment, rows)
        if len(experiment.sizes) > 1:
            figures["figure.png"] = functools.partial(draw_sizes, experiment, means)
        return write_report(self.store.folder, texts, figures)

    def _rows(self, runs: list[MarginalRun]) -> list[Row]:
        found = [finished_row(run, self.store) for run in runs]
        return [row for row in found if row is not None]
