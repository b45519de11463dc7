"""The worker process: it reads jobs as JSON lines from stdin and writes one row per job.

Run as `python -m equifactor.evaluation.worker`. It ends when stdin ends or its parent process is gone. A row holds the
answer but not its score, which the caller computes. Before the first job of a solver a tiny model is solved, so that
kernels are loaded or compiled outside the measured time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from equifactor.base.clock import Clock
from equifactor.base.errors import EquifactorError
from equifactor.base.status import Task
from equifactor.evaluation.contents import content_of
from equifactor.evaluation.jobs import Job
from equifactor.solving.plugins import load_plugins

CHANGED = "changed"  # The status of a row whose model file has changed since the job was made; it is never saved.


def run_job(job: Job) -> dict[str, Any]:
    """Read the model and solve it. An error becomes a row with the status `error` or `out-of-memory`."""
    row: dict[str, Any] = {"status": "error", "message": "", "seconds": None, "answered": False}
    try:
        load_plugins(job.plugins)
        start = time.perf_counter()
        graph = job.instance.graph()
        row["read_seconds"] = round(time.perf_counter() - start, 4)
        if job.content and content_of(job.instance) != job.content:
            return row | {"status": CHANGED, "message": "the model file changed while the command ran. Run it again."}
        row |= _solved(job, graph)
    except MemoryError:
        row |= {"status": "out-of-memory", "message": "The model does not fit into the memory limit."}
    except EquifactorError as error:
        row["message"] = str(error)
    except Exception as error:  # a bug in a solver becomes a row and does not end the evaluation
        row["message"] = f"{type(error).__name__}: {error}"
    return row


def _solved(job: Job, graph: Any) -> dict[str, Any]:
    from equifactor.evaluation.measures import facts
    from equifactor.questions.solve import solve

    query = job.instance.query(graph) if job.task is Task.MMAP else None
    begin = time.process_time()
    result = solve(graph, job.task, job.solver, query=query, time_limit=job.time_limit, seed=job.seed)
    return {
        "status": result.status.value,
        "message": result.message or result.status.advice,
        "seconds": round(result.seconds, 4),
        "cpu_seconds": round(time.process_time() - begin, 4),
        "compile_seconds": result.stats.get("compile_seconds", 0.0),
        "overrun": job.overrun(result.seconds),
        "iterations": result.iterations,
        "answered": result.answered,
        "chosen": result.stats.get("chosen"),
        **facts(result, query),
    }


def warm_up(solver: str, task: str) -> None:
    """Solve tiny models, so that kernels are compiled before the time is measured."""
    from equifactor.generators import ising_grid, random_graph
    from equifactor.questions.solve import solve
    from equifactor.solving.registry import parse_solver

    methods = [parse_solver(solver)]
    if "memory_limit" in {f.name for f in dataclasses.fields(methods[0])}:
        # Without memory the solver also runs the methods that it uses if exact inference does not fit.
        methods.append(dataclasses.replace(methods[0], **{"memory_limit": 0.0}))
    # 2^16 joint states are more than `auto` enumerates, so its planning and its other methods are compiled too.
    graphs = [ising_grid(4, 4, seed=0), random_graph(5, 7, arity=(1, 3), card=(2, 3), zeros=0.2, seed=0)]
    with Clock.compiling_is_free():
        for method, graph in itertools.product(methods, graphs):
            query = [0, 3] if task == Task.MMAP else None
            try:
                solve(graph, task, method, query=query, time_limit=1.0)
            except Exception:  # the job itself will report the error
                return


def main() -> None:
    """Read and answer jobs until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output that a library prints must not mix with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    warm: set[tuple[str, str]] = set()
    for line in sys.stdin:
        job = Job.from_dict(json.loads(line))
        _limit_memory(job.memory_limit)
        if (job.solver, job.task) not in warm:
            with contextlib.suppress(EquifactorError):  # the job itself will report the error
                load_plugins(job.plugins)
                warm_up(job.solver, job.task)
            warm.add((job.solver, job.task))
        answers.write(json.dumps(run_job(job)) + "\n")
        answers.flush()


def _limit_memory(gib: float) -> None:
    """Make allocations beyond the limit raise MemoryError (on Linux only)."""
    if sys.platform == "linux":
        import resource

        # RLIMIT_DATA counts writable memory; RLIMIT_AS would also count address space that libraries only reserve.
        # The hard limit is not changed, so that the next job may have a higher limit.
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = int(gib * 2**30) if gib > 0 else resource.RLIM_INFINITY
        capped = hard if wanted == resource.RLIM_INFINITY else wanted
        resource.setrlimit(
            resource.RLIMIT_DATA, (capped if hard == resource.RLIM_INFINITY else min(capped, hard), hard)
        )


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main()
