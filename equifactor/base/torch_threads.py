"""The number of threads of torch in a run with a time limit.

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


@contextlib.contextmanager
def only_free_cores(clock: Clock, device: str) -> Iterator[None]:
    """Let torch use no more threads than there are free cores, if the clock has a deadline and the device is a CPU."""
    import torch

    before = torch.get_num_threads()
    wanted = min(before, max(1, _num_free_cores()))
    if device != "cpu" or clock.left == float("inf") or wanted == before:
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
