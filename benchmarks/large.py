"""Speed and memory of `equifactor.large` on R-MAT graphs, beside the limit that the bandwidth of the memory sets.

    python -m benchmarks.large --edges 1e8 --scale 23 --threads 1 2           # two cores
    torchrun --nproc-per-node 2 -m benchmarks.large --edges 1e8 --scale 23 --threads 1
    python -m benchmarks.large --edges 5e9 --scale 28 --device cuda           # 66 GB on the GPU
    python -m benchmarks.large --edges 1e7 --scale 20 --device cuda --check   # beliefs equal those of the CPU
    python -m benchmarks.large --edges 1e8 --scale 23 --states 3              # variables with three states

One variable in a hundred has a prior of .05 or .95. The limit is the time to read the ends of the edges and to read
and write the messages, at the bandwidth of a copy that is measured first: accesses to variables are not in it. With
`--sorted` the edges are sorted by their first ends, as many files are. Memory of a CPU is what the process holds beside
the file of edges, which is mapped.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from equifactor import large
from equifactor.large.rmat import _QUADRANTS

_PREFIX = 8  # Levels of R-MAT whose row is the same for all edges of a chunk on a GPU.
_CHUNK = 2**26  # Edges that are drawn together on a GPU.


def edges_on_gpu(scale: int, count: int, in_order: bool) -> Any:
    """Return R-MAT edges [count, 2] on the GPU, in order of their first ends up to chunks or in random order.

    The chunks have the expected numbers of edges for each of the first rows.
    """
    import torch

    a, b, c, d = _QUADRANTS
    torch.manual_seed(0)
    edges = torch.empty((count, 2), dtype=torch.int32, device="cuda")
    column: Any
    done = 0
    for prefix in range(2**_PREFIX):
        ones = prefix.bit_count()
        last = prefix == 2**_PREFIX - 1
        share = round(count * (a + b) ** (_PREFIX - ones) * (c + d) ** ones)
        left = count - done if last else min(share, count - done)
        while left:
            n = min(left, _CHUNK)
            i = torch.zeros(n, dtype=torch.int64, device="cuda")
            j = torch.zeros_like(i)
            for level in range(scale):
                u, top = torch.rand(n, device="cuda"), prefix >> max(0, _PREFIX - 1 - level) & 1
                if level < _PREFIX:
                    column = u < (d / (c + d) if top else b / (a + b))
                    i = 2 * i + top
                else:
                    column = (u >= a) & (u < a + b) | (u >= a + b + c)
                    i = 2 * i + (u >= a + b)
                j = 2 * j + column
            j += i == j  # No edge joins a variable with itself.
            j.clamp_(max=2**scale - 1)
            key = i << 32 | j
            if in_order:
                key = key.sort().values
            edges[done : done + n, 0], edges[done : done + n, 1] = key >> 32, key & 0xFFFFFFFF
            done, left = done + n, left - n
    loops = edges[:, 0] == edges[:, 1]
    edges[:, 0] -= loops.int()
    if not in_order:
        # A full permutation needs too much memory: large strides mix the chunks.
        rows = 2**12
        whole = count // rows * rows
        for column in (0, 1):
            edges[:whole, column] = edges[:whole, column].reshape(rows, -1).T.reshape(-1).clone()
    return edges


def table_of(states: int) -> np.ndarray:
    """Return a table in which neighbours prefer the same state."""
    return np.full((states, states), 0.96 / states) + 0.04 * np.eye(states)


def priors_of(num_vars: int, states: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if states > 2:
        weights = np.ones((num_vars, states), np.float32)
        seeds = rng.integers(0, num_vars, num_vars // 100)
        weights[seeds, rng.integers(0, states, len(seeds))] = 20.0
        return weights
    priors = np.full(num_vars, 0.5, np.float32)
    seeds = rng.integers(0, num_vars, num_vars // 100)
    priors[seeds] = np.where(rng.random(len(seeds)) < 0.5, 0.05, 0.95)
    return priors


def copy_bandwidth(device: str) -> float:
    """Return the bytes per second that a copy reads and writes; on a CPU with one thread."""
    if device == "cuda":
        from benchmarks.bp_on_gpu import copy_bandwidth as on_gpu

        return on_gpu()
    source = np.ones(2**26)
    target = np.empty_like(source)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(times)


def own_memory() -> float:
    """Return the GiB that this process holds, without mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 2**20


class MemoryPeak:
    """The largest memory of this process at the reports of a run."""

    def __init__(self) -> None:
        self.gib = 0.0

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        self.gib = max(self.gib, own_memory())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, default=1e7)
    parser.add_argument("--scale", type=int, default=20, help="there are 2^scale variables")
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bits", type=int, default=16)
    parser.add_argument("--states", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--sorted", action="store_true")
    parser.add_argument("--check", action="store_true", help="compare with the CPU")
    parser.add_argument("--folder", default="build", help="where the file of edges is")
    args = parser.parse_args()
    count, rank = int(args.edges), int(os.environ.get("RANK", 0))
    edges: Any = Path(args.folder) / f"rmat-{args.scale}-{count}{'-sorted' * args.sorted}.npy"
    if args.device == "cuda" and not args.check:
        start = time.perf_counter()
        edges = edges_on_gpu(args.scale, count, args.sorted)
        print(f"drawn in {time.perf_counter() - start:.1f} s", flush=True)
    elif not edges.exists() and rank == 0:
        drawn = large.rmat_edges(args.scale, count, path=None if args.sorted else edges)
        if args.sorted:
            np.save(edges, drawn[np.argsort(drawn[:, 0], kind="stable")])
    bandwidth = copy_bandwidth(args.device)
    limit = count * (8 + 2 * 2 * (args.states - 1) * args.bits // 8) / bandwidth
    table = table_of(args.states)
    if rank == 0:
        print(
            f"{count:.2g} edges, 2^{args.scale} variables of {args.states} states, {args.bits} bits, "
            f"copy {bandwidth / 1e9:.1f} GB/s"
        )
    priors = priors_of(2**args.scale, args.states)
    settings: dict[str, Any] = {"priors": priors, "bits": args.bits, "tolerance": 0.0}
    for threads in args.threads:
        peak = MemoryPeak()
        start, cpu = time.perf_counter(), time.process_time()
        result = large.solve(
            edges, table, iterations=args.iterations, device=args.device, threads=threads, progress=peak, **settings
        )
        whole, cpu = time.perf_counter() - start, time.process_time() - cpu
        seconds = result.seconds / max(1, result.iterations)
        memory = peak.gib
        if args.device == "cuda":
            import torch

            memory = torch.cuda.max_memory_allocated() / 2**30
        if rank == 0:
            print(
                f"threads {threads}: {seconds:.3f} s an iteration, {count / seconds / 1e6:,.0f} M edges/s, "
                f"{limit / seconds:.2f} of the bandwidth, {memory:.2f} GiB, whole call {whole:.1f} s, CPU {cpu:.1f} s, "
                f"change {result.change:.2g}",
                flush=True,
            )
    if args.check:
        other = large.solve(edges, table, iterations=args.iterations, **settings)
        print("equal to the CPU, bit for bit:", np.array_equal(other.log_odds, result.log_odds))


if __name__ == "__main__":
    main()
