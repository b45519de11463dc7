"""Running solvers on instances: what is finished is skipped, the rest is run, and every row is kept at once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equifactor.data import Instance
from equifactor.errors import FormatError
from equifactor.evaluation.jobs import MEMORY, Job, make_jobs
from equifactor.evaluation.measures import score
from equifactor.evaluation.provenance import code, provenance
from equifactor.evaluation.references import Reference, file_reference
from equifactor.evaluation.row_store import ANSWER, Row, RowStore, write_results
from equifactor.evaluation.worker import CHANGED
from equifactor.evaluation.worker_pool import run_jobs
from equifactor.result import Task

if TYPE_CHECKING:
    from equifactor.solver import Progress

log = logging.getLogger("equifactor")


def evaluate(
    instances: Sequence[Instance],
    task: str,
    solvers: Sequence[str],
    folder: str | Path,
    *,
    time_limit: float | None = 20.0,
    seed: int = 0,
    processes: int = 1,
    memory_limit: float = MEMORY,
    reuse: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Run every solver on every instance in processes of their own; one row each, in that order.

    Rows are appended to `rows.jsonl` in the folder as they are finished, and a rerun takes them from there, so that
    it goes on where it was stopped. A row is known by the content of its model and evidence, and is scored anew against
    the right answers of today. At the end `results.json` and `results.csv` are written.

    Args:
        instances: what `equifactor.data.collection` returns.
        task: "MAR", "PR" or "MAP".
        solvers: the text forms of the solvers.
        folder: where the results go; it is made when missing.
        time_limit: seconds per instance, None for no limit.
        seed: the seed of solvers that draw random numbers.
        processes: how many run at once; times are only comparable when each has a core.
        memory_limit: GiB per process (on Linux), 0 for no limit.
        reuse: whether finished rows of other versions of the code are taken too.
        progress: a function that is called as `progress(done, total, note)`.
    """
    jobs = make_jobs(instances, task, solvers, time_limit, seed, memory_limit)
    with RowStore(folder) as store:
        _note_old_rows(store)
        rows = complete(jobs, store, processes=processes, reuse=reuse, progress=progress)
        write_results(store.folder, rows, {**provenance(), "seed": seed, "processes": processes})
    return rows


def complete(
    jobs: Sequence[Job],
    store: RowStore,
    *,
    processes: int = 1,
    reuse: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """The rows of the jobs with their scores, in their order: finished ones from the store, the others by running them.

    The keyword arguments are those of `evaluate`.
    """
    keys = _finish(jobs, store, processes=processes, reuse=reuse, progress=progress)
    rows: list[Row] = []
    known, instance = Reference(None), None
    for job, key in zip(jobs, keys, strict=True):
        if job.instance is not instance:  # those of one instance are neighbours, and marginals take time to read
            known, instance = file_reference(job.instance, job.task), job.instance
        kept = store.with_answer(key) if job.task is Task.MAR else store.rows[key]
        rows.append(scored_row(job, kept, known))
    return rows


def scored_row(job: Job, kept: Row, reference: Reference) -> Row:
    """What a table shows of a finished run; the names are those of the job, whoever else has the same model."""
    row = {**kept, **_identity(job), "code": kept["code"], **score(job.task, kept, reference)}
    row.pop(ANSWER, None)
    return row


def _finish(
    jobs: Sequence[Job], store: RowStore, *, processes: int, reuse: bool, progress: Progress | None
) -> list[str]:
    """Run what the store does not hold; returns the key of each job's row. Jobs of equal content are run once."""
    known = store.without_version() if reuse else {}
    version = code()
    keys = [job.key(version) for job in jobs]
    keys = [
        key if key in store.rows else known.get(job.unversioned(), key) for job, key in zip(jobs, keys, strict=True)
    ]
    todo = {key: job for job, key in zip(jobs, keys, strict=True) if key not in store.rows}
    count = Counter(keys)
    done = len(jobs) - sum(count[key] for key in todo)
    if progress is not None:
        progress(done, len(jobs), f"{done} are finished already" if done else "")
    changed: list[str] = []
    for job, measured in run_jobs(list(todo.values()), processes):
        if measured["status"] == CHANGED:
            changed.append(str(job.instance.path))
            continue
        key = job.key(version)
        store.add(key, {**_identity(job), **measured})
        done += count[key]
        if progress is not None:
            progress(done, len(jobs), f"{job.instance.key} {job.solver}: {measured['status']}")
    if changed:
        raise FormatError(f"{changed[0]}: was changed while the command ran ({len(changed)} runs); run it again")
    return keys


def _identity(job: Job) -> Row:
    i = job.instance
    return {
        "instance": i.name, "collection": i.collection, "family": i.family, "split": i.split, "task": job.task.value,
        "solver": job.solver, "time_limit": job.time_limit, "memory_limit": job.memory_limit, "seed": job.seed,
        "code": code(),
    }  # fmt: skip


def _note_old_rows(store: RowStore) -> None:
    if old := store.num_by_name():
        log.info(
            "%s: %d rows know their model by its name, as versions before 0.2 wrote them; they stay, but are not used",
            store.path, old,
        )  # fmt: skip
