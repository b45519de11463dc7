"""A job on its way to another machine, which need not see our files: it takes them along."""

from __future__ import annotations

import hashlib
import socket
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from equifactor.base.errors import ClusterError
from equifactor.data import Instance
from equifactor.evaluation.contents import UNREADABLE
from equifactor.evaluation.jobs import Job
from equifactor.evaluation.worker_pool import WorkerPool
from equifactor.solving.registry import parse_solver

LARGEST = 2**26  # bytes; a larger file is not sent, so that the worker must see it under the same path

_pool = WorkerPool()  # the processes of a Dask worker, one for each of its threads


@dataclass(frozen=True)
class ShippedJob:
    """A job with the bytes of the files it reads, by path."""

    job: Job
    files: dict[Path, bytes]


def ship(job: Job) -> ShippedJob:
    """The job with its files; right answers stay here."""
    instance = replace(job.instance, marginals_path=None, record={})
    files: dict[Path, bytes] = {}
    for path in (instance.path, instance.evidence_path, *_solver_files(job)):
        if path is not None and path.is_file() and path.stat().st_size <= LARGEST:
            files[path] = path.read_bytes()
    return ShippedJob(replace(job, instance=instance), files)


def answer(shipped: ShippedJob) -> dict[str, Any]:
    """The row of a job, on the worker: solved in a process of its own, with its limits, as on one machine."""
    with tempfile.TemporaryDirectory(prefix="equifactor-") as folder:
        places = {path: Path(folder, str(n), path.name) for n, path in enumerate(shipped.files)}
        job = _unpacked(shipped, places)
        if not job.content.startswith(UNREADABLE):
            _check_seen(job.instance)
        row = _pool.run(job)
        for path, place in places.items():  # messages name the files as the user does
            row["message"] = row["message"].replace(str(place), str(path))
        return row


def _unpacked(shipped: ShippedJob, places: dict[Path, Path]) -> Job:
    """The job with the paths of its files on this machine."""
    job, instance, solver, plugins = shipped.job, shipped.job.instance, shipped.job.solver, shipped.job.plugins
    for path, data in shipped.files.items():
        if path in (instance.path, instance.evidence_path):
            places[path].parent.mkdir()
            places[path].write_bytes(data)
        elif str(path) in plugins:
            plugins = tuple(str(_lasting(path, data)) if plugin == str(path) else plugin for plugin in plugins)
        else:
            solver = solver.replace(str(path), str(_lasting(path, data)))
    evidence = instance.evidence_path
    here = replace(
        instance,
        path=places.get(instance.path, instance.path),
        evidence_path=None if evidence is None else places.get(evidence, evidence),
    )
    return replace(job, instance=here, solver=solver, plugins=plugins)


def _check_seen(instance: Instance) -> None:
    """Refuse a file that was too large to be sent and is not here; one with other content is found by the process."""
    for path in (instance.path, instance.evidence_path):
        if path is not None and not path.is_file():
            raise ClusterError(
                f"the worker on {socket.gethostname()} does not see {path}, and files of more than "
                f"{LARGEST >> 20} MiB are not sent: put it on a file system that the workers share"
            )


def _lasting(path: Path, data: bytes) -> Path:
    """A file that stays where it is between jobs, so that a solver that has read it is known by the same text."""
    place = Path(tempfile.gettempdir()) / f"equifactor-{hashlib.blake2b(data, digest_size=12).hexdigest()}" / path.name
    if not place.is_file():
        from equifactor.base.files import write_bytes

        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(place, data)  # all at once: another thread may do the same
    return place


def _solver_files(job: Job) -> Iterable[Path]:
    """The files that a solver reads, and those that define it where it is the user's own."""
    weights = getattr(parse_solver(job.solver), "weights", None)
    return [Path(file) for file in (weights, *(p for p in job.plugins if p.endswith(".py"))) if file]
