"""Runs side by side in processes of their own; a failed run is named and the others go on."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from equifactor.errors import EquifactorError
from experiments import runs as marginal_runs

Report = Callable[[int, int | None, str], None]
_TROUBLE = (EquifactorError, ValueError, RuntimeError)  # of one run; torch reports most of its own as RuntimeError


def perform_all(
    runs: Sequence[Any],
    folder: Path,
    device: str,
    jobs: int = 1,
    time_limit: float | None = None,
    report: Report | None = None,
    perform: Callable[[Any, Path, str], dict[str, Any]] = marginal_runs.perform,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of all finished runs, in order, and a sentence for each that failed or was not reached in time.

    A run has a `key` and a `file(folder)` that is there once it is finished; `perform(run, folder, device)` does it.
    """
    rows: dict[int, dict[str, Any]] = {}
    trouble: list[str] = []
    until = time.monotonic() + (time_limit if time_limit is not None else float("inf"))
    waiting = list(enumerate(runs))
    if jobs == 1:
        for n, run in waiting:
            if time.monotonic() > until and not run.file(folder).is_file():
                trouble.append(f"{run.key}: not reached within the time limit")
                continue
            try:
                rows[n] = perform(run, folder, device)
            except _TROUBLE as error:
                trouble.append(f"{run.key}: {error}")
            if report:
                report(len(rows), len(runs), run.key)
        return [rows[n] for n in sorted(rows)], trouble
    # Fresh processes: a forked one cannot use a GPU that its parent has touched.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        busy: dict[Future[dict[str, Any]], int] = {}
        while waiting or busy:
            while waiting and len(busy) < jobs:
                n, run = waiting.pop(0)
                if time.monotonic() > until and not run.file(folder).is_file():
                    trouble.append(f"{run.key}: not reached within the time limit")
                    continue
                busy[pool.submit(perform, run, folder, device)] = n
            for future in wait(busy, return_when=FIRST_COMPLETED)[0] if busy else ():
                n = busy.pop(future)
                try:
                    rows[n] = future.result()
                except _TROUBLE as error:
                    trouble.append(f"{runs[n].key}: {error}")
                if report:
                    report(len(rows), len(runs), runs[n].key)
    return [rows[n] for n in sorted(rows)], trouble
