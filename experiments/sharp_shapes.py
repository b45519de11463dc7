"""Batches of other models for training on a GPU: near-determinism, zeros, several states, with targets made beforehand.

All graphs of a family have tables of few shapes, so that a step is few operations, and its capture takes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equifactor import FactorGraph, Status, generators, solve
from equifactor.base.status import Task
from equifactor.factors.dense_graph import with_tables
from equifactor.graph import FlatGraph
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.compiled_batches import BatchPlan
from equifactor.learning.training.data_sources import Source, read_source
from equifactor.learning.training.targets import with_targets
from experiments import trust_graphs as families

_SEED = 77  # The fit of trust has seed 0.
_MEMORY = 0.03  # GiB for exact marginals.
_LARGEST_ARITY = 6  # Larger tables would make shapes of their own.
_HELD_OUT = 6  # One of this number of graphs is held out.
_STATES, _GRAPHS = 40_000, 100  # Edge states and graphs in a batch.
_WITHOUT_ZEROS = -16.0  # Lower limit of log values in families whose zeros would exclude states.


@dataclass(frozen=True)
class SharpFamily:
    """A family of graphs: its name, how many, how one is drawn, and the lower limit of its log values."""

    name: str
    count: int
    draw: Callable[[np.random.Generator], FactorGraph]
    lowest: float = -np.inf

    def graphs(self, share: float = 1.0) -> list[FactorGraph]:
        """Return graphs with quick exact marginals."""
        found: list[FactorGraph] = []
        for n in range(4 * self.count):
            graph = self.draw(np.random.default_rng([_SEED, sum(map(ord, self.name)), n]))
            if len(found) == max(2, round(share * self.count)):
                break
            if not len(graph.free_vars) or graph.structure.arity.max() > _LARGEST_ARITY:
                continue
            graph = with_tables(graph, "training")
            tables = np.maximum(graph.log_phi, self.lowest)
            graph = FactorGraph.trusted(graph.structure, tables, graph.observed, graph.name)
            if solve(graph, "MAR", f"exact(memory_limit={_MEMORY})").status is Status.EXACT:
                found.append(graph)
        return found


def sharp_families() -> list[SharpFamily]:
    """Return the families that are drawn as in the fit of trust, with other seeds."""
    f = families
    return [
        SharpFamily("two slices 2", 160, partial(f.two_slices, states=2)),
        SharpFamily("two slices 3", 100, partial(f.two_slices, states=3)),
        SharpFamily("networks 2", 160, partial(f.bayesian_network, states=2)),
        SharpFamily("or gates", 160, f.or_gates),
        SharpFamily("or gates without zeros", 100, f.or_gates, -12.0),
        SharpFamily("long gates", 80, f.long_gates),
        SharpFamily("diagnosis", 160, f.diagnosis),
        SharpFamily("pedigrees 2", 120, partial(f.pedigree, states=2), _WITHOUT_ZEROS),
        SharpFamily("pedigrees 3", 80, partial(f.pedigree, states=3), _WITHOUT_ZEROS),
        SharpFamily("large pedigrees 2", 60, partial(f.large_pedigree, states=2), _WITHOUT_ZEROS),
        SharpFamily("formulas", 160, f.formulas),
        SharpFamily("colourings 3", 120, partial(f.colourings, states=3)),
        SharpFamily("colourings 4", 80, partial(f.colourings, states=4)),
        SharpFamily("labels 3", 80, partial(f.labels, states=3)),
        SharpFamily("labels 4", 60, partial(f.labels, states=4)),
    ]


# Further families by their generators; the seed is added. Graphs of one structure train together.
GENERATED = {
    "Potts 3": [f"potts(4x4, states=3, coupling_std={c}, n=50" for c in (0.7, 1.0, 2.0, 4.0)],
    "Potts 5": [f"potts(4x4, states=5, coupling_std={c}, n=40" for c in (1.0, 2.0, 4.0)],
    "random 16": ["random(num_vars=16, num_factors=26, arity=1-3, structures=10, n=260"],
    "random 30": ["random(num_vars=30, num_factors=40, arity=2-3, structures=7, n=200"],
    "random zeros": ["random(num_vars=14, num_factors=18, arity=2-4, zeros=0.15, structures=6, n=200"],
    "random strong": [
        "random(num_vars=16, num_factors=22, arity=1-4, strength=1.5, zeros=0.15, n=100",
        "random(num_vars=20, num_factors=26, arity=2-3, strength=2.0, n=80",
    ],
    "sharp networks": [
        f"network(num_vars=24, parents=1-3, sharpness={s}, observed=0.3, structures=4, n=70" for s in (1.5, 4.0, 8.0)
    ],
    "long networks": ["network(num_vars=60, parents=1-2, window=8, sharpness=3.0, observed=0.4, structures=4, n=120"],
}


def _pairs_of_many_states() -> dict[str, list[FactorGraph]]:
    draw: Callable[..., Any] = partial(generators.pairwise_field, tables="full", seed=_SEED)
    return {
        "dense pairs 4": draw(7, topology="complete", card=4, coupling_std=0.8, count=90),
        "regular 6": draw(12, degree=4, card=6, coupling_std=1.0, field_std=1.0, count=70),
        "triangles 8": draw(16, topology="triangles", card=8, coupling_std=0.9, field_std=1.5, count=40),
    }


def sharp_shapes(share: float = 1.0) -> list[SharpShape]:
    """Return all families with a share of their graphs, and compute their targets."""
    made = {family.name: family.graphs(share) for family in sharp_families()}
    for number, (name, texts) in enumerate(GENERATED.items()):
        graphs = [
            g for k, text in enumerate(texts) for g in read_source(f"{text}, seed={900 + 10 * number + k})").graphs
        ]
        made[name] = graphs[: max(2, round(share * len(graphs)))]
    made |= {name: graphs[: max(2, round(share * len(graphs)))] for name, graphs in _pairs_of_many_states().items()}
    return [SharpShape(name, graphs) for name, graphs in made.items()]


class SharpShape:
    """The graphs of a family as batches with fixed structures, and their held-out graphs."""

    def __init__(self, name: str, graphs: Sequence[FactorGraph]) -> None:
        self.name, self.plain = name, True  # The fused kernels do not take these batches.
        known, targets, _ = with_targets(Source(graphs, [None] * len(graphs), name), Task.MAR)
        # A state that is excluded would make a table of another shape.
        usual = {int(c) for g in graphs for c in g.card}
        kept = [n for n, g in enumerate(known) if set(g.card[g.free_vars].tolist()) <= usual - {1}]
        self.graphs, self.targets = [known[n] for n in kept], [targets[n] for n in kept]

    def prepare(self, device: str, seed: int, number: int) -> None:
        """Stack the graphs on a device and compile all batches."""
        held = np.arange(len(self.graphs)) % _HELD_OUT == min(_HELD_OUT, len(self.graphs)) - 1
        where: dict[str, Any] = {"device": device, "dtype": "float32"}

        def dataset(chosen: np.ndarray, **more: Any) -> Dataset:
            places = np.flatnonzero(chosen).tolist()
            return Dataset([self.graphs[n] for n in places], [self.targets[n] for n in places], **where, **more)

        self.data, self.held_out = dataset(~held, batch_states=_STATES, fixed=True), dataset(held)
        self.rng = np.random.default_rng([seed, number])
        self.device = device
        self.waiting = self.data.plans(_GRAPHS, self.rng)
        self.rows: dict[int, Tensor] = {}

    def next_plan(self) -> tuple[BatchPlan, Tensor]:
        """Return the next batch, and its rows in a tensor that stays the same for its structures."""
        if not self.waiting:
            self.waiting = self.data.plans(_GRAPHS, self.rng)
        plan = self.waiting.pop()
        rows = torch.tensor(plan.rows, device=self.device)
        return plan, self.rows.setdefault(id(plan.compiled), rows.clone()).copy_(rows)

    def judged(self) -> Iterator[tuple[FlatGraph[Tensor], Tensor]]:
        """Yield the batches of held-out graphs."""
        for plan in self.held_out.plans(len(self.held_out)):
            batch = self.held_out.batch(plan)
            yield batch.flat, batch.target
