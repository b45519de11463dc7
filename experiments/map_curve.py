"""Error against time: the same solvers under several time limits, each in a separate run from the start."""

from __future__ import annotations

from collections.abc import Sequence

from equifactor.evaluation.jobs import Job, make_jobs
from experiments.map_answers import MapAnswers, can_make_jobs, error_of, solve_jobs, unavailable
from experiments.map_experiment import MapExperiment
from experiments.map_splits import ModelSplit
from experiments.run_store import Row, RunStore
from experiments.runner import Effort

_NO_ANSWER = 1.0  # The error of a missing or impossible answer, so that the mean is finite. Chosen by hand.


def solve_curve(experiment: MapExperiment, splits: Sequence[ModelSplit], store: RunStore, effort: Effort) -> None:
    """Solve the models of the curve that the store does not have yet.

    Separate runs under separate limits cost more than one trace, but work with any solver. Only a proven answer is
    reused for longer limits, because more time cannot change its error.
    """
    solvers = [solver for solver in experiment.curve.solvers.values() if unavailable(solver) is None]
    proven: set[tuple[str, str]] = set()
    for limit in sorted(experiment.curve.limits):
        open_pairs = [
            (solver, split)
            for solver in solvers
            for split in splits
            if effort.redo or _key(solver, split, limit) not in store.archived
        ]
        jobs = [job for solver, split in open_pairs for job in _jobs(split, solver, limit)]
        todo = [job for job in jobs if (job.instance.key, job.solver) not in proven]
        rows = solve_jobs(todo, store, effort)
        proven |= {(job.instance.key, job.solver) for job, row in rows.items() if row.get("proven")}


def curve_points(
    experiment: MapExperiment, splits: Sequence[ModelSplit], answers: MapAnswers
) -> tuple[list[Row], list[str]]:
    """Return the mean error by solver, collection and limit, if all models are solved.

    Return also a sentence for each solver without any mean.
    """
    found: dict[str, Row] = {}
    missing: list[str] = []
    for name, solver in experiment.curve.solvers.items():
        before = len(found)
        for split in splits if can_make_jobs(solver) else ():
            proven: dict[str, Row] = {}
            for limit in sorted(experiment.curve.limits):
                rows = [proven.get(j.instance.key) or answers.solved_row(j) for j in _jobs(split, solver, limit)]
                proven |= {i.key: r for i, r in zip(split.test, rows, strict=True) if r and r.get("proven")}
                whole = [r for r in rows if r is not None]
                key = _key(solver, split, limit)
                old = answers.store.archived.get(key)
                if len(whole) == len(rows):
                    found[key] = {"solver": name, "collection": split.collection, "limit": limit, **_means(whole)}
                elif old is not None and old["models"] == len(rows):
                    found[key] = {**old, "solver": name}
        if len(found) == before:
            missing.append(f"curve of {name}: {unavailable(solver) or 'not run yet'}")
    answers.store.put(found)
    return list(found.values()), missing


def _key(solver: str, split: ModelSplit, limit: float) -> str:
    """Return the name under which a point is archived."""
    return f"curve | {solver} | {split.name} | {limit:g} s"


def _jobs(split: ModelSplit, solver: str, limit: float) -> list[Job]:
    return make_jobs(split.test, "MAP", [solver], limit)


def _means(rows: Sequence[Row]) -> Row:
    errors = [min(_NO_ANSWER, error_of(row)) for row in rows]
    return {
        "error": sum(errors) / len(errors), "proven": sum(bool(row.get("proven")) for row in rows),
        "models": len(rows), "without_answer": sum(error_of(row) == float("inf") for row in rows),
    }  # fmt: skip
