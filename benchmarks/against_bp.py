"""Compare the learned solvers with BP on the public models: the error of marginals, and of the score for MAP.

Models are read from a folder with the collections of `docs/data.md`, and are divided into two halves by their place in
the list of names: settings were chosen on the even half. An error of marginals is the mean total variation over the
variables. An error of MAP is that of the UAI competitions, at most 1. With `--score` marginals get the score of the
UAI-2022 competition, from 0 for uniform marginals to 100 for exact ones.

    python -m benchmarks.against_bp --data FOLDER
    python -m benchmarks.against_bp --data FOLDER --score
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from equifactor import metrics, solve
from equifactor.data.collections import Instance, collection
from equifactor.graph.marginals import Marginals

_BP = "bp(damping=0.5, iterations=200)"
SOLVERS = {
    "MAR": (_BP, "bp(damping=0.9, iterations=50)", "loop-bp", "fe-net(alone)", "fe-net", "fe-nbp"),
    "MAP": (_BP, "fe-net(alone)", "fe-net", "fe-nbp(alone)", "fe-nbp"),
}
_COLLECTIONS = {"MAR": ("MAR",), "MAP": ("Grids", "DBN", "ObjDetect", "Segment")}
_MOST_VARIABLES = 3_000  # Larger models take most of the time.


def instances(data: str, task: str) -> Iterator[tuple[int, Instance]]:
    """Yield the models of a task with the half they belong to: even or odd places, or the split for MAP."""
    found = [i for i in collection(data) if i.collection in _COLLECTIONS[task]]
    for place, instance in enumerate(sorted(found, key=lambda i: (i.family, i.name))):
        yield (place % 2 if task == "MAR" else int(instance.split == "test")), instance


def error(instance: Instance, task: str, solver: str, scored: bool = False) -> float:
    """Return the error of a solver on one model, or the score of its marginals."""
    result = solve(instance.graph(), task, solver)
    if task == "MAP":
        score = np.array([result.log_score if result.answered else -np.inf])
        return float(np.minimum(metrics.map_error(score, np.array([instance.map_log_score])), 1.0)[0])
    exact = instance.marginals()
    assert exact is not None, f"{instance.key} has no exact marginals"
    if scored:
        card = np.diff(exact.ptr)
        uniform = metrics.hellinger(exact, Marginals(np.repeat(1.0 / card, card), exact.ptr))
        found = metrics.hellinger(exact, result.marginals) if hasattr(result, "marginals") else np.inf
        return float(metrics.uai_score(found, uniform))
    return 0.5 * float(np.abs(result.marginals.values - exact.values).sum()) / len(exact)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row per family: the number of models, and for each solver the errors on both halves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("EQUIFACTOR_DATA"), help="the folder of public models")
    parser.add_argument("--task", choices=("MAR", "MAP"), default="MAR")
    parser.add_argument("--score", action="store_true", help="MAR: print scores of the UAI-2022 competition")
    parser.add_argument("--solvers", help="solvers, separated by semicolons; by default those of the task")
    chosen = parser.parse_args(arguments)
    if not chosen.data:
        parser.error("Name the folder of public models with --data or in EQUIFACTOR_DATA.")
    solvers = chosen.solvers.split(";") if chosen.solvers else SOLVERS[chosen.task]
    errors: dict[tuple[str, int], list[list[float]]] = defaultdict(list)
    for half, instance in instances(chosen.data, chosen.task):
        if len(instance.graph().card) <= _MOST_VARIABLES:
            errors[instance.family, half].append([error(instance, chosen.task, s, chosen.score) for s in solvers])
    print("family, half, models,", "score of" if chosen.score else "error by", *solvers, sep="  ")
    for (family, half), rows in sorted(errors.items()):
        print(
            f"{family:18}{half}{len(rows):4}  ",
            *(f"{e:.1f}" if chosen.score else f"{e:.4f}" for e in np.mean(rows, axis=0)),
        )


if __name__ == "__main__":
    main()
