"""Worker processes with one thread each and hard limits on time and memory. A process that dies is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from equifactor.base.cores import THREADS
from equifactor.base.errors import LostWorkError
from equifactor.evaluation.jobs import Job
from equifactor.workers.fleet import LocalFleet, fleet_at

LOST = "lost"  # The status of a row whose workers died; it is never saved.

# The environment variables that set the number of threads of numerical libraries.
_THREADS = (
    THREADS,
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
Runs = Generator[tuple[Job, dict[str, Any]], None, None]  # A generator that may be closed early.
_STOP = 10.0  # Seconds that the processes have to end. Chosen by hand.
# Seconds for reading the model and compiling kernels, added to twice the time limit before a worker is killed. Chosen
# by hand.
_GRACE = 120.0


class Worker:
    """One process that answers jobs one after the other; `run` starts it, and restarts it if it died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.stderr: IO[bytes] | None = None  # the stderr of the process

    def run(self, job: Job) -> dict[str, Any]:
        """Return the row of one job, even if the process dies."""
        process = self._alive()
        start = time.perf_counter()
        killed = threading.Event()
        limit = None if job.time_limit is None else min(2 * job.time_limit + _GRACE, threading.TIMEOUT_MAX)

        def kill() -> None:
            killed.set()
            process.kill()

        timer = threading.Timer(limit, kill) if limit is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            _pipe(process.stdin).write(json.dumps(job.to_dict()) + "\n")
            _pipe(process.stdin).flush()
            line = _pipe(process.stdout).readline()
        except (BrokenPipeError, OSError):
            line = ""
        finally:
            if timer is not None:
                timer.cancel()
        if line.endswith("\n"):
            return json.loads(line)
        return self._dead(process, killed.is_set(), time.perf_counter() - start, job)

    def stop(self) -> None:
        """Kill the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout, self.stderr):
                _close(pipe)
            self.process = self.stderr = None

    def _alive(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            self.stop()
            self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
            self.process = subprocess.Popen(
                [sys.executable, "-m", "equifactor.evaluation.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                text=True,
                encoding="utf-8",
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
            )
        return self.process

    def _dead(self, process: subprocess.Popen[str], killed: bool, seconds: float, job: Job) -> dict[str, Any]:
        process.kill()
        code = process.wait()
        last = self._last_line()
        self.stop()
        if killed:
            status, message = "killed", f"The process did not answer within {seconds:.0f} s and was killed."
        else:
            status, message = "crashed", f"The process died with exit status {code}: {last}"
        spent = {"seconds": round(seconds, 3), "overrun": job.overrun(seconds)}
        return {"status": status, "message": message, **spent, "answered": False}

    def _last_line(self) -> str:
        """Return the last line on stderr, which is the exception if there was one."""
        if self.stderr is None:
            return ""
        self.stderr.seek(0)
        lines = self.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else "perhaps it ran out of memory"


class WorkerPool:
    """Worker processes for several threads: `run` takes an idle process or starts a new one."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        self._stopped = False

    def run(self, job: Job) -> dict[str, Any]:
        """Return the row of one job; any thread may call it."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = Worker()
        self._busy.append(worker)
        try:
            return {} if self._stopped else worker.run(job)
        finally:
            self._busy.remove(worker)
            self._idle.append(worker)

    def stop(self) -> None:
        """Kill all processes; jobs that were running get no row."""
        self._stopped = True
        deadline = time.monotonic() + _STOP
        while self._busy and time.monotonic() < deadline:
            for worker in list(self._busy):  # repeatedly, since a thread may just have started a process
                if (process := worker.process) is not None:
                    process.kill()
            time.sleep(0.01)
        for worker in self._idle:
            worker.stop()


def run_jobs(jobs: Sequence[Job], processes: int = 1, cluster: str | None = None) -> Runs:
    """Yield each job with its row when it is finished, in any order. Leaving the loop ends the processes.

    Args:
        jobs: the jobs to run.
        processes: the number of processes on this machine.
        cluster: the address of a Dask scheduler, or its file, to use instead of processes on this machine.
    """
    if cluster:
        yield from _run_on_cluster(jobs, cluster)
        return
    pool, processes = WorkerPool(), min(processes, max(1, len(jobs)))
    with ThreadPoolExecutor(processes) as threads:
        fleet = LocalFleet(threads, 2 * processes)
        try:
            for job, outcome in fleet.outcomes(pool.run, jobs):
                yield job, outcome()
        finally:
            pool.stop()
            threads.shutdown(wait=False, cancel_futures=True)


def _run_on_cluster(jobs: Sequence[Job], cluster: str) -> Runs:
    from equifactor.evaluation.shipped_jobs import answer, ship

    by_key = {job.key(""): job for job in jobs}
    with fleet_at(cluster) as fleet, contextlib.closing(fleet.outcomes(answer, map(ship, jobs))) as outcomes:
        for shipped, outcome in outcomes:
            try:
                row = outcome()
            except LostWorkError as error:
                row = {"status": LOST, "message": str(error)}
            yield by_key[shipped.job.key("")], row


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # Popen was called with PIPE for both
    return pipe


def _close(pipe: IO[Any] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:
        pass  # data that was not written is no longer needed
