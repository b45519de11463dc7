"""Growth of the cost of belief propagation: time per iteration and peak memory from 10^3 to 10^7 edges.

Each size is a seeded spin glass on a square grid, in a fresh process, so that the peak of memory belongs to this size.
An edge joins a factor and one of its variables, unary factors included. With linear growth the column `ns/edge` is
flat, except for steps where the messages no longer fit into a cache.

    python -m benchmarks.scaling
    python -m benchmarks.scaling --edges 1e3 1e5 --solver "bp(damping=0.5)" --task MAP
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from benchmarks._venvs import environment
from benchmarks.io import peak_memory

_SECONDS = 0.5  # The planned duration of a timing. Chosen by hand.


def measure(edges: float, solver: str, task: str, repeats: int) -> dict[str, float]:
    """Return the seconds to compile and to iterate, and the peak memory. Call this function in a separate process."""
    from equifactor.base.status import Task
    from equifactor.generators import ising_grid
    from equifactor.graph import compile
    from equifactor.solving.registry import parse_solver
    from equifactor.solving.solver import IterativeSolver, SolveContext

    method = parse_solver(solver)
    if not isinstance(method, IterativeSolver):
        raise SystemExit(f"{solver} does not iterate over messages. Choose an iterative solver such as bp.")
    side = max(2, round((edges / 5) ** 0.5))  # a cell has a unary factor and two pairs: five edges
    small = compile(ising_grid(2, 2, seed=0))
    method.step(method.init(small, Task(task), SolveContext()), 1)  # loads the kernels
    before = peak_memory()
    start = time.perf_counter()
    graph = ising_grid(side, side, seed=0)
    made = time.perf_counter()
    flat = compile(graph)
    compiled = time.perf_counter()
    state = method.init(flat, Task(task), SolveContext())
    start_step = time.process_time()
    method.step(state, 1)
    count = max(1, min(1000, int(_SECONDS / max(time.process_time() - start_step, 1e-6))))
    seconds = []
    for _ in range(repeats):
        start_step = time.process_time()
        method.step(state, count)
        seconds.append((time.process_time() - start_step) / count)
    return {
        "edges": flat.num_edges, "generate": made - start, "compile": compiled - made, "seconds": min(seconds),
        "memory": peak_memory() - before,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, nargs="+", default=[1e3, 1e4, 1e5, 1e6, 1e7], help="sizes")
    parser.add_argument("--solver", default="bp(damping=0.5, tolerance=0)", help="an iterative solver")
    parser.add_argument("--task", default="MAR", choices=("MAR", "PR", "MAP"))
    parser.add_argument("--repeats", type=int, default=3, help="runs, the best of which counts (default 3)")
    parser.add_argument("--measure", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.solver, args.task, args.repeats)))
        return
    print(f"{args.task} by {args.solver}, one thread")
    print(
        f"{'edges':>11} {'s/iteration':>12} {'ns/edge':>8} {'growth':>7} {'compile s':>10} {'peak MB':>8} {'B/edge':>7}"
    )
    before: dict[str, float] | None = None
    for edges in args.edges:
        command = [sys.executable, "-m", "benchmarks.scaling", "--measure", str(edges), "--solver", args.solver]
        command += ["--task", args.task, "--repeats", str(args.repeats)]
        done = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
        row = json.loads(done.stdout)
        per_edge = row["seconds"] / row["edges"] * 1e9
        growth = "" if before is None else f"{per_edge / before['per_edge']:.2f}"
        print(
            f"{row['edges']:11,} {row['seconds']:12.3e} {per_edge:8.2f} {growth:>7} {row['compile']:10.3f} "
            f"{row['memory'] / 1e6:8.0f} {row['memory'] / row['edges']:7.0f}",
            flush=True,
        )
        before = {"per_edge": per_edge}
    print("growth: ns/edge divided by ns/edge of the size before; 1 is linear")


if __name__ == "__main__":
    os.environ.update(environment())
    main()
