"""An experiment on MAP from its config to its files: train, solve, find isomorphic models, collect, write."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from experiments.figures import draw_curve
from experiments.isomorphic_models import compute_hashes, isomorphic_models
from experiments.map_answers import MapAnswers, complete_lines, judged_lines, solve_lines
from experiments.map_cells import ErrorCells, cells_of, improved
from experiments.map_curve import curve_points, solve_curve
from experiments.map_experiment import MapExperiment
from experiments.map_page import describe, map_latex, map_page
from experiments.map_splits import splits_of
from experiments.map_trainings import complete_trainings, final_trainings, variant_trainings
from experiments.report import PAGE, RESULTS, line_by_line, origin, write_report
from experiments.run_store import Row, RunStore, expanded
from experiments.runner import Effort, run_all

TRAIN = ("yes", "no", "only")
PARTS = ("split", "folds", "curve", "doubles")


class MapComparison:
    """An experiment, the folder of its results and the folder of its models (None: EQUIFACTOR_DATA)."""

    def __init__(self, experiment: MapExperiment, folder: Path, data: str | None) -> None:
        self.experiment = experiment
        self.store = RunStore(folder)
        self.data = data

    def run(
        self, effort: Effort, chosen: MapExperiment | None = None, *, train: str = "yes", parts: tuple[str, ...] = PARTS
    ) -> list[str]:
        """Run the missing trainings and solvers; return one sentence for each training that is not finished.

        The same call continues a stopped run, also on another machine.

        Args:
            effort: the resources that may be used.
            chosen: the experiment with some of its lines and collections only; None for all.
            train: "yes" to run solvers and networks, "no" for solvers alone, "only" for networks alone.
            parts: the parts of `PARTS` that are run.
        """
        experiment = chosen or self.experiment
        splits = splits_of(experiment, self.data)
        fixed = [s for s in splits if s.fold is None]
        wanted = [s for s in splits if ("split" if s.fold is None else "folds") in parts]
        trouble: list[str] = []
        if train != "no":
            _, trouble = run_all(list(variant_trainings(experiment, wanted)), self.store, effort)
            _, more = run_all(list(final_trainings(experiment, wanted, self.store)), self.store, effort)
            trouble += more
        self.store.pack()
        if train != "only":
            trained = list(final_trainings(experiment, wanted, self.store))
            judged, _ = judged_lines(experiment, wanted, trained, self.store)
            solve_lines(judged, self.store, effort)
            if "curve" in parts:
                solve_curve(experiment, fixed, self.store, effort)
            if "doubles" in parts:
                compute_hashes(fixed, self.store)
        return trouble

    def collect(self) -> Row:
        """Return the results so far; tables show a line once it is trained and solved on all models."""
        experiment, store = self.experiment, self.store
        splits = splits_of(experiment, self.data)
        fixed = [s for s in splits if s.fold is None]
        trained, untrained = complete_trainings(experiment, splits, store)
        variants = [run for run in variant_trainings(experiment, splits) if store.get(run.key) is not None]
        trainings = [row for run in (*variants, *trained) if (row := store.get(run.key)) is not None]
        judged, unable = judged_lines(experiment, splits, trained, store)
        answers = MapAnswers(store)
        rows, unsolved = complete_lines(judged, answers)
        curve, no_curve = curve_points(experiment, fixed, answers)
        doubles, not_compared = isomorphic_models(fixed, store)
        turned_away = [r for r in trainings if r.get("refused") and not r["tuning"]]
        refused = {(r["name"], r["part"]): f"{r['name']} on {r['part']}: {r['refused']}" for r in turned_away}
        missing = [*unable, *refused.values(), *untrained, *unsolved, *no_curve, *not_compared]
        return {
            "experiment": experiment.name, "provenance": origin(store.folder, changed=store.changed),
            "split": {s.collection: {"train": len(s.train), "test": len(s.test)} for s in fixed},
            "trainings": trainings, "answers": rows, "curve": curve, "doubles": doubles, "improved": improved(rows),
            "models": describe(splits), "missing": list(dict.fromkeys(missing)),
        }  # fmt: skip

    def write(self) -> list[Path]:
        """Write results, tables and the figure of everything that is finished; return the paths."""
        results = self.collect()
        table, folds = tables_of(results)
        results["cells"] = {
            name: {line: {c: asdict(cell) for c, cell in cells.items()} for line, cells in part.items()}
            for name, part in (("split", table), ("folds", folds))
        }
        texts = {
            RESULTS: line_by_line(results),
            PAGE: map_page(self.experiment, results, table, folds),
            "table.tex": map_latex(self.experiment, table),
        }
        curve = results["curve"]
        figures = {"anytime.png": functools.partial(draw_curve, self.experiment, curve)} if curve else {}
        return write_report(self.store.folder, texts, figures)


def tables_of(results: Mapping[str, list[Row]]) -> tuple[ErrorCells, ErrorCells]:
    """Return the cells of the test split and of cross-validation; `results` may be read from `results.json`."""
    rows = [expanded(row) for row in results["answers"]]
    split = cells_of(r for r in rows if r.get("fold") is None)
    return split, cells_of(r for r in rows if r.get("fold") is not None)
