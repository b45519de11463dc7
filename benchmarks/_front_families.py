"""The families of `benchmarks.front`: models that do not fit easy exact inference, and their true answers."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import equifactor as ef
from benchmarks.coverage import pairs
from equifactor.graph.marginals import Marginals

_g = ef.generators
_TRUTH_MEMORY = 24  # GiB of tables for true answers. A grid of 22 rows needs 22.
_TRUTH_SECONDS = 30.0  # Seconds for the best known assignment of a generated model.


def regular(seed: int, n: int, degree: int, coupling: float) -> ef.FactorGraph:
    """Return spins on a random regular graph, with normal couplings and weak normal fields."""
    rng = np.random.default_rng(seed)
    while True:  # Draw ends of edges until no edge is a loop or doubled.
        ends = np.sort(rng.permutation(np.repeat(np.arange(n), degree)).reshape(-1, 2), axis=1)
        good = len(np.unique(ends, axis=0)) == len(ends) and bool(np.all(ends[:, 0] < ends[:, 1]))
        if good:
            break
    factors: list[Any] = [([i], np.exp([h, -h])) for i, h in enumerate(0.25 * rng.standard_normal(n))]
    for (i, j), c in zip(ends.tolist(), coupling * rng.standard_normal(len(ends)), strict=True):
        factors.append(([i, j], np.exp([[c, -c], [-c, c]])))
    return ef.FactorGraph([2] * n, factors)


@dataclass(frozen=True)
class Family:
    """Models of one kind and a task.

    Attributes:
        task: MAR or MAP.
        make: returns the model of a seed; None for a public family.
        public: the beginning of the names of public models, such as `MAR/DBN_`.
    """

    task: str
    make: Callable[[int], ef.FactorGraph] | None = None
    public: str = ""

    def graphs(self, count: int) -> list[str]:
        """Return the names of the first models: seeds, or names of public models. Those at even places are for tuning.

        Public models are those of the folder that EQUIFACTOR_DATA names.
        """
        if self.make is not None:
            return [str(seed) for seed in range(count)]
        if "EQUIFACTOR_DATA" not in os.environ:
            return []
        return sorted(_instances(self.public))[:count]

    def graph(self, name: str) -> ef.FactorGraph:
        """Return one model."""
        return self.make(int(name)) if self.make is not None else _instances(self.public)[name].graph()

    def truth(self, name: str, file: Path) -> np.ndarray:
        """Return the exact marginals, or the best known log score, from a file or computed once."""
        if file.exists():
            return np.load(file)
        graph = self.graph(name)
        if self.make is None:
            found = _instances(self.public)[name]
            known = found.marginals() if self.task == "MAR" else None
            answer = known.values if known is not None else np.array(found.map_log_score)
        elif self.task == "MAR":
            exact = ef.solve(graph, "MAR", f"exact(memory_limit={_TRUTH_MEMORY})")
            if exact.status is not ef.Status.EXACT:
                raise RuntimeError(f"The truth of model {name} is not known: {exact.message}")
            answer = exact.marginals.values
        else:
            answer = np.array(ef.solve(graph, "MAP", "auto", time_limit=_TRUTH_SECONDS).log_score)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, answer)
        return answer

    def as_marginals(self, graph: ef.FactorGraph, values: np.ndarray) -> Marginals:
        """Return true marginals in the form that metrics compare."""
        return Marginals(values, graph.structure.state_ptr)


@functools.cache
def _instances(beginning: str) -> dict[str, Any]:
    """Return the public models whose keys begin so, by key, if their answers are known."""
    collection = ef.data.collection(name=beginning.split("/")[0])
    return {i.key: i for i in collection if i.key.startswith(beginning)}


FAMILIES: dict[str, Family] = {
    "Ising 20x20": Family("MAR", lambda s: _g.ising_grid(20, 20, seed=s)),
    "Ising 20x20, J = 2": Family("MAR", lambda s: _g.ising_grid(20, 20, coupling_std=2.0, seed=s)),
    "Ising 20x30": Family("MAR", lambda s: _g.ising_grid(20, 30, seed=s)),
    "Potts 10x20, 4 states": Family("MAR", lambda s: _g.potts_grid(10, 20, states=4, seed=s)),
    "regular, degree 3": Family("MAR", lambda s: regular(s, 100, 3, 1.0)),
    "regular, degree 6": Family("MAR", lambda s: regular(s, 40, 6, 0.5)),
    "all pairs": Family("MAR", lambda s: pairs(np.random.default_rng(s), 24, 0.4, 1.0)),
    "noisy-or": Family("MAR", lambda s: _g.noisy_or_network(60, 70, parents=(2, 4), observed=0.7, seed=s)),
    "DBN": Family("MAR", public="MAR/DBN_"),
    "Grids": Family("MAR", public="MAR/Grids_"),
    "linkage": Family("MAR", public="MAR/linkage_"),
    "Pedigree": Family("MAR", public="MAR/Pedigree_"),
    "Promedus": Family("MAR", public="MAR/Promedus_"),
    "ObjectDetection": Family("MAR", public="MAR/ObjectDetection_"),
    "MAP Ising 25x25": Family("MAP", lambda s: _g.ising_grid(25, 25, seed=s)),
    "MAP Potts 20x20, 4 states": Family("MAP", lambda s: _g.potts_grid(20, 20, states=4, seed=s)),
    "MAP regular, degree 6": Family("MAP", lambda s: regular(s, 100, 6, 1.0)),
    "MAP all pairs": Family("MAP", lambda s: pairs(np.random.default_rng(s), 40, 1.0, 1.0)),
    "MAP Grids": Family("MAP", public="Grids/"),
    "MAP Segment": Family("MAP", public="Segment/"),
    "MAP ObjDetect": Family("MAP", public="ObjDetect/"),
    "MAP DBN": Family("MAP", public="DBN/"),
    "MAP Promedas": Family("MAP", public="Promedas/"),
}  # fmt: skip

_MEMORY = "memory_limit=0.015625"  # 16 MiB of tables.
SOLVERS: dict[str, tuple[str, ...]] = {  # Each task with its solvers, the last of which is compared with the others.
    "MAR": (
        "bp", "bp(damping=0.5)", "bp(damping=0.9, iterations=50)", "bp(schedule=residual)", "loop-bp", "trw",
        "meanfield",
        "fe-net", "fe-nbp", "fe-gnn", "gibbs", f"regions({_MEMORY})", f"blocks({_MEMORY})", f"conditioning({_MEMORY})",
        f"mini-buckets({_MEMORY})", f"exact({_MEMORY})", f"auto({_MEMORY})",
    ),
    "MAP": (
        "bp", "bp(damping=0.5)", "fe-net", "fe-nbp", "fe-gnn", "best-first", "beam", "local-search", "mplp", "srmp",
        "srmp(cycles=true)", "branch", f"exact({_MEMORY})", f"auto({_MEMORY})",
    ),
}  # fmt: skip
LEARNED = "fe-net", "fe-nbp", "fe-gnn"


def limits_from(first: float, last: float) -> list[float]:
    """Return the limits 1 or 3 x 10^n seconds between two others, two for each factor of ten."""
    steps = (m * 10.0**n for n, m in itertools.product(range(-3, 3), (1, 3)))
    return [*(round(s, 6) for s in steps if first <= s < last), last]
