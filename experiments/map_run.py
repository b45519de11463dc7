"""The experiment in order: train, solve, look for doubles; then collect what is there and write it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from equifactor.evaluation.provenance import provenance
from equifactor.io.files import write_text
from experiments.anytime import points, run_curve
from experiments.cells import cells_of, improved
from experiments.doubles import compute_hashes, doubles
from experiments.figure import draw
from experiments.latex_tables import latex
from experiments.map_config import MapExperiment
from experiments.map_report import markdown
from experiments.map_training import Training, finals, perform, tunings
from experiments.parts import Part, parts_of
from experiments.process_pool import perform_all
from experiments.single import describe
from experiments.solving import Known, Report, questions, solve_all, whole_lines

Row = dict[str, Any]
TRAIN = ("yes", "no", "only")
PARTS = ("split", "folds", "curve", "doubles")


@dataclass(frozen=True)
class How:
    """What of the experiment is done now, and with what; none of it changes a result."""

    data: str | None = None  # folder of models; None: EQUIFACTOR_DATA
    device: str = "cpu"  # of training; models are solved on one core of the CPU each
    processes: int = 1
    train: str = "yes"  # one of TRAIN
    parts: tuple[str, ...] = PARTS
    time_limit: float | None = None  # seconds for training; what is left is for the next call


def run(experiment: MapExperiment, folder: Path, how: How, report: Report | None = None) -> list[str]:
    """Do what is not done yet; returns a sentence for each training that is not finished.

    The folder holds runs/ (a file per training), models/, solved/ (a line per solved model) and hashes.json: the same
    call goes on where the last one was stopped, also on another machine.
    """
    parts = parts_of(experiment, how.data)
    fixed = [p for p in parts if p.fold is None]
    wanted = [p for p in parts if ("split" if p.fold is None else "folds") in how.parts]
    trained, trouble = _train(experiment, wanted, folder, how, report)
    if how.train != "only":
        asked, _ = questions(experiment, wanted, trained, folder)
        able = [q for q in asked if q.obstacle is None]
        solve_all([j for q in able for jobs in q.jobs for j in jobs], folder, how.processes, report)
        if "curve" in how.parts:
            run_curve(experiment, fixed, folder, how.processes, report)
        if "doubles" in how.parts:
            compute_hashes(fixed, folder)
    return trouble


def _train(
    experiment: MapExperiment, parts: Sequence[Part], folder: Path, how: How, report: Report | None
) -> tuple[list[Training], list[str]]:
    """Variants first, then the best of each with every seed; the final runs, and what is not finished."""
    if how.train == "no":
        return list(finals(experiment, parts, folder)), []
    until = None if how.time_limit is None else time.time() + how.time_limit
    trouble: list[str] = []

    def work(runs: list[Training]) -> list[Training]:
        left = None if until is None else max(0.0, until - time.time())
        rows, failed = perform_all(runs, folder, how.device, how.processes, left, report, perform)
        stopped = [r for r in rows if not r["finished"]]
        trouble.extend(failed)
        trouble.extend(f"{r['name']} on {r['part']}, seed {r['seed']}: stopped in epoch {r['epochs']}" for r in stopped)
        return runs

    work(list(tunings(experiment, parts, until)))
    return work(list(finals(experiment, parts, folder, until))), trouble


def collect(experiment: MapExperiment, folder: Path, data: str | None) -> Row:
    """Results from what the folder holds; a line stands in the tables once it is trained and solved on all models."""
    parts = parts_of(experiment, data)
    fixed = [p for p in parts if p.fold is None]
    trained, untrained = _trained(experiment, parts, folder)
    runs = [r for r in tunings(experiment, parts) if r.file(folder).is_file()]
    trainings = [perform(r, folder, "cpu") for r in [*runs, *trained]]
    asked, words = questions(experiment, parts, trained, folder)
    known = Known(folder)
    rows, unsolved = whole_lines(asked, known)
    curve, no_curve = points(experiment, fixed, known)
    same, not_compared = doubles(fixed, folder)
    turned_away = [r for r in trainings if r.get("refused") and not r["tuning"]]  # once per seed
    refused = list(
        {(r["name"], r["part"]): f"{r['name']} on {r['part']}: {r['refused']}" for r in turned_away}.values()
    )
    return {
        "experiment": experiment.name, "provenance": provenance(),
        "split": {p.collection: {"train": len(p.train), "test": len(p.test)} for p in fixed},
        "trainings": trainings, "answers": rows, "curve": curve, "doubles": same, "improved": improved(rows),
        "models": describe(parts),
        "missing": list(dict.fromkeys([*words, *refused, *untrained, *unsolved, *no_curve, *not_compared])),
    }  # fmt: skip


def _trained(experiment: MapExperiment, parts: Sequence[Part], folder: Path) -> tuple[list[Training], list[str]]:
    """Finished runs of the networks that are trained on all parts of a collection, and a sentence for the others."""
    done = [r for r in finals(experiment, parts, folder) if r.file(folder).is_file()]
    whole: list[Training] = []
    words: list[str] = []
    for label in dict.fromkeys(p.label for p in parts):
        for model in experiment.models:
            mine = [r for r in done if r.part.label == label and r.model.name == model.name]
            wanted = sum(p.label == label for p in parts) * len(experiment.seeds)
            if len(mine) == wanted:
                whole += mine
            else:
                words.append(f"{model.name} on {label}: {len(mine)} of {wanted} networks are trained")
    return whole, words


def write(experiment: MapExperiment, results: Row, folder: Path) -> list[Path]:
    """All files; returns their paths, the page to read second."""
    rows = results["answers"]
    table = cells_of(r for r in rows if r["fold"] is None)
    folds = cells_of(r for r in rows if r["fold"] is not None)
    results["cells"] = {
        name: {line: {c: asdict(cell) for c, cell in cells.items()} for line, cells in part.items()}
        for name, part in (("split", table), ("folds", folds))
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "results.json": _lines(_plain(results)),
        "table.md": markdown(experiment, results, table, folds),
        "table.tex": latex(experiment, table),
    }
    for name, text in files.items():
        write_text(folder / name, text)
    written = [folder / name for name in files]
    if results["curve"] and find_spec("matplotlib"):
        written += draw(experiment, results["curve"], folder / "anytime")
    return written


def _told(item: Any) -> Any:
    """A row without its fields that are null, false or empty text."""
    return (
        {k: v for k, v in item.items() if v is not None and v is not False and v != ""}
        if isinstance(item, dict)
        else item
    )


def _lines(results: Row) -> str:
    """JSON with one line per answer, training and point, without what is null, false or empty: small."""
    parts = []
    for name, value in results.items():
        text = json.dumps(value, allow_nan=False)
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(_told(item), allow_nan=False) for item in value)
            text = f"[\n  {items}\n ]"
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _plain(value: Any) -> Any:
    """Infinite numbers become texts and NaN null: JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
