"""Worker processes with one thread each and hard limits on time and memory; one that dies is started again."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from equifactor.evaluation.jobs import Job

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_GRACE = 120.0  # seconds for reading and for compiling kernels, added to the time limit before a worker is killed


class Worker:
    """One process that answers jobs in turn; `run` starts it, and starts it again after it died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.complaints: IO[bytes] | None = None  # what the process says on stderr

    def run(self, job: Job) -> dict[str, Any]:
        """The row of one job; there is one whatever happens to the process."""
        process = self._alive()
        start = time.perf_counter()
        killed = threading.Event()
        limit = None if job.time_limit is None else 2 * job.time_limit + _GRACE

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
        """End the process now."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout, self.complaints):
                _close(pipe)
            self.process = self.complaints = None

    def _alive(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            self.stop()
            self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
            self.process = subprocess.Popen(
                [sys.executable, "-m", "equifactor.evaluation.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.complaints,
                text=True,
                encoding="utf-8",
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
            )
        return self.process

    def _dead(self, process: subprocess.Popen[str], killed: bool, seconds: float, job: Job) -> dict[str, Any]:
        process.kill()
        code = process.wait()
        last = self._last_words()
        self.stop()
        if killed:
            status, message = "killed", f"no answer after {seconds:.0f} s; the process was ended"
        else:
            status, message = "crashed", f"the process died with exit status {code}: {last}"
        spent = {"seconds": round(seconds, 3), "overrun": job.overrun(seconds)}
        return {"status": status, "message": message, **spent, "answered": False}

    def _last_words(self) -> str:
        """The last line on stderr, which is the exception where there was one."""
        if self.complaints is None:
            return ""
        self.complaints.seek(0)
        lines = self.complaints.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else "perhaps for want of memory"


def run_jobs(jobs: Sequence[Job], processes: int = 1) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield each job with its row as it is finished, in no particular order; leaving the loop ends the processes."""
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        todo.put(job)
    done: queue.SimpleQueue[tuple[Job, dict[str, Any]] | Exception] = queue.SimpleQueue()
    workers = [Worker() for _ in range(min(processes, len(jobs)))]
    stopping = threading.Event()

    def serve(worker: Worker) -> None:
        try:
            while not stopping.is_set():
                job = todo.get_nowait()
                row = worker.run(job)
                if not stopping.is_set():
                    done.put((job, row))
        except queue.Empty:
            pass
        except Exception as error:  # handed to the caller's thread
            done.put(error)
        finally:
            worker.stop()

    threads = [threading.Thread(target=serve, args=(w,), daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            item = done.get()
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        stopping.set()
        for worker in workers:
            process = worker.process
            if process is not None and process.poll() is None:
                process.kill()
        for thread in threads:
            thread.join(timeout=10.0)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # both were asked for
    return pipe


def _close(pipe: IO[Any] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:
        pass  # what was not written is of no use any more
