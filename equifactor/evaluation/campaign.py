"""Running solvers on instances: finished runs are skipped, the others are done, and rows are saved immediately."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ClusterError, OptionError, brief
from equifactor.base.run_context import check_run
from equifactor.base.status import Status, Task
from equifactor.data import Instance, collection
from equifactor.evaluation.jobs import MEMORY, Job, make_jobs
from equifactor.evaluation.measures import score
from equifactor.evaluation.provenance import provenance
from equifactor.evaluation.references import FILE, Reference, computed_reference, file_reference
from equifactor.evaluation.row_store import ANSWER, Row, RowStore, write_results
from equifactor.evaluation.worker import CHANGED
from equifactor.evaluation.worker_pool import LOST, run_jobs
from equifactor.graph import FactorGraph
from equifactor.graph.reading.inputs import as_list
from equifactor.solving.solver import Solver
from equifactor.workers.code_version import code_version

if TYPE_CHECKING:
    from equifactor.solving.solver import Progress

REFERENCE_LIMIT = 600.0  # Seconds per instance for the solver that computes reference answers. Chosen by hand.
Known = Callable[[Instance, Task], Reference]

_ENDINGS = frozenset(str(status) for status in Status)  # Other statuses of a row are errors and crashes.
log = logging.getLogger("equifactor")


class RunOptions(TypedDict, total=False):
    """How to run jobs: keyword arguments of `evaluate`, documented there."""

    processes: int
    cluster: str | None
    reuse: bool
    progress: Progress | None


@checks_types("processes", "cluster", "memory_limit", "reuse", "reference", "folder")
def evaluate(
    instances: Sequence[Instance] | str | Path,
    task: str,
    solvers: str | Sequence[str],
    folder: str | Path,
    *,
    time_limit: float | None = 20.0,
    seed: int = 0,
    processes: int = 1,
    cluster: str | None = None,
    memory_limit: float = MEMORY,
    reuse: bool = False,
    reference: str = FILE,
    reference_limit: float | None = REFERENCE_LIMIT,
    progress: Progress | None = None,
) -> list[Row]:
    """Run every solver on every instance in separate processes; return one row per run, in that order.

    Each row is appended to `rows.jsonl` in the folder when its run is finished. A repeated call reads these rows and
    so continues where the last one stopped. A row is identified by the content of its model and evidence. Scores are
    computed again in every call, from the current right answers. At the end `results.json` and `results.csv` are
    written.

    Args:
        instances: a folder of models, or some of its models, as `equifactor.data.collection` returns them.
        task: "MAR", "PR", "MAP", or "MMAP" with the query of each model.
        solvers: the text form of one solver or of several.
        folder: the folder for the results; it is created if it is missing.
        time_limit: seconds per instance; None means no limit.
        seed: the seed of solvers that draw random numbers.
        processes: the number of processes that run at the same time. Times are comparable only if each has a core.
        cluster: the address of a Dask scheduler (`tcp://host:8786`) or its scheduler file. Its workers do the runs, and
            `processes` is ignored. Rows are stored only here, so none is lost if a worker or the scheduler dies.
        memory_limit: GiB per process (on Linux), at least 0.3; 0 means no limit.
        reuse: whether to use finished rows of other versions of the code too.
        reference: the source of the right answers. "file" uses the answers that came with the models. The text form of
            a solver, such as "exact", computes the answers first and saves them with the other rows; an instance has no
            score if that solver does not end exact, optimal or converged.
        reference_limit: seconds per instance for that solver; None means no limit.
        progress: a function that is called as `progress(done, total, note)`.
    """
    instances = _read_instances(instances)
    for limit in (time_limit, reference_limit):
        check_run(limit, seed, False if progress is None else progress)
    if processes < 1:
        raise OptionError(f"The number of processes must be at least 1, found {processes}.")
    chosen = [solvers] if isinstance(solvers, (str, Solver)) else as_list(solvers)
    if chosen is None:
        raise OptionError(f"evaluate needs the text form of one solver or of several, found {brief(solvers)}.")
    time_limit, reference_limit = (limit if limit is None else float(limit) for limit in (time_limit, reference_limit))
    memory_limit = float(memory_limit)
    jobs = make_jobs(instances, task, chosen, time_limit, seed, memory_limit)
    asked = [] if reference == FILE else [reference]
    exact = make_jobs(instances, task, asked, reference_limit, seed, memory_limit)
    with RowStore(folder) as store:
        _note_old_rows(store)
        options: RunOptions = {"processes": processes, "cluster": cluster, "reuse": reuse, "progress": progress}
        known: Known = _computed(exact, store, **options) if exact else file_reference
        rows = complete(jobs, store, known, **options)
        about = {"seed": seed, "processes": processes, "cluster": cluster is not None, "reference": reference}
        write_results(store.folder, rows, {**provenance(), **about})
    return rows


def _read_instances(given: object) -> list[Instance]:
    """Return the instances of a folder, or those that are given; raise `OptionError` for anything else."""
    if isinstance(given, (str, Path)):
        return collection(given)
    items: list[Any] | None = [given] if isinstance(given, (Instance, FactorGraph)) else as_list(given)
    wrong = [given] if items is None else [i for i in items if not isinstance(i, Instance)]
    if items is None or wrong:
        raise OptionError(
            "evaluate reads models from files. Pass a folder, or a list of its models from "
            f"equifactor.data.collection(FOLDER); found {brief(wrong[0])}. Save a graph with equifactor.write_graph, "
            "or compare solvers on it with equifactor.compare(graph, solvers)."
        )
    return items


def complete(
    jobs: Sequence[Job], store: RowStore, known: Known = file_reference, **options: Unpack[RunOptions]
) -> list[Row]:
    """Return the rows of the jobs with their scores, in order: finished rows from the store, others by running the job.

    `known` returns the right answer of an instance for a task. The keyword arguments are those of `evaluate`.
    """
    keys = _finish(jobs, store, **options)
    rows: list[Row] = []
    right, instance = Reference(None), None
    for job, key in zip(jobs, keys, strict=True):
        if job.instance is not instance:  # the jobs of one instance are together, and reading marginals takes time
            right, instance = known(job.instance, job.task), job.instance
        kept = store.with_answer(key) if job.task is Task.MAR else store.rows[key]
        rows.append(scored_row(job, kept, right))
    return rows


def _computed(jobs: Sequence[Job], store: RowStore, **options: Unpack[RunOptions]) -> Known:
    """Run these jobs and return their answers as references; their rows are saved like all others."""
    progress = options.get("progress")

    def report(done: int, total: int | None, note: str) -> None:
        if progress is not None:
            progress(done, total, note and f"reference: {note}")

    options["progress"] = report
    keys = _finish(jobs, store, **options)
    key_of = {job.instance: key for job, key in zip(jobs, keys, strict=True)}
    return lambda instance, task: computed_reference(task, store.with_answer(key_of[instance]))


def scored_row(job: Job, kept: Row, reference: Reference) -> Row:
    """Return what a table shows of a finished run, under the names of this job (other jobs may have the same model)."""
    row = {**kept, **_identity(job), "code": kept["code"], **score(job.task, kept, reference)}
    row.pop(ANSWER, None)
    return row


def _finish(
    jobs: Sequence[Job],
    store: RowStore,
    *,
    processes: int = 1,
    cluster: str | None = None,
    reuse: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Run the jobs that the store does not hold and return the key of each row. Jobs with equal keys are run once."""
    known = store.without_version() if reuse else {}
    version = code_version()
    keys = [job.key(version) for job in jobs]
    keys = [
        key if key in store.rows else known.get(job.unversioned(), key) for job, key in zip(jobs, keys, strict=True)
    ]
    todo = {key: job for job, key in zip(jobs, keys, strict=True) if key not in store.rows}
    count = Counter(keys)
    done = len(jobs) - sum(count[key] for key in todo)
    if progress is not None:
        progress(done, len(jobs), f"{done} runs are already finished" if done else "")
    failed: list[str] = []
    with contextlib.closing(run_jobs(list(todo.values()), processes, cluster)) as runs:
        for job, measured in runs:
            if measured["status"] in (CHANGED, LOST):
                failed.append(f"{job.instance.path}: {measured['message']}")
                continue
            key = job.key(version)
            store.add(key, {**_identity(job), **measured})
            done += count[key]
            if progress is not None:
                why = "" if measured["status"] in _ENDINGS else f": {measured['message']}"  # of an error or a crash
                progress(done, len(jobs), f"{job.instance.key} {job.solver}: {measured['status']}{why}")
    if failed:
        raise ClusterError(f"{len(failed)} of {len(todo)} runs failed; the rows of the others are saved. {failed[0]}")
    return keys


def _identity(job: Job) -> Row:
    i = job.instance
    return {
        "instance": i.name, "collection": i.collection, "family": i.family, "split": i.split, "task": job.task.value,
        "solver": job.solver, "time_limit": job.time_limit, "memory_limit": job.memory_limit, "seed": job.seed,
        "code": code_version(),
    }  # fmt: skip


def _note_old_rows(store: RowStore) -> None:
    if old := store.num_by_name():
        log.info(
            "%s: %d rows identify their model by its name, as versions before 0.2 did. They are kept but not used.",
            store.path, old,
        )  # fmt: skip
