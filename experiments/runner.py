"""The runner of all experiments. It performs runs one by one or in parallel, and stores each run when it ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from equifactor import EquifactorError
from equifactor.solving.solver import Progress
from equifactor.workers.fleet import Fleet, LocalFleet, fleet_at
from experiments.run_store import Row, RunStore

_FAILURES = (EquifactorError, ValueError, RuntimeError)  # Torch raises RuntimeError for most of its failures.


class ExperimentRun(Protocol):
    """One training or measurement, which returns a row of plain values."""

    @property
    def key(self) -> str:
        """The name under which its row is stored."""
        ...

    def made(self, row: Row, folder: Path) -> bool:
        """Return whether a stored row was made with the settings of this run."""
        ...

    def perform(self, folder: Path, device: str, until: float | None) -> Row:
        """Perform the run; a row with `finished` False ran out of time and is not stored."""
        ...


@dataclass(frozen=True)
class Effort:
    """The resources that a call of the program may use. They do not change results.

    Attributes:
        device: device of training; everything else runs on the CPU.
        processes: number of parallel runs.
        until: `time.time()` after which no run is started; None for no limit.
        redo: whether runs made with other settings or other code are repeated.
        progress: called as `(done, total, note)`.
        cluster: address or file of a Dask scheduler to use in place of local processes; its workers share the folder.
    """

    device: str = "cpu"
    processes: int = 1
    until: float | None = None
    redo: bool = False
    progress: Progress | None = None
    cluster: str | None = None

    def is_over(self) -> bool:
        """Return whether the time is over, so that no further run may be started."""
        return self.until is not None and time.time() > self.until


def run_all(runs: Sequence[ExperimentRun], store: RunStore, effort: Effort) -> tuple[list[Row], list[str]]:
    """Return the rows of all finished runs, in order, and one sentence for each run that failed or is not finished.

    A stored run is not repeated. A stored run with other settings is a failure, unless `effort.redo` is set. A failed
    run does not stop the other runs.
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
                trouble.append(f"{runs[n].key}: the time limit stopped the run in epoch {row['epochs']}")
        if effort.progress:
            effort.progress(len(rows), len(runs), runs[n].key)

    late: list[int] = []

    def starts() -> Iterator[_Start]:
        """Yield runs on demand, so that the time limit is checked when a run would start."""
        for n in todo:
            if effort.is_over():
                late.append(n)
            else:
                yield _Start(n, runs[n], store.folder, effort.device, effort.until)

    with _fleet(effort) as fleet, contextlib.closing(fleet.outcomes(_performed, starts())) as outcomes:
        for start, outcome in outcomes:
            end(start.number, outcome)
    trouble += [f"{runs[n].key}: the run was not started within the time limit" for n in late]
    return [rows[n] for n in sorted(rows)], trouble


def finished_row(run: ExperimentRun, store: RunStore) -> Row | None:
    """Return the row of a finished run, or None if there is no row with the settings of the run."""
    row = store.get(run.key)
    return row if row is not None and run.made(row, store.folder) else None


def outdated(run: ExperimentRun, store: RunStore) -> str:
    """Return the sentence about a stored run with other settings."""
    return (
        f"{run.key}: the run in {store.folder} was made with other settings (--quick, or the experiment has changed). "
        "Choose another --out, or pass --redo to repeat it"
    )


@dataclass(frozen=True)
class _Start:
    """One run with everything that a worker needs to perform it."""

    number: int
    run: ExperimentRun
    folder: Path
    device: str
    until: float | None


def _performed(start: _Start) -> Row:
    return start.run.perform(start.folder, start.device, start.until)


@contextlib.contextmanager
def _fleet(effort: Effort) -> Iterator[Fleet]:
    """Yield the fleet of the runs: this process alone, several local processes, or a cluster.

    Runs are Python objects that train networks, so an executor performs them. The workers of `equifactor.evaluation`
    take texts instead. Each of those workers has a memory limit and can be killed at its deadline; an executor can do
    neither.
    """
    if effort.cluster or effort.processes == 1:
        with fleet_at(effort.cluster) as fleet:
            yield fleet
        return
    # Processes are spawned, because a forked process cannot use a GPU that its parent has used.
    with ProcessPoolExecutor(effort.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield LocalFleet(pool, effort.processes)


def device_name(device: str) -> str:
    """Return the name of the chip, for the results."""
    if not device.startswith("cuda"):
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name())
