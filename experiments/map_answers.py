"""Every line of the table on the models it is judged on. Solved models are stored, and their best answers archived."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from equifactor import OptionError, Task
from equifactor.data import Instance
from equifactor.evaluation.campaign import complete, scored_row
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.references import file_reference
from equifactor.evaluation.row_store import ROWS, RowStore
from equifactor.solvers import parse_solver
from equifactor.workers.code_version import code_version
from experiments.map_experiment import MapExperiment, SolverMethod
from experiments.map_splits import ModelSplit
from experiments.map_trainings import MapTraining
from experiments.network_files import file_hash, shipped_file
from experiments.run_store import Row, RunStore, compact, expanded
from experiments.runner import Effort

SHIPPED = "shipped"  # The mark of a line whose weights come with the package.
TRAINED = "per collection"  # The mark of a line whose network was trained by this experiment.


@dataclass(frozen=True)
class JudgedLine:
    """A line of the table on one split with one seed. With several solvers, the best answer for each model counts.

    Attributes:
        line: name of the line.
        split: the models.
        seed: seed of the solver, or of the training of its network.
        solvers: text forms of the solvers.
        time_limit: seconds per model and solver.
        weights: the origin of learned weights.
        files: hash of the files that the solvers read and that their text forms do not name.
        obstacle: the reason why the line cannot be solved here; answers from other machines are shown nevertheless.
    """

    line: str
    split: ModelSplit
    seed: int
    solvers: tuple[str, ...]
    time_limit: float
    weights: str = ""
    files: str = ""
    obstacle: str | None = None

    def jobs(self, instance: Instance) -> list[Job]:
        """Return the jobs of one model, one job per solver."""
        seed = 0 if self.weights == TRAINED else self.seed
        jobs = make_jobs([instance], "MAP", self.solvers, self.time_limit, seed)
        return [replace(job, files=self.files) for job in jobs] if self.files else jobs

    def key(self, instance: Instance) -> str:
        """Return the name under which the best answer on one model is archived."""
        parts = ["answer", self.line, self.split.name, f"seed {self.seed}", instance.name, self.files]
        return " | ".join(filter(None, parts))

    def made(self, row: Row) -> bool:
        """Return whether an archived answer was made by these solvers under this limit."""
        if row["time_limit"] != self.time_limit or row["solvers"] != len(self.solvers):
            return False
        if self.weights == TRAINED:
            return _file_name(row["solver"]) == _file_name(self.solvers[0])
        return row["solver"] in self.solvers


class MapAnswers:
    """The answers of a folder: solved models in its working folder, and best answers in its archive."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.solved: dict[str, Row] = {}
        if (store.working / ROWS).is_file():
            with RowStore(store.working) as rows:
                self.solved = {name: rows.rows[key] for name, key in rows.without_version().items()}

    def solved_row(self, job: Job) -> Row | None:
        """Return the row of one solved model, or None if it has not been solved."""
        row = self.solved.get(job.unversioned())
        return None if row is None else scored_row(job, row, file_reference(job.instance, job.task))

    def archived(self, judged: JudgedLine, instance: Instance) -> Row | None:
        """Return the archived answer of a line on a model, or None."""
        row = self.store.archived.get(judged.key(instance))
        return expanded(row) if row is not None and judged.made(row) else None

    def answer(self, judged: JudgedLine, instance: Instance) -> Row | None:
        """Return the answer with the highest log score, and the time of all solvers; None if an answer is missing."""
        identity = {
            "line": judged.line, "part": judged.split.name, "collection": judged.split.collection,
            "fold": judged.split.fold, "seed": judged.seed, "weights": judged.weights,
        }  # fmt: skip
        rows = self._solved_rows(judged, instance)
        if len(rows) < len(judged.solvers):
            archived = self.archived(judged, instance)
            return None if archived is None else {**identity, **archived}
        return {
            **identity, **_kept_fields(max(rows, key=_score), judged.weights),
            "seconds": round(sum(row["seconds"] or 0.0 for row in rows), 4), "solvers": len(rows),
            "upper_bound": min((b for row in rows if (b := row.get("upper_bound")) is not None), default=None),
        }  # fmt: skip

    def _solved_rows(self, judged: JudgedLine, instance: Instance) -> list[Row]:
        if not self.solved or (judged.weights == TRAINED and judged.obstacle):
            return []  # Without its model file a solver has no job.
        return [row for job in judged.jobs(instance) if (row := self.solved_row(job)) is not None]


