"""Check that solvers keep their memory limits: how much a process grows while it solves, beside `memory_limit`.

Every solver that has a memory limit runs on large random models, for all of its tasks, with limits from 1 MiB to 1 GiB.
Each run is in a process of its own, with its kernels loaded and the model made. The growth is the largest resident size
during the run minus the size before it: tables, and also the compiled model, lists and answers, which no limit counts.
A row counts as too large if it grows by more than 1.5 times the limit, plus 30 MiB, plus four times the arrays of the
model.

    python -m benchmarks.memory
    python -m benchmarks.memory --solvers blocks mini-buckets --limits 1 16 --models grid --seconds 3

Time limits are in CPU seconds, so that other work on the machine does not matter. It needs Linux.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._venvs import environment
from benchmarks.io import peak_memory
from equifactor import generators
from equifactor.base.clock import Clock
from equifactor.evaluation.worker import warm_up
from equifactor.graph import FactorGraph
from equifactor.questions.solve import solve
from equifactor.solving.registry import parse_solver, solver_names

MIB = 2.0**20
_FIXED = 30.0  # MiB that every run may take beside its limit.
_SLACK = 1.5  # The share of the limit that it may take.
_COPIES = 4.0  # Times the arrays of the model: compiled, with messages and answers.

MODELS: dict[str, Callable[[], FactorGraph]] = {
    "grid": lambda: generators.ising_grid(100, 100, seed=0),
    "potts": lambda: generators.potts_grid(40, 40, states=10, seed=0),
    "pairs": lambda: generators.pairwise_field(300, topology="complete", seed=0),
    "formula": lambda: generators.random_ksat(3_000, 3.5, seed=0),
    "network": lambda: generators.random_network(2_000, parents=(0, 4), card=(2, 5), window=50, seed=0),
}


class Run(NamedTuple):
    """One solver, task, model and limit in MiB."""

    solver: str
    task: str
    model: str
    limit: float


def growth(run: Run, graph: FactorGraph, seconds: float) -> dict[str, Any]:
    """Return the MiB by which a forked process grows, and the status of the run."""
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        os.write(write_end, json.dumps(_grown(run, graph, seconds)).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    os.waitpid(process, 0)
    return dict(json.loads(text)) if text else {"mib": float("inf"), "status": "crashed"}


def _grown(run: Run, graph: FactorGraph, seconds: float) -> dict[str, Any]:
    Clock.now = staticmethod(time.process_time)
    Path("/proc/self/clear_refs").write_text("5")  # The peak begins with the present size.
    before = peak_memory()
    try:
        status = _solve(run, graph, seconds)
    except Exception as error:  # It becomes a row.
        status = f"{type(error).__name__}: {error}"[:80]
    return {"mib": (peak_memory() - before) / MIB, "status": status}


def _solve(run: Run, graph: FactorGraph, seconds: float) -> str:
    method = dataclasses.replace(parse_solver(run.solver), **{"memory_limit": run.limit / 1024})
    return solve(graph, run.task, method, time_limit=seconds).status.value


def allowed(run: Run, graph: FactorGraph) -> float:
    """Return the MiB by which a run may grow."""
    s = graph.structure
    arrays = 8.0 * (s.num_entries + 2 * s.num_edges + 2 * s.num_factors + len(s.card)) / MIB
    return _SLACK * run.limit + _FIXED + _COPIES * arrays


def all_runs(solvers: list[str], limits: list[float], models: list[str]) -> list[Run]:
    """Return all runs of the solvers that have a memory limit."""
    found = []
    for solver in solvers:
        method = parse_solver(solver)
        if method.missing() or "memory_limit" not in {f.name for f in dataclasses.fields(method)}:
            continue
        tasks = [task.value for task in method.possible_tasks()]
        found += [Run(solver, task, name, limit) for name in models for task in tasks for limit in limits]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solvers", nargs="+", default=solver_names(), metavar="SPEC", help="default: all")
    parser.add_argument("--limits", type=float, nargs="+", default=[1.0, 16.0, 256.0], help="MiB (default 1 16 256)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--seconds", type=float, default=5.0, help="time limit of a run (default 5)")
    args = parser.parse_args()
    graphs = {name: MODELS[name]() for name in args.models}
    todo = all_runs(args.solvers, args.limits, args.models)
    for run in dict.fromkeys(run._replace(model="") for run in todo):
        warm_up(run.solver, run.task)
        for small in (
            generators.ising_grid(14, 14, seed=0),
            generators.pairwise_field(40, topology="complete", seed=0),
        ):
            _solve(run, small, 1.0)
    print(f"{'solver':13} {'task':4} {'model':8} {'limit':>6} {'growth':>8} {'allowed':>8}  status")
    late = 0
    for run in todo:
        row, most = growth(run, graphs[run.model], args.seconds), allowed(run, graphs[run.model])
        late += row["mib"] > most
        mark = "LARGE" if row["mib"] > most else ""
        head = f"{run.solver:13} {run.task:4} {run.model:8} {run.limit:6g}"
        print(f"{head} {row['mib']:8.1f} {most:8.1f} {mark:5} {row['status']}", flush=True)
    print(f"{len(todo)} runs, {late} too large")
    return int(late > 0)


if __name__ == "__main__":
    os.environ.update(environment())
    sys.exit(main())
