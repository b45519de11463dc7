"""The runner of all experiments: runs one after the other or side by side, each kept as soon as it is finished."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from equifactor import EquifactorError
from equifactor.solver import Progress
from experiments.run_store import Row, RunStore

_FAILURES = (EquifactorError, ValueError, RuntimeError)  # torch raises RuntimeError for most of its failures


class ExperimentRun(Protocol):
    """One training or measurement; what it gives is a row of plain values."""

    @property
    def key(self) -> str:
        """Name under which its row is kept."""
        ...

    def made(self, row: Row, folder: Path) -> bool:
        """Whether a row kept under the key was made with the settings of this run."""
        ...

    def perform(self, folder: Path, device: str, until: float | None) -> Row:
        """Do it; a row with `finished` False was cut by the time limit and is not kept."""
        ...


@dataclass(frozen=True)
class Effort:
    """What a call of the program may use; none of it changes a result.

    Attributes:
        device: device of training; all else runs on the CPU.
        processes: how many runs go on side by side.
        until: `time.time()` after which no run is started; None for no limit.
        redo: whether runs made with other settings, or by other code, are done anew.
        progress: called as `(done, total, note)`.
    """

    device: str = "cpu"
    processes: int = 1
    until: float | None = None
    redo: bool = False
    progress: Progress | None = None

    def is_over(self) -> bool:
        """No further run may be started."""
        return self.until is not None and time.time() > self.until


def run_all(runs: Sequence[ExperimentRun], store: RunStore, effort: Effort) -> tuple[list[Row], list[str]]:
    """Rows of all finished runs, in order, and a sentence for each that failed or is not finished.

    A run that the store holds is not run again; one that it holds with other settings is a failure, unless it is to be
    done anew. A failed run is named and the others go on.
    """
    rows: dict[int, Row] = {}
    trouble: list[str] = []
    todo: list[int] = []
    for n, run in enumerate(runs):
        row = finished_row(run, store)
        if row is not None:
            rows[n] = row
        elif store.get(run.key) is not None and not effort.redo:
            trouble.append(outdated(run, store))
        else:
            todo.append(n)

    def end(n: int, result: Callable[[], Row]) -> None:
        try:
            row = result()
        except _FAILURES as error:
            trouble.append(f"{runs[n].key}: {error}")
        else:
            if row.get("finished", True):
                store.add(runs[n].key, row)
                rows[n] = row
            else:
                trouble.append(f"{runs[n].key}: stopped in epoch {row['epochs']} by the time limit")
        if effort.progress:
            effort.progress(len(rows), len(runs), runs[n].key)

    start = _run_here if effort.processes == 1 else _run_beside
    trouble += [f"{runs[n].key}: not reached within the time limit" for n in start(runs, todo, store, effort, end)]
    return [rows[n] for n in sorted(rows)], trouble


def finished_row(run: ExperimentRun, store: RunStore) -> Row | None:
    """The row of a finished run; None where there is none, or one that was made with other settings."""
    row = store.get(run.key)
    return row if row is not None and run.made(row, store.folder) else None


def outdated(run: ExperimentRun, store: RunStore) -> str:
    """What is said about a run that the store holds with other settings."""
    return (
        f"{run.key}: the run in {store.folder} was made with other settings (--quick, or the experiment has changed): "
        "choose another --out, or --redo to run it anew"
    )


_End = Callable[[int, Callable[[], Row]], None]


def _run_here(
    runs: Sequence[ExperimentRun], todo: Sequence[int], store: RunStore, effort: Effort, end: _End
) -> list[int]:
    """One after the other in this process; returns the numbers of those that were not started in time."""
    for place, n in enumerate(todo):
        if effort.is_over():
            return list(todo[place:])
        end(n, functools.partial(runs[n].perform, store.folder, effort.device, effort.until))
    return []


def _run_beside(
    runs: Sequence[ExperimentRun], todo: Sequence[int], store: RunStore, effort: Effort, end: _End
) -> list[int]:
    """Several at a time; returns the numbers of those that were not started in time.

    Runs are Python objects that train networks, so that they go to an executor. The workers of `equifactor.evaluation`
    take texts instead: each has a limit on memory and can be killed at its deadline, which an executor cannot offer.
    """
    waiting = list(todo)
    late: list[int] = []
    # The processes are started afresh, since a forked one cannot use a GPU that its parent has touched.
    with ProcessPoolExecutor(effort.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        busy: dict[Future[Row], int] = {}
        while waiting or busy:
            while waiting and len(busy) < effort.processes:
                n = waiting.pop(0)
                if effort.is_over():
                    late.append(n)
                else:
                    busy[pool.submit(runs[n].perform, store.folder, effort.device, effort.until)] = n
            for future in wait(busy, return_when=FIRST_COMPLETED)[0] if busy else ():
                end(busy.pop(future), future.result)
    return late


def device_name(device: str) -> str:
    """The name of the chip, for the results."""
    if not device.startswith("cuda"):
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name())
