"""Speed of belief propagation on a GPU, beside the limit that the bandwidth of its memory sets.

    python -m benchmarks.bp_on_gpu                  # a minute on an H200
    python -m benchmarks.bp_on_gpu --engine torch   # plain torch, without the fused kernels

The first rows are single grids: the time of an iteration (the best of several runs of 100), messages per second
between variables and pair tables, and how much of the bandwidth an iteration uses. The bandwidth is that of copying a
GiB, measured first. An iteration reads the tables, reads and writes the messages, and reads and writes the sums at the
variables, with an index of four bytes per edge. The last rows are whole calls of `solve` on many 4x4 grids.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import numpy as np
import torch

import equifactor as ef
from equifactor.graph import FlatGraph
from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
from equifactor.solving.solver import SolveContext

GRIDS = ((1000, 1000, 2), (100, 100, 11), (300, 300, 11), (30, 30, 64))
_SWEEPS = 100
_REPEATS = 5  # Of every measurement, of which the best counts.


def grid(rows: int, columns: int, states: int) -> ef.FactorGraph:
    """Return an Ising or Potts grid with random couplings and fields."""
    if states == 2:
        return ef.generators.ising_grid(rows, columns, seed=0)
    draw = np.random.default_rng(0).normal
    n = np.arange(rows * columns).reshape(rows, columns)
    across, down = np.stack((n[:, :-1], n[:, 1:]), -1), np.stack((n[:-1], n[1:]), -1)
    factors = [([i], draw(size=states)) for i in range(n.size)]
    for block in (across, down):
        factors += [(pair, np.eye(states) * draw()) for pair in block.reshape(-1, 2).tolist()]
    return ef.FactorGraph([states] * n.size, factors, log=True)


def best_seconds(run: Callable[[], object]) -> float:
    """Return the least time of a function whose work on the GPU is included."""
    times = []
    for _ in range(_REPEATS + 1):  # The first run compiles and captures.
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def copy_bandwidth() -> float:
    """Return the bytes per second that a copy reads and writes."""
    source = torch.rand(2**28, device="cuda")
    target = torch.empty_like(source)
    return 2.0 * source.nbytes / best_seconds(lambda: target.copy_(source))


def bytes_of_iteration(flat: FlatGraph[np.ndarray]) -> float:
    """Return the bytes that an iteration in float32 must move."""
    pairs = [group for group in flat.groups if len(group.shape) == 2]
    tables = sum(4.0 * (group.entries.stop - group.entries.start) for group in pairs)
    messages = sum(4.0 * (slot.stop - slot.start) for group in pairs for slot in group.slots)
    indices = sum(4.0 * 2 * group.num_factors for group in pairs)
    # The messages are read, written, and read again for the sums; the sums are written and read by every factor.
    return tables + 4.0 * messages + 2.0 * indices + 2.0 * 4.0 * flat.num_states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("auto", "torch"), default="auto")
    parser.add_argument("--counts", type=int, nargs="*", default=[1000, 100_000], help="numbers of 4x4 grids")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no NVIDIA GPU.")
        return
    bandwidth = copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, float32, copy {bandwidth / 1e12:.2f} TB/s")
    print("grid            engine  us/iteration  G messages/s  at the bandwidth  share")
    for rows, columns, states in GRIDS:
        flat = ef.solvers.compile(grid(rows, columns, states))
        context = SolveContext(device="cuda", dtype="float32")
        engine = new_engine(flat, BpSettings("sum", "parallel", 0.3, 1e-6, 0), context, args.engine)
        seconds = best_seconds(functools.partial(engine.sweep, _SWEEPS)) / _SWEEPS
        messages = sum(2 * group.num_factors for group in flat.groups if len(group.shape) == 2)
        limit, rate = bytes_of_iteration(flat) / bandwidth, messages / 1e9
        print(
            f"{rows:4} x {columns:4}, {states:2}  {engine.name:6} {seconds * 1e6:13.1f} {rate / seconds:13.2f} "
            f"{rate / limit:17.2f} {limit / seconds:6.2f}",
            flush=True,
        )
        del engine
    for count in args.counts:
        graphs = ef.generators.ising_grid(4, 4, seed=1, count=count)
        call = functools.partial(ef.solve, graphs, "MAR", "bp", engine=args.engine, device="cuda", dtype="float32")
        seconds = best_seconds(call)
        print(f"solve, {count:,} grids of 4x4: {seconds:.3f} s, {seconds / count * 1e6:.1f} us a graph", flush=True)


if __name__ == "__main__":
    main()
