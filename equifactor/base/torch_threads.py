"""The number of threads of torch in a run on a CPU.

The threads of torch wait for each other after every operation. If other programs use the cores, each wait lasts until
the system runs the missing thread again. For example, 16 steps of `fe-net` on a 60 x 60 grid, on two cores with 12
other busy processes, take 25 to 51 s with two threads and 6 to 7 s with one. A run cannot look at its clock during an
operation.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from equifactor.base.clock import Clock
from equifactor.base.cores import THREADS, num_threads


@contextlib.contextmanager
def torch_threads(clock: Clock, device: str, threads: int | None) -> Iterator[None]:
    """Let torch use the stated number of threads, if the device is a CPU.

    If neither the call nor the environment states a number and the clock has a deadline, there are no more threads than
    free cores. Without a deadline torch keeps its number: answers depend on it in their last digits.
    """
    import torch

    before = wanted = torch.get_num_threads()
    if threads is not None or os.environ.get(THREADS):
        wanted = num_threads(threads)
    elif clock.left < float("inf"):
        wanted = min(before, max(1, _num_free_cores()))
    if device != "cpu" or wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _num_free_cores() -> int:
    """Return the number of cores that no other program uses now; 1 if the system does not tell."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        others = os.getloadavg()[0]  # the mean of the last minute
    except (AttributeError, OSError):
        return 1
    # On Linux the fourth word begins with the number of running threads.
    with contextlib.suppress(OSError, ValueError, IndexError):
        others = max(others, int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)
    return int(cores - others)
