"""Error against time: the same solvers under a ladder of limits, each run on its own from the start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equifactor.evaluation.jobs import Job, make_jobs
from experiments.map_config import MapExperiment
from experiments.parts import Part
from experiments.solving import Known, Report, askable, error_of, solve_all, unavailable

Row = dict[str, Any]
_NO_ANSWER = 1.0  # error of an answer that is missing or impossible, so that a mean exists


def run_curve(
    experiment: MapExperiment, parts: Sequence[Part], folder: Path, processes: int, report: Report | None
) -> None:
    """Solve what the curve needs and the folder does not hold.

    Separate runs under separate limits cost more than one trace, but need no cooperation of the solver. Only a proven
    answer is carried over to longer limits: more time cannot change its error.
    """
    specs = [spec for spec in experiment.curve.solvers.values() if unavailable(spec) is None]
    proven: set[tuple[str, str]] = set()
    for limit in sorted(experiment.curve.limits):
        jobs = [job for spec in specs for job in _jobs(parts, spec, limit)]
        todo = [job for job in jobs if (job.instance.key, job.solver) not in proven]
        rows = solve_all(todo, folder, processes, report)
        proven |= {(job.instance.key, job.solver) for job, row in rows.items() if row.get("proven")}


def points(experiment: MapExperiment, parts: Sequence[Part], known: Known) -> tuple[list[Row], list[str]]:
    """Mean error by solver, collection and limit, where all models are solved; a sentence per solver without any."""
    found: list[Row] = []
    words: list[str] = []
    for name, spec in experiment.curve.solvers.items():
        word = unavailable(spec)
        before = len(found)
        for part in parts if askable(spec) else ():
            proven: dict[str, Row] = {}
            for limit in sorted(experiment.curve.limits):
                rows = [proven.get(j.instance.key) or known[j] for j in _jobs([part], spec, limit)]
                proven |= {i.key: r for i, r in zip(part.test, rows, strict=True) if r and r.get("proven")}
                whole = [r for r in rows if r is not None]
                if len(whole) == len(rows):
                    found.append({"solver": name, "collection": part.collection, "limit": limit, **_mean(whole)})
        if len(found) == before:
            words.append(f"curve of {name}: {word or 'not run yet'}")
    return found, words


def _jobs(parts: Sequence[Part], spec: str, limit: float) -> list[Job]:
    return [job for part in parts for job in make_jobs(part.test, "MAP", [spec], limit)]


def _mean(rows: Sequence[Row]) -> Row:
    errors = [min(_NO_ANSWER, error_of(row)) for row in rows]
    return {
        "error": sum(errors) / len(errors), "proven": sum(bool(row.get("proven")) for row in rows),
        "models": len(rows), "without_answer": sum(error_of(row) == float("inf") for row in rows),
    }  # fmt: skip
