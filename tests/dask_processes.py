"""A Dask scheduler and its workers as separate processes, which tests start and kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


class Dask:
    """A scheduler and workers as separate processes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.folder = folder
        self.program: tuple[str, ...] = ("-m", "dask")
        self.processes: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        # Output to a file: a pipe that nobody reads would fill up.
        with (self.folder / "dask.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *self.program, *words], stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        self.processes.append(process)
        return process

    def scheduler(self) -> subprocess.Popen[bytes]:
        return self.start(
            "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard",
            "--scheduler-file", str(self.file),
        )  # fmt: skip

    def worker(self, name: str) -> subprocess.Popen[bytes]:
        return self.start(
            "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name,
            "--death-timeout", "600",
        )  # fmt: skip

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until(done: Callable[[], bool], seconds: float = 600.0) -> None:
    """Wait until a condition holds; fail an assertion if it takes too long."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
