"""Time of the learned solvers on one core: without torch, and by torch in double and in single precision.

    python -m benchmarks.native_networks
    python -m benchmarks.native_networks --solvers fe-net --repeat 20

A figure is CPU milliseconds of one call of `solve`, the best of several repetitions. The three engines run in turn, so
that the load of the machine affects all of them. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ.setdefault("EQUIFACTOR_PLAIN", "0")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import equifactor as ef  # noqa: E402

ENGINES: dict[str, dict[str, Any]] = {
    "native": {},
    "torch float64": {"engine": "torch"},
    "torch float32": {"engine": "torch", "dtype": "float32"},
}


def models() -> dict[str, Any]:
    """Return the models by name; a batch is a list."""
    return {
        "Ising 20x20": ef.generators.ising_grid(20, 20, seed=1),
        "Ising 12x12": ef.generators.ising_grid(12, 12, seed=1),
        "Potts 10x10, 4 states": ef.generators.potts_grid(10, 10, states=4, seed=1),
        "100 Ising 4x4": ef.generators.ising_grid(4, 4, seed=1, count=100),
    }


def best_times(model: Any, task: str, solver: str, repeat: int) -> list[float]:
    """Return the CPU milliseconds of each engine."""
    times = np.full(len(ENGINES), np.inf)
    for n in range(repeat + 1):
        for k, settings in enumerate(ENGINES.values()):
            start = time.process_time()
            ef.solve(model, task, solver, **settings)
            if n > 0:  # The first call compiles kernels or imports modules.
                times[k] = min(times[k], 1e3 * (time.process_time() - start))
    return times.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solvers", nargs="+", default=["fe-net", "fe-nbp", "fe-gnn"])
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'model':22} {'solver':7} task " + " ".join(f"{name:>14}" for name in ENGINES) + "   ratios")
    for name, model in models().items():
        for solver in options.solvers:
            for task in ("MAR", "MAP"):
                try:
                    times = best_times(model, task, solver, options.repeat)
                except ef.EquifactorError:  # fe-gnn has weights for MAR and two states only.
                    continue
                ratios = " ".join(f"{t / times[0]:5.1f}" for t in times[1:])
                print(
                    f"{name:22} {solver:7} {task}  " + " ".join(f"{t:14.1f}" for t in times) + f"   {ratios}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
