"""The runner of all experiments: runs one after the other or side by side, each kept as soon as it is finished."""

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
        cluster: address of a Dask scheduler, or its file, in place of processes here; its workers share the folder.
    """

    device: str = "cpu"
    processes: int = 1
    until: float | None = None
    redo: bool = False
    progress: Progress | None = None
    cluster: str | None = None

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

    late: list[int] = []

    def starts() -> Iterator[_Start]:
        """Taken as there is room for them, so that the time limit is looked at when a run would begin."""
        for n in todo:
            if effort.is_over():
                late.append(n)
            else:
                yield _Start(n, runs[n], store.folder, effort.device, effort.until)

    with _fleet(effort) as fleet, contextlib.closing(fleet.outcomes(_performed, starts())) as outcomes:
        for start, outcome in outcomes:
            end(start.number, outcome)
    trouble += [f"{runs[n].key}: not reached within the time limit" for n in late]
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


@dataclass(frozen=True)
class _Start:
    """One run on its way to whoever performs it."""

    number: int
    run: ExperimentRun
    folder: Path
    device: str
    until: float | None


def _performed(start: _Start) -> Row:
    return start.run.perform(start.folder, start.device, start.until)


@contextlib.contextmanager
def _fleet(effort: Effort) -> Iterator[Fleet]:
    """Where the runs go: one after the other in this process, several at a time beside it, or to a cluster.

    Runs are Python objects that train networks, so that they go to an executor. The workers of `equifactor.evaluation`
    take texts instead: each has a limit on memory and can be killed at its deadline, which an executor cannot offer.
    """
    if effort.cluster or effort.processes == 1:
        with fleet_at(effort.cluster) as fleet:
            yield fleet
        return
    # The processes are started afresh, since a forked one cannot use a GPU that its parent has touched.
    with ProcessPoolExecutor(effort.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield LocalFleet(pool, effort.processes)


def device_name(device: str) -> str:
    """The name of the chip, for the results."""
    if not device.startswith("cuda"):
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name())
