"""Running solvers on instances: what is finished is skipped, the rest is run, and every row is kept at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equifactor.data import Instance
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.provenance import code, provenance
from equifactor.evaluation.row_store import Row, RowStore, write_results
from equifactor.evaluation.worker_pool import run_jobs

if TYPE_CHECKING:
    from equifactor.solver import Progress


def evaluate(
    instances: Sequence[Instance],
    task: str,
    solvers: Sequence[str],
    folder: str | Path,
    *,
    time_limit: float | None = 20.0,
    seed: int = 0,
    processes: int = 1,
    memory_limit: float = 8.0,
    reuse: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Run every solver on every instance in processes of their own; one row each, in that order.

    Rows are appended to `rows.jsonl` in the folder as they are finished, and a rerun takes them from there, so that
    it goes on where it was stopped. At the end `results.json` and `results.csv` are written.

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
    jobs = make_jobs(instances, task, solvers, time_limit, seed)
    with RowStore(folder) as store:
        rows = complete(jobs, store, processes=processes, memory_limit=memory_limit, reuse=reuse, progress=progress)
        write_results(store.folder, rows, {**provenance(), "seed": seed, "processes": processes})
    return rows


def complete(
    jobs: Sequence[Job],
    store: RowStore,
    *,
    processes: int = 1,
    memory_limit: float = 8.0,
    reuse: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """The rows of the jobs, in their order: finished ones from the store, the others by running them.

    The keyword arguments are those of `evaluate`.
    """
    known = store.without_version() if reuse else {}
    done = {job: row for job in jobs if (row := store.rows.get(job.key(code())) or known.get(unversioned(job)))}
    todo = [job for job in jobs if job not in done]
    if progress is not None:
        progress(len(done), len(jobs), f"{len(done)} are finished already" if done else "")
    for job, measured in run_jobs(todo, processes, memory_limit):
        row = {**_identity(job), **measured}
        store.add(job.key(code()), row)
        done[job] = row
        if progress is not None:
            progress(len(done), len(jobs), f"{job.instance.key} {job.solver}: {row['status']}")
    return [done[job] for job in jobs]


def unversioned(job: Job) -> str:
    """The key of a job in `RowStore.without_version`."""
    return job.key("").rpartition(" | ")[0]


def _identity(job: Job) -> Row:
    i = job.instance
    return {
        "instance": i.name, "collection": i.collection, "family": i.family, "split": i.split, "task": job.task.value,
        "solver": job.solver, "time_limit": job.time_limit, "seed": job.seed, "code": code(),
    }  # fmt: skip
