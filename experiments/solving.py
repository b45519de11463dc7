"""Every line of the table on the models it is judged on; each solved model is a line on disk."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from equifactor.data import Instance
from equifactor.errors import OptionError
from equifactor.evaluation.campaign import complete, unversioned
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.row_store import Store
from equifactor.registry import parse_solver
from equifactor.result import Task
from experiments.map_config import MapExperiment, Method
from experiments.map_training import Training
from experiments.parts import Part

Row = dict[str, Any]
Report = Callable[[int, int | None, str], None]
SOLVED = "solved"  # folder of solved models
SHIPPED = "shipped"  # what a line says whose weights come with the package
_MEMORY = 8.0  # GiB per process, as in the competition


@dataclass(frozen=True)
class Question:
    """A line of the table on one part with one seed; of several solvers each model's best answer counts."""

    line: str
    part: Part
    seed: int
    jobs: tuple[tuple[Job, ...], ...]  # per model, one job per solver
    weights: str = ""
    obstacle: str | None = None  # why it cannot be solved here; what was solved elsewhere is shown all the same


def questions(
    experiment: MapExperiment, parts: Sequence[Part], trained: Sequence[Training], folder: Path
) -> tuple[list[Question], list[str]]:
    """All lines on all parts, and a sentence for each line that cannot be asked here."""
    asked: list[Question] = []
    words: list[str] = []
    for method in experiment.methods:
        word = unavailable(method.specs()[0])
        if word and not askable(method.specs()[0]):
            words.append(f"{method.name}: {word}")
            continue
        files = shipped_hash(method) if method.weights == SHIPPED else ""
        for part in parts:
            for seed in method.seeds:
                jobs = jobs_of(part.test, method.specs(), experiment.time_limit, seed, files)
                asked.append(Question(method.name, part, seed, jobs, method.weights, word))
    for run in trained:
        path = run.weights(folder)
        if not run.tuning and path.is_file() and run.file(folder).is_file():
            for decode in run.model.decode:
                option = ", decode=sequential" * (decode == "sequential")
                spec = f'{run.model.kind}(weights="{path}", tolerance=0{option})'
                jobs = jobs_of(run.part.test, [spec], experiment.time_limit, 0)
                asked.append(Question(run.model.line(decode), run.part, run.seed, jobs, "per collection"))
    return asked, words


def jobs_of(
    instances: Sequence[Instance], specs: Sequence[str], limit: float, seed: int, files: str = ""
) -> tuple[tuple[Job, ...], ...]:
    """Per model one job for each solver; `files` is a hash of what they read and their text forms do not name."""
    jobs = [make_jobs([i], "MAP", specs, limit, seed) for i in instances]
    return tuple(tuple(replace(job, files=files) if files else job for job in mine) for mine in jobs)


def shipped_hash(method: Method) -> str:
    """Hash of the weights of the package: answers of older ones are not taken, whatever else may be reused."""
    from equifactor.solvers.learned.learned_solver import shipped_weights

    path = shipped_weights(parse_solver(method.solver).name, Task.MAP)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def askable(spec: str) -> bool:
    """Jobs can be made of it, though perhaps not run here: an answer has a name under which it is kept."""
    try:
        make_jobs([], "MAP", [spec], None)
    except OptionError:
        return False
    return True


def unavailable(spec: str) -> str | None:
    """Why a solver cannot run here, in a sentence: a package or shipped weights are missing."""
    solver = parse_solver(spec)
    try:
        make_jobs([], "MAP", [spec], None)
    except OptionError as error:
        return str(error)
    return None if getattr(solver, "weights", None) else solver.missing()


def solve_all(jobs: Sequence[Job], folder: Path, processes: int, report: Report | None) -> dict[Job, Row]:
    """Rows of all jobs; what the folder holds already is taken from there, whichever version of the code made it."""
    todo = list(dict.fromkeys(jobs))
    with Store(folder / SOLVED) as store:
        rows = complete(todo, store, processes=processes, memory_limit=_MEMORY, reuse=True, progress=report)
    return dict(zip(todo, rows, strict=True))


class Known:
    """What the folder holds: `known[job]` is its row, None where it has not been solved."""

    def __init__(self, folder: Path) -> None:
        with Store(folder / SOLVED) as store:
            self.rows = store.without_version()

    def __getitem__(self, job: Job) -> Row | None:
        return self.rows.get(unversioned(job))


def answers(question: Question, known: Known) -> list[Row] | None:
    """One row per model: the answer of the highest log score, and the time of all solvers; None if one is missing."""
    found = []
    for jobs in question.jobs:
        mine = [row for job in jobs if (row := known[job]) is not None]
        if len(mine) < len(jobs):
            return None
        best = max(mine, key=_score)
        found.append(
            {
                "line": question.line, "part": question.part.name, "collection": question.part.collection,
                "fold": question.part.fold, "seed": question.seed, "weights": question.weights,
                **_slim(best, question.weights),
                "seconds": round(sum(row["seconds"] or 0.0 for row in mine), 4), "solvers": len(mine),
                "upper_bound": min((b for row in mine if (b := row.get("upper_bound")) is not None), default=None),
            }
        )  # fmt: skip
    return found


def whole_lines(asked: Sequence[Question], known: Known) -> tuple[list[Row], list[str]]:
    """Rows of all lines that are solved on every model; a sentence for each that is not.

    A line is whole by collection and seed, and in cross-validation over all folds: a mean over half of the models would
    not be the number that the table promises.
    """
    groups: dict[tuple[str, str, int], list[Question]] = defaultdict(list)
    for question in asked:
        groups[question.line, question.part.label, question.seed].append(question)
    rows: list[Row] = []
    words: list[str] = []
    for (line, label, seed), mine in groups.items():
        found = [answers(question, known) for question in mine]
        if all(f is not None for f in found):
            rows += [row for f in found for row in f or ()]
        else:
            models = [jobs for question in mine for jobs in question.jobs]
            done = sum(all(known[job] is not None for job in jobs) for jobs in models)
            why = f" ({word})" if (word := mine[0].obstacle) else ""
            words.append(f"{line} on {label}, seed {seed}: {done} of {len(models)} models are solved{why}")
    return rows, words


def error_of(row: Row) -> float:
    """UAI error; infinite for probability zero, and for no answer."""
    return math.inf if row.get("map_error") is None else float(row["map_error"])


def _score(row: Row) -> float:
    return -math.inf if row.get("log_score") is None else float(row["log_score"])


_KEPT = (
    "instance", "solver", "time_limit", "status", "map_error", "log_score", "reference", "zero_probability",
    "proven", "code",
)  # fmt: skip


def _slim(row: Row, weights: str) -> Row:
    kept = {k: row.get(k) for k in _KEPT}
    if weights == "per collection":  # a file name says enough, and nothing about the machine
        head, _, path = str(row["solver"]).partition("weights=")
        kept["solver"] = f"{head}weights={path.rsplit('/', 1)[-1]}" if path else row["solver"]
    return kept
