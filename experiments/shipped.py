"""The weights that come with the package: general-purpose models, trained on a broad mixture of small graphs.

    python -m experiments.shipped fe-net MAR --device cuda --seconds 400 --out equifactor/weights

Sizes, couplings from weak to strong, topologies, cardinalities 2 to 8, arities to 4 and hard zeros are mixed; nothing
of the public UAI models is seen. A first short run measures the speed, then the number of epochs is chosen so that the
learning rate falls to zero within the given seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equifactor import train

GRIDS = ((4, 1500), (6, 600), (8, 400), (10, 200))  # side, graphs per coupling
STEPS_PER_EPOCH = 50
NETWORK: dict[str, dict[str, Any]] = {
    "fe-nbp": {"steps": 16},
    "fe-gnn": {"steps": 16, "channels": 32},
    "fe-net": {"steps": 16},
}
LEARNING_RATE = {"fe-nbp": 2e-3, "fe-gnn": 1e-3, "fe-net": 2e-3}


def mixture(kind: str, task: str) -> Iterator[str]:
    """Generators of the training graphs; one seed for each, far from those of any test."""
    share = 1.0 if task == "MAR" else 0.3  # the best score of a graph costs more than its marginals
    sources: list[tuple[str, int]] = []
    for side, count in GRIDS:
        sources += [(f"ising({side}x{side}, coupling_std={c}", count) for c in (0.4, 1.0, 1.8)]
        sources += [(f"asymmetric({side}x{side}, coupling_std={c}", count // 2) for c in (0.5, 1.0)]
    sources += [("ising(6x6, field_std=1.0", 400), ("ising(5x5, wrap=true", 600)]
    if task == "MAP":  # scores of real models are large numbers
        sources += [("ising(6x6, coupling_std=10, field_std=5", 600), ("potts(5x5, states=4, coupling_std=20", 600)]
    if kind != "fe-gnn":  # which takes variables of two states only
        sources += [("potts(4x4, states=3, coupling_std=0.7", 500), ("potts(5x5, states=3, coupling_std=1.5", 500)]
        sources += [("potts(4x4, states=5", 300), ("potts(3x3, states=8", 300)]
        sources += [("tree(num_vars=20, card=3", 200), ("random(num_vars=12, num_factors=18, arity=1-2, card=3", 300)]
    sources += [("random(num_vars=16, num_factors=26, arity=1-3", 400)]
    sources += [("random(num_vars=14, num_factors=18, arity=2-4, zeros=0.15", 300)]
    for n, (text, count) in enumerate(sources):
        yield f"{text}, n={round(count * share)}, seed={7_000_000 + n})"


def main() -> None:
    """Train one model; the file, its log and a line with its measures are what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(NETWORK))
    parser.add_argument("task", choices=("MAR", "MAP"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=600.0, help="for the whole run")
    parser.add_argument("--out", type=Path, default=Path("equifactor/weights"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="model file to go on from, such as one of a run that was cut")
    parser.add_argument("--lr", type=float, help="learning rate, in place of the kind's own")
    options = parser.parse_args()
    start = time.perf_counter()
    common: dict[str, Any] = {
        "network": NETWORK[options.kind], "batch_size": 100, "steps_per_epoch": STEPS_PER_EPOCH, "patience": 0,
        "lr": options.lr or LEARNING_RATE[options.kind], "warmup": 100,
        "vary_steps": True, "losses_at": 3, "validation": "0.05",
        "device": options.device, "seed": options.seed, "start": options.start,
    }  # fmt: skip
    data = list(mixture(options.kind, options.task))
    probe = train(options.kind, data, options.task, epochs=10**6, time_limit=0.2 * options.seconds, **common)
    # The median epoch, and something for validation and snapshots.
    times = sorted(h["seconds"] for h in probe.history[1:]) or [0.1 * options.seconds]
    epoch = times[len(times) // 2] + 0.1 * times[0] + 0.3
    left = options.seconds - (time.perf_counter() - start)
    epochs = max(2, int(0.8 * left / epoch))
    out = options.out / f"{options.kind}-{options.task.lower()}.safetensors"
    print(f"{out}: {epoch:.2f} s per epoch of {STEPS_PER_EPOCH} steps, {epochs} epochs", flush=True)
    done = train(options.kind, data, options.task, out, epochs=epochs, time_limit=left, **common)
    print(json.dumps({"file": out.name, "finished": done.finished, "start": done.history[0], "best": done.metrics}))


if __name__ == "__main__":
    main()
