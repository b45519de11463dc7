"""Speed by threads of the CPU: belief propagation on one large graph, decoding, and calls whose work threads share.

    python -m benchmarks.cores --threads 1 2                # on two quiet cores
    python -m benchmarks.cores --sizes --work graphs rows gibbs blocks tables    # one core and two, about a minute
    python -m benchmarks.cores --sizes 160 500 --threads 1 2 4
    python -m benchmarks.cores --sizes --shots 100000 --threads 1 2 4       # decoding alone

The rows are Ising grids: wall time of a sweep, the best of several runs, CPU time of all threads, and how many times
faster the row is than the first number of threads. All numbers of threads give the same messages, bit for bit.
With `--shots` that many shots of the 72-qubit code with errors of rate 0.02 are drawn and decoded by `pooled`.

With `--work` the rows are whole calls: wall time and CPU time of all threads, the least of several runs, and the share
of the CPU time that each thread had in shared work. What is left is the serial part of the call. On a busy machine wall
times mean little; two threads should then use at most 1.15 times the CPU time of one, in nearly equal shares.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import equifactor as ef
from equifactor.base.cores import Crew
from equifactor.solvers.messages.binary_engine import BinaryEngine
from equifactor.solvers.messages.bp_engine import BpSettings

_SWEEPS = 20
_REPEATS = 7  # Of every measurement, of which the best counts.
_RUNS = 3  # Of every call, of which the best counts.


def calls() -> dict[str, Callable[[int], list[np.ndarray]]]:
    """Return calls by the name of the work that threads share; each takes a number of threads and returns answers."""

    def solve(graph: Any, task: str, solver: str, fields: tuple[str, ...], **more: Any) -> Any:
        def call(threads: int) -> list[np.ndarray]:
            found = ef.solve(graph, task, solver, threads=threads, **more)
            results = found if isinstance(found, list) else [found]
            return [np.array(getattr(getattr(r, f), "values", getattr(r, f))) for r in results for f in fields]

        return call

    grid = ef.generators.ising_grid
    rows = np.random.default_rng(0).integers(-1, 2, (20_000, 60))
    return {
        "graphs": solve(grid(10, 10, count=4000, seed=1), "MAR", "bp", ("marginals",)),
        "batches": solve(grid(10, 10, count=4000, seed=1), "MAR", "exact", ("marginals",)),
        "rows": solve(grid(6, 10, seed=1), "MAR", "exact", ("log_z",), evidence=rows),
        "gibbs": solve(grid(40, 40, seed=1), "MAR", "gibbs(samples=1000)", ("marginals", "standard_errors")),
        "blocks": solve(grid(20, 20, seed=1), "MAR", "blocks(sweeps=10, enumerate=False)", ("marginals",)),
        "tables": solve(grid(21, 21, seed=1), "MAR", "exact", ("marginals",)),
        "sums": solve(grid(22, 22, seed=1), "PR", "exact", ("log_z",)),
        "maxima": solve(grid(22, 22, seed=1), "MAP", "exact", ("assignment",)),
    }


def work(names: list[str], threads: list[int]) -> None:
    """Print the times of calls by the number of threads, and the shares of the threads."""
    os.environ["EQUIFACTOR_PLAIN"] = "0"  # compiled kernels from the first call on
    used: dict[int, float] = {}
    run = Crew.run

    def timed(crew: Crew, do: Callable[[int], object], stop: Callable[[], object]) -> None:
        def own(thread: int) -> None:
            start = time.thread_time()
            do(thread)
            used[thread] = used.get(thread, 0.0) + time.thread_time() - start

        run(crew, own, stop)

    Crew.run = timed  # type: ignore[assignment, method-assign]
    known = calls()
    print("     work  threads  wall s  times   CPU s  times  CPU of each thread in shared work")
    for name in names:
        first, wall, cpu = known[name](1), [], []
        for n in threads:
            runs = []
            for _ in range(_RUNS):
                used.clear()
                start, before = time.perf_counter(), time.process_time()
                found = known[name](n)
                shares = " ".join(f"{used[k]:.2f}" for k in sorted(used))
                runs.append((time.perf_counter() - start, time.process_time() - before, shares))
                assert all(map(np.array_equal, first, found))
            least = min(runs, key=lambda r: r[1])
            wall.append(min(r[0] for r in runs))
            cpu.append(least[1])
            print(
                f"{name:>9} {n:8} {wall[-1]:7.2f} {wall[0] / wall[-1]:6.2f} {cpu[-1]:7.2f} {cpu[-1] / cpu[0]:6.2f}  "
                f"{least[2]}",
                flush=True,
            )


def decode(shots: int, threads: list[int]) -> None:
    """Print the shots a second that one call draws and decodes, by the number of threads."""
    decoder = ef.decoding.Decoder(ef.decoding.bicycle_code("bb72", 0.02))
    decoder.logical_error_rate(1000, seed=2)
    seconds = []
    for n in threads:
        start, used = time.perf_counter(), time.process_time()
        found = decoder.logical_error_rate(shots, seed=1, threads=n)
        seconds.append(time.perf_counter() - start)
        used = time.process_time() - used
        print(
            f"{n} threads: {shots / seconds[-1]:,.0f} shots/s, CPU {used:.1f} s, {seconds[0] / seconds[-1]:.2f} times, "
            f"{found.errors} errors",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[160, 224, 500, 1000], help="rows of the grids")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--shots", type=int, default=0, help="shots to decode")
    parser.add_argument("--work", nargs="*", default=[], help="calls: " + ", ".join(calls()))
    args = parser.parse_args()
    if args.shots:
        decode(args.shots, args.threads)
    if args.work:
        work(args.work, args.threads)
    if args.sizes:
        print("     factors  threads  ms a sweep  CPU ms  times")
    for size in args.sizes:
        flat = ef.solvers.compile(ef.generators.ising_grid(size, size, seed=0))
        engines = [BinaryEngine(flat, BpSettings("sum", "parallel", 0.3, 1e-6, 0), n) for n in args.threads]
        wall = np.full((len(engines), _REPEATS), np.inf)
        cpu = wall.copy()
        for n in range(_REPEATS):  # in turn, so that other work hits all of them
            for k, engine in enumerate(engines):
                start, used = time.perf_counter(), time.process_time()
                engine.sweep(_SWEEPS)
                wall[k, n] = (time.perf_counter() - start) / _SWEEPS
                cpu[k, n] = (time.process_time() - used) / _SWEEPS
        best = wall.min(axis=1)
        for k, threads in enumerate(args.threads):
            print(
                f"{engines[0].group.num_factors:12,} {threads:8} {1e3 * best[k]:11.3f} {1e3 * cpu[k].min():7.3f} "
                f"{best[0] / best[k]:6.2f}",
                flush=True,
            )
        assert all(np.array_equal(engines[0].pairs.lam, engine.pairs.lam) for engine in engines)


if __name__ == "__main__":
    main()
