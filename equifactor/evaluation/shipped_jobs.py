"""Jobs that are sent to a worker on another machine, together with the files that they read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from equifactor.evaluation.contents import UNREADABLE
from equifactor.evaluation.jobs import Job
from equifactor.evaluation.worker_pool import WorkerPool
from equifactor.solving.registry import parse_solver
from equifactor.workers.shipped_files import check_visible, lasting_file, sent_files

_pool = WorkerPool()  # The processes of a Dask worker, one for each of its threads.


@dataclass(frozen=True)
class ShippedJob:
    """A job and the bytes of the files it reads, by path."""

    job: Job
    files: dict[Path, bytes]


def ship(job: Job) -> ShippedJob:
    """Return the job with its files. The right answers are not sent."""
    instance = replace(job.instance, marginals_path=None, record={})
    files = sent_files((instance.path, instance.evidence_path, instance.query_path, *_solver_files(job)))
    return ShippedJob(replace(job, instance=instance), files)


def answer(shipped: ShippedJob) -> dict[str, Any]:
    """Return the row of a job, on the worker: solved in its own process under its limits, as on one machine."""
    with tempfile.TemporaryDirectory(prefix="equifactor-") as folder:
        local = {path: Path(folder, str(n), path.name) for n, path in enumerate(shipped.files)}
        job = _unpacked(shipped, local)
        if not job.content.startswith(UNREADABLE):
            check_visible(
                (job.instance.path, job.instance.evidence_path, job.instance.query_path)
            )  # changed content is found by the process
        row = _pool.run(job)
        for path, copy in local.items():  # messages name the files as the user does
            row["message"] = row["message"].replace(str(copy), str(path))
        return row


def _unpacked(shipped: ShippedJob, local: dict[Path, Path]) -> Job:
    """Write the files of a job to this machine and return the job with their paths here.

    Files that define or parametrise a solver stay between jobs, so that the text of the solver stays the same.
    """
    job, instance, solver, plugins = shipped.job, shipped.job.instance, shipped.job.solver, shipped.job.plugins
    for path, data in shipped.files.items():
        if path in (instance.path, instance.evidence_path, instance.query_path):
            local[path].parent.mkdir()
            local[path].write_bytes(data)
        elif str(path) in plugins:
            plugins = tuple(str(lasting_file(path, data)) if plugin == str(path) else plugin for plugin in plugins)
        else:
            solver = solver.replace(str(path), str(lasting_file(path, data)))
    evidence, query = instance.evidence_path, instance.query_path
    here = replace(
        instance,
        path=local.get(instance.path, instance.path),
        evidence_path=None if evidence is None else local.get(evidence, evidence),
        query_path=None if query is None else local.get(query, query),
    )
    return replace(job, instance=here, solver=solver, plugins=plugins)


def _solver_files(job: Job) -> Iterable[Path]:
    """Return the files that a solver reads, and the files that define it if it is the user's own."""
    weights = getattr(parse_solver(job.solver), "weights", None)
    return [Path(file) for file in (weights, *(p for p in job.plugins if p.endswith(".py"))) if file]
