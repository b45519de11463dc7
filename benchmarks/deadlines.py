"""Check that every solver keeps its time limits on the public models and on large random ones.

A limit is kept if the answer comes after at most 1.1 times the limit plus one second. `auto` runs on every model. Every
other solver runs on the largest model of each family, and on the largest models by each measure of size (variables,
factors, edges, table entries, largest table, arity, cardinality). With `--largest 0`, all solvers run on the largest
model of each family only. Each run is in a process of its own with its kernels loaded. Making or reading the model does
not count, as in `solve`.

Limits are in CPU seconds: the clock of the package counts CPU time, so that other work on the machine does not matter.
With `--wall` they are in seconds as users see them. The table has both times of the same run: a late run with little
CPU time waited for the machine. The exit status is 1 if a limit was exceeded or a run crashed.

    EQUIFACTOR_DATA=models python -m benchmarks.deadlines                 # about two hours, see docs/data.md
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --all           # every solver on every model: many hours
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --largest 0 --wall --busy 8  # beside eight busy loops
    python -m benchmarks.deadlines --random chain formula --limits 1      # a chain of 10^6 variables, 656,000 clauses
    EQUIFACTOR_DATA=models python -m benchmarks.deadlines --solvers exact "bp(schedule=residual)" --limits 0.2
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from benchmarks._venvs import environment
from equifactor import generators
from equifactor.base.clock import Clock
from equifactor.base.cores import THREADS
from equifactor.base.errors import EquifactorError
from equifactor.data import Instance, collection
from equifactor.evaluation.worker import warm_up
from equifactor.graph import FactorGraph
from equifactor.questions.sample import sample
from equifactor.questions.solve import solve
from equifactor.solving.registry import parse_solver, solver_names

_EVERYWHERE = "auto"  # The solver that runs on every model.
_FAILURES = ("error", "crashed", "out-of-memory")
_MEMORY = 8.0  # GiB that a run may use.
_PATIENCE = 300  # Seconds after which a run is killed, beside 30 times its limit.

# Large models: each is the worst case of some loop.
RANDOM: dict[str, Callable[[], FactorGraph]] = {
    "chain": lambda: generators.ising_grid(1, 1_000_000, seed=0),
    "formula": lambda: generators.random_ksat(160_000, 4.1, seed=0),
    "grid": lambda: generators.ising_grid(400, 400, seed=0),
    "potts": lambda: generators.potts_grid(200, 200, states=20, seed=0),
    "states": lambda: generators.potts_grid(40, 40, states=60, seed=0),
    "pairs": lambda: generators.pairwise_field(1000, topology="complete", seed=0),
    "diagnosis": lambda: generators.noisy_or_network(20_000, 20_000, observed=0.3, seed=0),
    "network": lambda: generators.random_network(20_000, parents=(0, 4), card=(2, 5), window=50, seed=0),
    "pedigree": lambda: generators.pedigree(3_000, loci=10, seed=0),
    "code": lambda: generators.ldpc(96_000, 48_000, seed=0),
}


def _rows(graph: FactorGraph, limit: float, seed: int) -> Any:
    """Ask for the marginals under 50 rows of evidence on the first two variables that are free."""
    first, second = graph.free_vars[:2].tolist()
    rows = [{first: n % 2, second: n // 2 % 2} for n in range(50)]
    found = solve(graph, evidence=rows, time_limit=limit, seed=seed)
    return SimpleNamespace(status=found.statuses[0])  # A dictionary of marginals would take longer than the limit.


# Questions beside those that name a solver, by their text in the column of solvers.
QUESTIONS: dict[str, Callable[[FactorGraph, float, int], Any]] = {
    "sample": lambda graph, limit, seed: sample(graph, 1000, time_limit=limit, seed=seed),
    "sample, blocks": lambda graph, limit, seed: sample(graph, 1000, solver="blocks", time_limit=limit, seed=seed),
    "20 graphs": lambda graph, limit, seed: solve([graph] * 20, time_limit=limit, seed=seed)[0],
    "50 rows": _rows,
}


class Run(NamedTuple):
    """One model, one solver or question, one task."""

    model: str
    solver: str
    task: str


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


def runs(everything: Sequence[str], few: Sequence[str], solvers: Sequence[str]) -> list[Run]:
    """Return all runs, model after model, so that each is read once."""
    asked: list[tuple[str, list[str]]] = []
    for solver in solvers:
        if solver in QUESTIONS:
            asked.append((solver, ["MAR"]))
            continue
        method = parse_solver(solver)
        if method.missing():
            print(f"{solver} is skipped: {method.missing()}")
            continue
        asked.append((solver, [task.value for task in method.possible_tasks()]))  # a network may do one task only
    return [
        Run(model, solver, task)
        for model in everything
        for solver, tasks in asked
        for task in tasks
        if model in few or solver.partition("(")[0] == _EVERYWHERE
    ]


def measured(run: Run, graph: FactorGraph, limit: float, seed: int, wall: bool) -> dict[str, Any]:
    """Return the row of one run in a forked process, whose clock counts CPU time unless `wall`."""
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        signal.alarm(_PATIENCE + int(30 * limit))
        resource.setrlimit(resource.RLIMIT_DATA, (int(_MEMORY * 2**30), -1))
        row = _answer(run, graph, limit, seed, wall)
        os.write(write_end, json.dumps(row).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if text:
        return dict(json.loads(text))
    return {"status": "crashed", "answered": False, "seconds": 0.0, "cpu": 0.0, "message": f"exit status {code}"}


def _answer(run: Run, graph: FactorGraph, limit: float, seed: int, wall: bool) -> dict[str, Any]:
    """Return the row of one run in this process."""
    task = None if run.solver in QUESTIONS else run.task
    if not wall:
        os.environ[THREADS] = "1"
        Clock.now = staticmethod(time.process_time)
    begin, cpu = time.perf_counter(), time.process_time()
    row = {"status": "error", "answered": False, "message": ""}
    try:
        if task is None:
            result = QUESTIONS[run.solver](graph, limit, seed)
            row["answered"] = True
        else:
            result = solve(graph, task, run.solver, time_limit=limit, seed=seed)
            row["answered"] = result.answered
        row |= {"status": result.status.value, "message": getattr(result, "message", "")}
    except MemoryError:
        row["status"] = "out-of-memory"
    except Exception as error:  # a bug in a solver becomes a row
        row["message"] = f"{type(error).__name__}: {error}"[:300]
    return row | {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}


def report(rows: Sequence[tuple[Run, Mapping[str, Any]]], limit: float, wall: bool) -> Iterator[str]:
    """Yield one line per solver and task, with the longest run and the number of broken limits, then the sums."""
    clock = "seconds" if wall else "cpu"
    yield f"limit {limit:g} {'s' if wall else 's of CPU'}, load {os.getloadavg()[0]:.0f}"
    yield (
        f"{'solver':32} {'task':4} {'runs':>5} {'at limit':>8} {'answered':>8} {'longest':>9} {'its CPU':>9} "
        f"{'late':>5}  slowest on"
    )
    for solver, task in dict.fromkeys((run.solver, run.task) for run, _ in rows):
        own = [(run, row) for run, row in rows if (run.solver, run.task) == (solver, task)]
        run, slowest = max(own, key=lambda pair: float(pair[1][clock]))
        yield (
            f"{solver[:32]:32} {task:4} {len(own):5} {sum(r['status'] == 'time-limit' for _, r in own):8} "
            f"{sum(r['answered'] for _, r in own):8} {slowest['seconds']:7.2f} s {slowest['cpu']:7.2f} s "
            f"{sum(is_late(r[clock], limit) for _, r in own):5}  {run.model}"
        )
    count = [sum(is_late(row[name], limit) for _, row in rows) for name in ("seconds", "cpu")]
    yield f"{len(rows)} runs, {count[0]} late by wall time, {count[1]} late by CPU time"


def problem(run: Run, row: Mapping[str, Any], limit: float, wall: bool) -> str:
    """Return a line about a run that is late, failed or has no answer; empty for other runs.

    `exact`, `brute` and `toulbar2` may have no answer at the limit; all other solvers must have an answer.
    """
    at = f"{run.model} {run.task} {run.solver}"
    if is_late(row["seconds" if wall else "cpu"], limit):
        return f"LATE: {at}: {row['seconds']:.2f} s of {limit:g}, {row['cpu']:.2f} s CPU, {row['status']}"
    if row["status"] in _FAILURES:
        return f"FAILED: {at}: {row['status']}: {row['message']}"
    return f"no answer at the limit: {at}" if row["status"] == "time-limit" and not row["answered"] else ""


def is_late(seconds: float, limit: float) -> bool:
    """Return whether a run exceeded its limit by more than 10 % and one second."""
    return seconds > 1.1 * limit + 1.0


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
    parser.add_argument("--wall", action="store_true", help="limits in wall time, in place of CPU time")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy loops beside the runs (default 0)")
    parser.add_argument("--solvers", nargs="+", metavar="SPEC", help="default: every registered solver, and questions")
    parser.add_argument("--largest", type=int, default=2, help="models by each measure of size (default 2)")
    parser.add_argument("--all", action="store_true", help="every solver on every model")
    parser.add_argument(
        "--random", nargs="*", metavar="NAME", choices=RANDOM, help=f"these random models alone: {', '.join(RANDOM)}"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the solvers (default 0)")
    args = parser.parse_args()
    models: dict[str, Callable[[], FactorGraph]]
    if args.random is None:
        try:
            instances = collection()
        except EquifactorError as error:
            print(f"nothing to measure: {error}")
            return 0
        few = instances if args.all else largest(instances, args.largest)
        models = {i.key: i.graph for i in (instances if args.largest else few)}
        names = [i.key for i in few]
    else:
        models = {name: RANDOM[name] for name in args.random or RANDOM}
        names = list(models)
    todo = runs(list(models), names, args.solvers or [*solver_names(), *QUESTIONS])
    found: dict[float, list[tuple[Run, dict[str, Any]]]] = {limit: [] for limit in args.limits}
    name, graph = "", None
    for run in dict.fromkeys(run._replace(model="") for run in todo):
        warm_up(run.solver if run.solver not in QUESTIONS else "auto", run.task)
    with busy_loops(args.busy):
        for n, run in enumerate(todo):
            if graph is None or run.model != name:
                name, graph = run.model, models[run.model]()
            for limit in args.limits:
                row = measured(run, graph, limit, args.seed, args.wall)
                found[limit].append((run, row))
                if said := problem(run, row, limit, args.wall):
                    print(said, flush=True)
            if sys.stderr.isatty():
                print(f"\r{n + 1}/{len(todo)} {run.solver} {run.task} {run.model:40}", end="", file=sys.stderr)
        for limit, rows in found.items():
            print("\n".join(report(rows, limit, args.wall)), flush=True)
    bad = [is_late(r["seconds" if args.wall else "cpu"], limit) for limit, rows in found.items() for _, r in rows]
    return int(any(bad) or any(r["status"] in _FAILURES for rows in found.values() for _, r in rows))


if __name__ == "__main__":
    os.environ.update(environment())
    sys.exit(main())
