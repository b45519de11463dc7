"""The weights that come with the package: general-purpose models, trained on a broad mixture of small graphs.

    python -m experiments.shipped fe-net MAR --device cuda --seconds 500 --out equifactor/weights
    python -m experiments.shipped fe-net MAP --device cuda --seconds 500 --data models --out equifactor/weights

Sizes, topologies, cardinalities 2 to 16, arities to 4, couplings from weak to strong and hard zeros are mixed. For MAR
nothing of the public UAI models is seen; for MAP the training models of their fixed split are, where --data is given.
The learning rate falls to zero within the given seconds, so the weights depend on the speed of the machine.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from equifactor import metrics, solve, train
from equifactor.training.data_sources import read_source

NETWORK: dict[str, dict[str, Any]] = {
    "fe-nbp": {"steps": 32, "norm": True, "context": True, "settle": 3.0},
    "fe-gnn": {"steps": 16, "channels": 32, "settle": 6.0},
    "fe-net": {"steps": 16, "temper": True, "settle": 6.0},
}
LEARNING_RATE = {"fe-nbp": 3e-3, "fe-gnn": 2e-3, "fe-net": 2e-3}
# FE-NBP only damps: asked for certain beliefs it would bend its messages, where the decoded states are what counts.
SHARPEN = {"fe-nbp": 10.0, "fe-gnn": 1.0, "fe-net": 1.0}
# By whose KL families are weighed, and what is added to it. FE-NBP's rival is BP, well damped.
REFERENCE = {
    "fe-net": (("fe-net(untrained, iterations=16, tolerance=0)",), 1e-4),
    "fe-nbp": (tuple(f"bp(damping={d}, iterations={n})" for d, n in ((0.5, 10), (0.9, 10), (0.9, 50))), 1e-5),
}
STEPS_PER_EPOCH = 250
SPLIT = "Grids,Segment,ObjDetect,DBN:train"
# Text of a generator without n and seed, number of graphs. Graphs of one structure train together.
GRIDS = [
    *((f"ising(4x4, coupling_std={c}", 300) for c in (0.3, 0.7, 1.0, 1.5, 2.5, 4.0)),
    *((f"asymmetric(4x4, coupling_std={c}", 250) for c in (0.5, 1.0, 1.5)),
    *((f"ising(4x4, coupling_std={c}, field_std=1.0", 300) for c in (1.0, 3.0, 6.0)),
    *((f"ising(8x8, coupling_std={c}", 250) for c in (0.5, 1.0, 2.0, 4.0)),
    *((f"ising(8x8, coupling_std={c}, field_std=0.7", 150) for c in (1.0, 3.0, 6.0, 9.0)),
    *((f"asymmetric(8x8, coupling_std={c}", 200) for c in (0.5, 1.0)),
    *((f"ising(10x10, coupling_std={c}, field_std=0.7", 100) for c in (1.0, 3.0, 6.0)),
    *((f"ising(12x12, coupling_std={c}, field_std=0.5", 100) for c in (0.5, 1.0, 3.0, 6.0)),
    *((f"asymmetric(12x12, coupling_std={c}", 100) for c in (0.7, 1.0)),
    *((f"ising(6x6, wrap=true, coupling_std={c}, field_std=0.5", 250) for c in (0.5, 1.0, 3.0, 6.0)),
    *((f"ising(8x8, wrap=true, coupling_std={c}, field_std=0.6", 200) for c in (1.0, 3.0, 6.0, 9.0)),
]
TOPOLOGIES = [
    *((f"pairwise(num_vars=20, degree=3, structures=2, coupling_std={c}", 250) for c in (0.5, 1.0, 2.0)),
    *((f"pairwise(num_vars=18, degree=4, structures=2, coupling_std={c}", 200) for c in (0.5, 1.0, 2.0)),
    *((f"pairwise(num_vars=14, degree=5, structures=2, coupling_std={c}", 200) for c in (0.5, 1.0)),
    *((f"pairwise(num_vars=10, topology=complete, coupling_std={c}", 200) for c in (0.2, 0.5, 1.0)),
    *((f"pairwise(num_vars=16, topology=bipartite, coupling_std={c}, field_std=1.0", 250) for c in (0.5, 1.0, 2.0)),
    *((f"pairwise(num_vars=28, topology=bipartite, coupling_std={c}, field_std=1.0", 250) for c in (0.5, 1.0, 1.5)),
    *((f"pairwise(num_vars=36, topology=bipartite, coupling_std={c}, field_std=1.0", 60) for c in (0.7, 1.2)),
    *((f"pairwise(num_vars=49, topology=triangles, coupling_std={c}", 150) for c in (0.5, 1.0, 2.0)),
    *((f"pairwise(num_vars=49, topology=triangles, coupling_mean={c}, coupling_std=0.2, field_std=1.0", 150)
      for c in (0.3, 0.6, 1.0)),
    *((f"pairwise(num_vars=49, topology=triangles, coupling_mean={c}, coupling_std=0.1, field_std=0.5", 150)
      for c in (0.3, 0.6)),
    *((f"pairwise(num_vars=100, topology=triangles, coupling_mean=0.6, coupling_std=0.1, field_std={f}", 150)
      for f in (0.4, 0.7, 1.2)),
    *((f"pairwise(num_vars=144, topology=triangles, coupling_mean={c}, coupling_std=0.1, field_std=0.8", 100)
      for c in (0.4, 0.6, 0.8)),
    ("random(num_vars=16, num_factors=26, arity=1-3, structures=40", 1200),
    ("random(num_vars=30, num_factors=40, arity=2-3, structures=24", 800),
    ("random(num_vars=14, num_factors=18, arity=2-4, zeros=0.15, structures=6", 900),
]  # fmt: skip
STATES = [
    *((f"potts(4x4, states=3, coupling_std={c}", 600) for c in (0.7, 1.5, 3.0, 5.0)),
    *((f"potts(4x4, states=5, coupling_std={c}", 450) for c in (1.0, 3.0, 5.0)),
    *((f"potts(3x3, states=8, coupling_std={c}", 300) for c in (2.0, 4.0)),
    *((f"pairwise(num_vars=16, topology=triangles, card=4, coupling_std={c}", 450) for c in (1.0, 3.0)),
    *((f"pairwise(num_vars=14, topology=triangles, card=2-5, tables=full, structures=2, coupling_std={c}", 600)
      for c in (0.7, 1.5)),
    *((f"pairwise(num_vars=12, degree=4, card=6, tables=full, coupling_std=1.0, field_std={f}", 450)
      for f in (0.5, 2.0)),
    *((f"pairwise(num_vars=10, degree=4, card=10, tables=full, coupling_std={c}, field_std=2.0", 300)
      for c in (0.5, 1.0)),
    *((f"pairwise(num_vars=24, topology=triangles, card=8, tables=full, coupling_std={c}, field_std=1.5", 300)
      for c in (0.4, 0.8, 1.5)),
    ("pairwise(num_vars=10, degree=3, card=16, tables=full, coupling_std=0.8, field_std=2.0", 180),
    ("pairwise(num_vars=7, topology=complete, card=4, tables=full, coupling_std=1.0", 600),
    ("random(num_vars=12, num_factors=18, arity=1-2, card=3, zeros=0.1, structures=4", 600),
    ("tree(num_vars=20, card=3", 6),
]  # fmt: skip
LARGE = [  # MAP: scores of real models are large numbers
    *((f"ising(8x8, coupling_std={c}, field_std={c / 2}", 150) for c in (10, 40)),
    *((f"potts(4x4, states=5, coupling_std={c}, field_std={c / 4}", 150) for c in (10, 40)),
]


def mixture(kind: str, task: str, share: float = 1.0) -> list[str]:
    """Generators of the training graphs, a share of each family; one seed for each, far from those of any test."""
    sources = GRIDS + TOPOLOGIES + (STATES if kind != "fe-gnn" else []) + (LARGE if task == "MAP" else [])
    counted = [(text, max(2, round(count * share))) for text, count in sources]
    return [f"{text}, n={count}, seed={7_000_000 + n})" for n, (text, count) in enumerate(counted)]


def balanced(kind: str, texts: list[str], power: float) -> list[float]:
    """A weight for each graph: without it the few strongly coupled families, of a thousandfold KL, would decide."""
    solvers, floor = REFERENCE.get(kind, REFERENCE["fe-net"])
    weights: list[float] = []
    for text in texts:
        graphs = list(read_source(text).graphs)
        some = graphs[:6]
        exact = [r.marginals for r in solve(some, "MAR", "exact")]
        found = []
        for solver in solvers:
            start = [r.marginals for r in solve(some, "MAR", solver)]
            pairs = [(p, q) for p, q in zip(exact, start, strict=True) if p is not None and q is not None]
            # A state wrongly excluded makes it infinite.
            found.append(np.mean([min(metrics.kl(p, q), 10.0) for p, q in pairs]))
        weights += [float((min(found) + floor) ** -power)] * len(graphs)
    return weights


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
    parser.add_argument("--data", help="MAP: folder of the public models, of which the training split is taken as well")
    parser.add_argument("--balance", type=float, default=0.8, help="MAR: 0 weighs graphs alike, 1 families by their KL")
    parser.add_argument("--network", type=json.loads, default={}, help="settings in place of the kind's own, as JSON")
    parser.add_argument("--share", type=float, default=1.0, help="of the graphs of each family")
    parser.add_argument("--batch", type=int, default=100, help="graphs per gradient step")
    parser.add_argument("--states", type=int, default=40_000, help="edge states per gradient step, at most")
    options = parser.parse_args()
    start = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    data = mixture(options.kind, options.task, options.share)
    weights = balanced(options.kind, data, options.balance) if options.task == "MAR" else None
    if options.data and options.task == "MAP":
        data.append(f"{options.data}:{SPLIT}")
    out = options.out / f"{options.kind}-{options.task.lower()}.safetensors"
    done = train(
        options.kind, data, options.task, out, weights=weights, start=options.start,
        network=NETWORK[options.kind] | options.network,
        batch_size=options.batch, batch_states=options.states, epochs=10**6, steps_per_epoch=STEPS_PER_EPOCH,
        patience=0, lr=options.lr or LEARNING_RATE[options.kind], warmup=50, schedule="time",
        time_limit=options.seconds - (time.perf_counter() - start), vary_steps=options.task == "MAR",
        losses_at=3, validation="0.03", sharpen=SHARPEN[options.kind],
        fixed_batches=True, device=options.device, seed=options.seed,
    )  # fmt: skip
    steps = STEPS_PER_EPOCH * (len(done.history) - 1)
    print(json.dumps({"file": out.name, "steps": steps, "start": done.history[0], "best": done.metrics}))


if __name__ == "__main__":
    main()
