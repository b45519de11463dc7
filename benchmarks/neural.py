"""Throughput of the learned models on 4 x 4 Ising grids: forward and training, compared with a plain eager loop.

    python -m benchmarks.neural                     # the CPU, and the GPU if there is one
    python -m benchmarks.neural --device cuda --compile

A figure is graphs per second, the best of several repetitions after a warm-up. `eager` runs the same network operation
by operation from Python. `train` is the gradient step of `equifactor train`: on a GPU the whole step, optimizer
included, is one captured CUDA graph. With --compile, torch.compile first fuses one step of the network. Memory is the
additional peak of an eager gradient step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import equifactor
from equifactor.base.status import Task
from equifactor.generators import ising_grid
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.data_split import DataSplit
from equifactor.learning.training.processes import Processes
from equifactor.learning.training.training_loop import Trainer
from equifactor.learning.training.training_settings import TrainingSettings
from equifactor.solvers.elimination.exact_batch import exact_marginals
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.replay import Replay

KINDS = ("fe-nbp", "fe-gnn", "fe-net")


def best_time(run: Callable[[], Any], device: str, seconds: float) -> float:
    """Return the seconds of the fastest of at least three repetitions, which go on until `seconds` have passed."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < until:
        _wait(device)
        start = time.perf_counter()
        run()
        _wait(device)
        times.append(time.perf_counter() - start)
    return min(times)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def trainer_for(kind: str, data: Dataset, size: int, device: str, compile: bool) -> Trainer:
    """Return a training run as `equifactor train` sets it up, stopped before its first epoch."""
    settings = TrainingSettings(batch_size=size, device=device, validation="0", compile=compile)
    network = build(kind, seed=0).to(device)
    few = Dataset(data.graphs[:10], data.targets[:10], device=device, dtype="float32")
    return Trainer(network, DataSplit(data, few), Task.MAR, settings, Processes(settings))


def measure(kind: str, data: Dataset, size: int, device: str, compile: bool, seconds: float) -> dict[str, float]:
    """Return graphs per second and KiB per graph at one batch size."""
    trainer = trainer_for(kind, data, size, device, compile)
    plan = data.plans(size)[0]
    rows = torch.tensor(plan.rows, device=device)
    assert plan.compiled is not None
    steps = trainer.network.config.steps
    eager_trainer = trainer_for(kind, data, size, device, False)

    def eager() -> None:
        assert plan.compiled is not None
        eager_trainer._gradient_step(plan.compiled.fill(rows), steps, ())

    def trained() -> None:
        if trainer.captured is None:
            trainer._gradient_step(plan.compiled.fill(rows), steps, ())  # type: ignore[union-attr]
        else:
            trainer.captured(plan.compiled, rows, steps, ())  # type: ignore[arg-type]

    flat = plan.compiled.fill(rows).flat
    replay = Replay(trainer.network, flat)
    result = {"eager": size / best_time(eager, device, seconds)}
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        eager()
        torch.cuda.synchronize()
        result["KiB"] = (torch.cuda.max_memory_allocated() - before) / size / 1024
    trained()
    result["trained"] = size / best_time(trained, device, seconds)
    result["forward"] = size / best_time(lambda: replay(flat.log_phi), device, seconds)
    return result


def latency(kind: str, data: Dataset, device: str) -> tuple[float, float]:
    """Return the milliseconds of beliefs for 1,000 graphs: op by op, and replayed."""
    network = build(kind, seed=0).to(device)
    flat = data.batch(data.plans(1000)[0]).flat

    def run() -> None:
        with torch.inference_mode():
            network(flat)

    replay = Replay(network, flat)
    run()
    return best_time(run, device, 0.5) * 1e3, best_time(lambda: replay(flat.log_phi), device, 0.5) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: both, where there is a GPU")
    parser.add_argument("--compile", action="store_true", help="also fuse one step with torch.compile")
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--sizes", nargs="+", type=int, help="batch sizes")
    parser.add_argument("--seconds", type=float, default=1.0, help="per figure")
    options = parser.parse_args()
    devices = [options.device] if options.device else ["cpu", *["cuda"] * torch.cuda.is_available()]
    torch.set_float32_matmul_precision("high")  # TF32 in matrix products on a GPU, as training does
    for device in devices:
        chip = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
        print(f"{chip}, torch {torch.__version__}, equifactor {equifactor.__version__}, T = 10, float32")
        sizes = options.sizes or ([250, 1000, 4000, 16000] if device == "cuda" else [50, 250])
        graphs = ising_grid(4, 4, seed=1, count=max(*sizes, 1000))
        data = Dataset(graphs, list(exact_marginals(graphs)[0]), device=device, dtype="float32")
        print("model     batch  eager train/s    train/s  ratio   forward/s  KiB/graph")
        for kind in options.kinds:
            for size in sizes:
                got = measure(kind, data, size, device, options.compile and device == "cuda", options.seconds)
                memory = f"{got['KiB']:10,.0f}" if "KiB" in got else f"{'-':>10}"
                print(
                    f"{kind:8} {size:6,} {got['eager']:14,.0f} {got['trained']:10,.0f} "
                    f"{got['trained'] / got['eager']:5.1f}x {got['forward']:11,.0f} {memory}",
                    flush=True,
                )
            plain, replayed = latency(kind, data, device)
            print(f"{kind:8} 1,000 graphs, forward: {plain:.2f} ms op by op, {replayed:.2f} ms replayed", flush=True)


if __name__ == "__main__":
    main()
