"""Check that every solver keeps its time limit on the public models.

A limit is kept if the answer comes after at most 1.1 times the limit plus one second. `auto` runs on every model. Every
other solver runs on the largest models by each measure (variables, factors, edges, table entries, largest table, arity,
cardinality) and on the largest of each family. Each run is in a worker process with its kernels loaded. Reading the
model does not count, as in `solve`. The exit status is 1 if a limit was exceeded or a run crashed.

    EQUIFACTOR_DATA=models python -m benchmarks.deadlines                 # about half an hour, see docs/data.md
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --all --jobs 8  # every solver on every model: many hours
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --solvers exact "bp(schedule=residual)" --limit 0.2
"""

from __future__ import annotations

import argparse
import os
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

_EVERYWHERE = "auto"  # the solver that runs on every model
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
    """Return the `count` largest instances by each measure, and the one with most table entries of each family."""
    measured = {i.key: sizes(i) for i in instances}
    chosen: dict[str, Instance] = {}
    for measure in next(iter(measured.values()), {}):
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
        for task in method.possible_tasks():  # a network may have weights for one of them
            found += make_jobs(instances if method.name == _EVERYWHERE else few, task, [solver], limit)
    return found


def report(rows: Sequence[tuple[Job, dict[str, Any]]], limit: float) -> Iterator[str]:
    """Return one line per solver and task (the longest run, the number of broken limits), then a line per bad run.

    `exact`, `brute` and `toulbar2` may have no answer at the limit; all other solvers must have one.
    """
    yield f"{'solver':32} {'task':4} {'runs':>5} {'at limit':>8} {'answered':>8} {'longest':>9} {'late':>5}  slowest on"
    for solver, task in dict.fromkeys((job.solver, job.task) for job, _ in rows):
        own = [(job, row) for job, row in rows if (job.solver, job.task) == (solver, task)]
        job, slowest = max(own, key=lambda pair: pair[1]["seconds"] or 0.0)
        yield (
            f"{solver[:32]:32} {task:4} {len(own):5} {sum(r['status'] == 'time-limit' for _, r in own):8} "
            f"{sum(r['answered'] for _, r in own):8} {slowest['seconds'] or 0.0:7.2f} s "
            f"{sum(broken(r) for _, r in own):5}  {job.instance.key}"
        )
    for job, row in rows:
        if broken(row):
            yield f"LATE: {job.instance.key} {job.task} {job.solver}: {row['seconds']} s of {limit:g}, {row['status']}"
        elif row["status"] in _FAILURES:
            yield f"FAILED: {job.instance.key} {job.task} {job.solver}: {row['status']}: {row['message']}"
        elif row["status"] == "time-limit" and not row["answered"]:
            yield f"no answer at the limit: {job.instance.key} {job.task} {job.solver}"


def broken(row: dict[str, Any]) -> bool:
    """Return whether a run exceeded its limit."""
    return (row.get("overrun") or 0.0) > 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=1.0, help="time limit in seconds (default 1)")
    parser.add_argument("--solvers", nargs="+", metavar="SPEC", help="default: every registered solver")
    parser.add_argument("--largest", type=int, default=2, help="models by each measure of size (default 2)")
    parser.add_argument("--all", action="store_true", help="every solver on every model")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once; each needs a core of its own (default 1)")
    args = parser.parse_args()
    try:
        instances = collection()
    except EquifactorError as error:
        print(f"nothing to measure: {error}")
        return 0
    todo = jobs(instances, args.solvers or solver_names(), args.limit, args.all, args.largest)
    rows = []
    for job, row in run_jobs(todo, args.jobs):
        rows.append((job, row))
        if sys.stderr.isatty():
            print(f"\r{len(rows)}/{len(todo)} {job.solver} {job.task} {job.instance.key:40}", end="", file=sys.stderr)
    print("\n".join(report(rows, args.limit)))
    return int(any(broken(row) or row["status"] in _FAILURES for _, row in rows))


if __name__ == "__main__":
    os.environ.update(environment())
    sys.exit(main())
