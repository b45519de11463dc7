"""Compare fine-tuning of the shipped weights with training from scratch, and with the shipped weights as they are.

The families are not in the mixture of `experiments/weights/config.toml`, except for Ising grids. A network is judged
alone, without its comparison with BP, by the mean KL on 100 graphs of other seeds. A row has the mean over two seeds
of the training graphs, with the standard error over the test graphs.

    python -m benchmarks.fine_tuning --families potts,triangles --sizes 10,30,100
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch

from equifactor import train
from equifactor.base.status import Task
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.data_sources import read_source
from equifactor.learning.training.losses import kl_per_graph
from equifactor.learning.training.starting_weights import starting_network
from equifactor.learning.training.targets import with_targets
from equifactor.solvers.learned.network import Network
from equifactor.solvers.learned.wiring import wire

FAMILIES = {
    "potts": "pairwise(num_vars=12, degree=3, card=3, coupling_std=4, structures=4, n={n}, seed={seed})",
    "triangles": "pairwise(num_vars=25, topology=triangles, coupling_mean=-0.7, coupling_std=0.2, n={n}, seed={seed})",
    "noisy-or": "noisy-or(num_causes=10, num_effects=12, parents=2-4, prior=0.2, observed=1.0, n={n}, seed={seed})",
    "regular": "pairwise(num_vars=14, degree=7, coupling_std=0.7, field_std=0.5, structures=4, n={n}, seed={seed})",
    "networks": "network(num_vars=24, parents=2-3, card=3, window=5, sharpness=3.0, structures=4, n={n}, seed={seed})",
    "tables": "random(num_vars=18, num_factors=16, arity=3-4, strength=2.5, structures=4, n={n}, seed={seed})",
    "pedigrees": "pedigree(num_people=9, loci=2, alleles=3, typed=0.5, structures=4, n={n}, seed={seed})",
    "ising": "ising(4x4, n={n}, seed={seed})",
}
_TEST = {"n": 100, "seed": 880_001}
# Training from scratch has a larger rate and more steps than fine-tuning, and the same share of held-out graphs.
SCRATCH = {"lr": 3e-3, "batch_size": 10, "steps_per_epoch": 10, "epochs": 50, "patience": 15, "validation": 0.2}


def test_batches(family: str) -> list[Dataset]:
    """Return the test graphs of a family with exact marginals."""
    graphs, targets, _ = with_targets(read_source(FAMILIES[family].format(**_TEST)), Task.MAR)
    return [Dataset(graphs, targets, device="cpu", dtype="float32")]


def kl(network: Network, tests: Sequence[Dataset]) -> np.ndarray:
    """Return [N] the KL of the marginals of each test graph."""
    found = []
    network.eval()
    with torch.no_grad():
        for data in tests:
            for plan in data.plans(len(data)):
                batch = data.batch(plan)
                log_b = network.unroll(network.start(wire(batch.flat, "sum")))[-1]
                found.append(kl_per_graph(batch.flat, log_b, batch.target).numpy())
    return np.concatenate(found)


def shown(values: Sequence[np.ndarray]) -> str:
    """Return the mean over seeds and graphs with the standard error over the graphs."""
    mean = np.mean(values, axis=0)
    return f"{mean.mean():.5f} ± {mean.std(ddof=1) / len(mean) ** 0.5:.5f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row of a table per family and number of training graphs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated names of families")
    parser.add_argument("--sizes", default="10,30,100", help="comma-separated numbers of graphs")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--kind", default="fe-net", help="the kind of network")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print("| family | graphs | shipped | from scratch | fine-tuned | seeds better than shipped |")
    print("|---|---|---|---|---|---|")
    for family in chosen.families.split(","):
        tests = test_batches(family)
        shipped = kl(starting_network(chosen.kind, {}, Task.MAR, "shipped", 0)[0], tests)
        for size in map(int, chosen.sizes.split(",")):
            data = [FAMILIES[family].format(n=size, seed=990_000 + 1000 * s) for s in range(chosen.seeds)]
            scratch = [kl(train(chosen.kind, d, seed=s, **SCRATCH).network, tests) for s, d in enumerate(data)]  # type: ignore[arg-type]
            tuned = [kl(train(chosen.kind, d, seed=s, start="shipped").network, tests) for s, d in enumerate(data)]
            better = sum(t.mean() < shipped.mean() for t in tuned)
            cells = [family, str(size), shown([shipped]), shown(scratch), shown(tuned), f"{better} of {chosen.seeds}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