def judged_lines(
    experiment: MapExperiment, splits: Sequence[ModelSplit], trained: Sequence[MapTraining], store: RunStore
) -> tuple[list[JudgedLine], list[str]]:
    """Return all lines on all splits, and one sentence for each line that cannot be judged here."""
    judged: list[JudgedLine] = []
    missing: list[str] = []
    limit = experiment.time_limit
    for method in experiment.methods:
        solvers = tuple(method.specs())
        obstacle = unavailable(solvers[0])
        if obstacle and not can_make_jobs(solvers[0]):
            missing.append(f"{method.name}: {obstacle}")
            continue
        files = shipped_hash(method) if method.weights == SHIPPED else ""
        for split in splits:
            for seed in method.seeds:
                judged.append(JudgedLine(method.name, split, seed, solvers, limit, method.weights, files, obstacle))
    for run in trained:
        path, row = run.weights(store.folder), store.get(run.key)
        if run.tuning or row is None or row.get("refused"):
            continue
        obstacle = None if path.is_file() else f"{path} is missing"
        for decode in run.method.decode:
            option = ", decode=sequential" * (decode == "sequential")
            solver = f'{run.method.kind}(weights="{path}", tolerance=0{option})'
            line = run.method.line(decode)
            judged.append(JudgedLine(line, run.split, run.seed, (solver,), limit, TRAINED, obstacle=obstacle))
    return judged, missing


def shipped_hash(method: SolverMethod) -> str:
    """Return a hash of the weights of the package, so that answers of older weights are not reused."""
    return file_hash(shipped_file(parse_solver(method.solver).name, Task.MAP), digits=12)


def can_make_jobs(solver: str) -> bool:
    """Return whether jobs with this solver can be made, even if they cannot run here, to look up stored answers."""
    try:
        make_jobs([], "MAP", [solver], None)
    except OptionError:
        return False
    return True


def unavailable(solver: str) -> str | None:
    """Return why a solver cannot run here, such as a missing package or missing weights; None if it can."""
    parsed = parse_solver(solver)
    try:
        make_jobs([], "MAP", [solver], None)
    except OptionError as error:
        return str(error)
    return None if getattr(parsed, "weights", None) else parsed.missing()


def solve_lines(judged: Sequence[JudgedLine], store: RunStore, effort: Effort) -> None:
    """Solve the models without an answer; with `redo`, also the models without an answer of the present code."""
    answers = MapAnswers(store)
    jobs = []
    for line in judged:
        for instance in line.split.test if line.obstacle is None else ():
            row = answers.archived(line, instance)
            if row is None or (effort.redo and row["code"] != code_version()):
                jobs += line.jobs(instance)
    solve_jobs(jobs, store, effort)


def solve_jobs(jobs: Sequence[Job], store: RunStore, effort: Effort) -> dict[Job, Row]:
    """Return the rows of all jobs; without `redo`, stored rows of any version of the code are reused."""
    todo = list(dict.fromkeys(jobs))
    if not todo:
        return {}
    with RowStore(store.working) as rows:
        found = complete(
            todo, rows, processes=effort.processes, cluster=effort.cluster, reuse=not effort.redo,
            progress=effort.progress,
        )  # fmt: skip
    return dict(zip(todo, found, strict=True))


def complete_lines(judged: Sequence[JudgedLine], answers: MapAnswers) -> tuple[list[Row], list[str]]:
    """Return the rows of all lines that are solved on every model, and one sentence for each other line.

    A mean over some of the models would be misleading. So completeness is decided by collection and seed, and in
    cross-validation over all folds. Complete lines are archived.
    """
    groups: dict[tuple[str, str, int], list[JudgedLine]] = defaultdict(list)
    for line in judged:
        groups[line.line, line.split.label, line.seed].append(line)
    rows: list[Row] = []
    missing: list[str] = []
    kept: dict[str, Row] = {}
    for (name, label, seed), mine in groups.items():
        found = {line.key(i): answers.answer(line, i) for line in mine for i in line.split.test}
        whole = {key: row for key, row in found.items() if row is not None}
        if len(whole) == len(found):
            rows += whole.values()
            kept |= {key: compact(row) for key, row in whole.items()}
        else:
            why = f" ({mine[0].obstacle})" if mine[0].obstacle else ""
            missing.append(f"{name} on {label}, seed {seed}: {len(whole)} of {len(found)} models are solved{why}")
    answers.store.put(kept)
    return rows, missing


def error_of(row: Row) -> float:
    """Return the UAI error, which is infinite for probability zero and for a missing answer."""
    return math.inf if row.get("map_error") is None else float(row["map_error"])


def _score(row: Row) -> float:
    return -math.inf if row.get("log_score") is None else float(row["log_score"])


# The fields of a row that are archived.
_KEPT = (
    "instance", "solver", "time_limit", "status", "map_error", "log_score", "zero_probability", "proven", "code",
)  # fmt: skip


def _kept_fields(row: Row, weights: str) -> Row:
    kept: dict[str, Any] = {k: row.get(k) for k in _KEPT}
    kept["reference"] = row.get("reference_value")
    if weights == TRAINED:  # Keep the file name without its folder, which depends on the machine.
        head, found, path = str(row["solver"]).partition("weights=")
        kept["solver"] = f"{head}weights={Path(path).name}" if found else row["solver"]
    return kept


def _file_name(solver: str) -> str:
    """Return the stem of the model file that the text form of a solver names."""
    return solver.partition("weights=")[2].partition(".safetensors")[0].rpartition("/")[2].strip("\"'")
