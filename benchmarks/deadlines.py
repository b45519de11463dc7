"""Check that every solver keeps its time limits on the public models, on an idle or on a busy machine.

A limit is kept if the answer comes after at most 1.1 times the limit plus one second. `auto` runs on every model. Every
other solver runs on the largest model of each family, and on the largest models by each measure of size (variables,
factors, edges, table entries, largest table, arity, cardinality). With `--largest 0`, all solvers run on the largest
model of each family only. Each run is in a worker process with its kernels loaded. Reading the model does not count, as
in `solve`. The table has wall time and the CPU time of the same run: a late run with little CPU time waited for the
machine. The exit status is 1 if a limit was exceeded or a run crashed.

    EQUIFACTOR_DATA=models python -m benchmarks.deadlines                 # about two hours, see docs/data.md
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --all --jobs 8  # every solver on every model: many hours
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --largest 0 --busy 8  # beside eight busy loops
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --solvers exact "bp(schedule=residual)" --limits 0.2
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks._venvs import environment
from equifactor.base.errors import EquifactorError
from equifactor.data import Instance, collection
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.worker_pool import run_jobs
from equifactor.solving.registry import parse_solver, solver_names

_EVERYWHERE = "auto"  # The solver that runs on every model.
_FAILURES = ("error", "crashed", "killed", "out-of-memory")


def sizes(instance: Instance) -> dict[str, int]:
    """Return the measures of size of a model after its evidence is applied."""
    graph = instance.graph()
    s = graph.structure
    return {
        "variables": len(graph.free_vars),
        "factors": s.num_factors,
        "edges": s.num_edges,
        "table entries": s.num_entries,
        "largest table": int(np.diff(s.table_ptr).max(initial=0)),
        "arity": int(s.arity.max(initial=0)),
        "cardinality": int(s.card.max(initial=0)),
    }


def largest(instances: Sequence[Instance], count: int) -> list[Instance]:
    """Return the `count` largest instances by each measure, and the instance of each family with most table entries."""
    measured = {i.key: sizes(i) for i in instances}
    chosen: dict[str, Instance] = {}
    for measure in next(iter(measured.values()), {}) if count else ():
        ranked = sorted(instances, key=lambda i: -measured[i.key][measure])
        chosen |= {i.key: i for i in ranked[:count]}
    for family in dict.fromkeys(i.family for i in instances):
        members = [i for i in instances if i.family == family]
        biggest = max(members, key=lambda i: measured[i.key]["table entries"])
        chosen[biggest.key] = biggest
    return list(chosen.values())


def jobs(
    instances: Sequence[Instance], solvers: Sequence[str], limit: float, everything: bool, count: int
) -> list[Job]:
    """Return all runs: every task of every solver. Runs are sorted, so that kernels are loaded once."""
    few = instances if everything else largest(instances, count)
    found: list[Job] = []
    for solver in solvers:
        method = parse_solver(solver)
        if method.missing():
            print(f"{solver} is skipped: {method.missing()}")
            continue
        for task in method.possible_tasks():  # A network may have weights for one task only.
            found += make_jobs(instances if method.name == _EVERYWHERE and count else few, task, [solver], limit)
    return found


def report(rows: Sequence[tuple[Job, dict[str, Any]]], limit: float) -> Iterator[str]:
    """Yield one line per solver and task (the longest run, the number of broken limits), then a line per bad run.

    `exact`, `brute` and `toulbar2` may have no answer at the limit; all other solvers must have an answer.
    """
    yield f"limit {limit:g} s"
    yield (
        f"{'solver':32} {'task':4} {'runs':>5} {'at limit':>8} {'answered':>8} {'longest':>9} {'its CPU':>9} "
        f"{'late':>5}  slowest on"
    )
    for solver, task in dict.fromkeys((job.solver, job.task) for job, _ in rows):
        own = [(job, row) for job, row in rows if (job.solver, job.task) == (solver, task)]
        job, slowest = max(own, key=lambda pair: pair[1]["seconds"] or 0.0)
        yield (
            f"{solver[:32]:32} {task:4} {len(own):5} {sum(r['status'] == 'time-limit' for _, r in own):8} "
            f"{sum(r['answered'] for _, r in own):8} {slowest['seconds'] or 0.0:7.2f} s "
            f"{slowest.get('cpu_seconds', 0.0):7.2f} s "
            f"{sum(broken(r) for _, r in own):5}  {job.instance.key}"
        )
    for job, row in rows:
        if broken(row):
            cpu, compiling = row.get("cpu_seconds", 0.0), row.get("compile_seconds", 0.0)
            yield (
                f"LATE: {job.instance.key} {job.task} {job.solver}: {row['seconds']} s of {limit:g}, {cpu} s CPU, "
                f"{compiling} s of compiling not counted, {row['status']}"
            )
        elif row["status"] in _FAILURES:
            yield f"FAILED: {job.instance.key} {job.task} {job.solver}: {row['status']}: {row['message']}"
        elif row["status"] == "time-limit" and not row["answered"]:
            yield f"no answer at the limit: {job.instance.key} {job.task} {job.solver}"


def broken(row: dict[str, Any]) -> bool:
    """Return whether a run exceeded its limit."""
    return (row.get("overrun") or 0.0) > 0.0


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Run `count` processes that only keep the machine busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--limits", type=float, nargs="+", default=[0.1, 1.0, 5.0], help="time limits in seconds (default 0.1 1 5)"
    )
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy loops beside the runs (default 0)")
    parser.add_argument("--solvers", nargs="+", metavar="SPEC", help="default: every registered solver")
    parser.add_argument("--largest", type=int, default=2, help="models by each measure of size (default 2)")
    parser.add_argument("--all", action="store_true", help="every solver on every model")
    parser.add_argument("--jobs", type=int, default=1, help="parallel runs; each needs its own core (default 1)")
    args = parser.parse_args()
    try:
        instances = collection()
    except EquifactorError as error:
        print(f"nothing to measure: {error}")
        return 0
    failed = False
    with busy_loops(args.busy):
        for limit in args.limits:
            todo = jobs(instances, args.solvers or solver_names(), limit, args.all, args.largest)
            rows = []
            for job, row in run_jobs(todo, args.jobs):
                rows.append((job, row))
                note = f"{limit:g} s {len(rows)}/{len(todo)} {job.solver} {job.task} {job.instance.key:40}"
                if sys.stderr.isatty():
                    print(f"\r{note}", end="", file=sys.stderr)
            print("\n".join(report(rows, limit)), flush=True)
            failed |= any(broken(row) or row["status"] in _FAILURES for _, row in rows)
    return int(failed)


if __name__ == "__main__":
    os.environ.update(environment())
    sys.exit(main())
