"""Speed of belief propagation on one large graph, and of decoding, by threads of the CPU.

    python -m benchmarks.cores --threads 1 2                # on two quiet cores
    python -m benchmarks.cores --sizes 160 500 --threads 1 2 4
    python -m benchmarks.cores --sizes --shots 100000 --threads 1 2 4       # decoding alone

The rows are Ising grids: wall time of a sweep, the best of several runs, CPU time of all threads, and how many times
faster the row is than the first number of threads. All numbers of threads give the same messages, bit for bit.
With `--shots` that many shots of the 72-qubit code with errors of rate 0.02 are drawn and decoded by `pooled`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import equifactor as ef
from equifactor.solvers.messages.binary_engine import BinaryEngine
from equifactor.solvers.messages.bp_engine import BpSettings

_SWEEPS = 20
_REPEATS = 7  # Of every measurement, of which the best counts.


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
    args = parser.parse_args()
    if args.shots:
        decode(args.shots, args.threads)
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
