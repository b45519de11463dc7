"""Graphs and targets as batches on a device, in a seeded order. Each structure is compiled once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from equifactor.graph import compile
from equifactor.learning.training.compiled_batches import (
    Batch,
    BatchPlan,
    CompiledBatch,
    FixedBatch,
    GraphStack,
    compose,
    edge_states,
)

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure


class Dataset:
    """Training or validation graphs on one device."""

    def __init__(
        self,
        graphs: Sequence[FactorGraph],
        targets: Sequence[Any],
        weights: Any = None,
        *,
        device: str,
        dtype: str,
        batch_states: int = 0,
        fixed: bool = False,
    ) -> None:
        """Stack the graphs of each structure on the device.

        Args:
            graphs: the graphs, of any structures.
            targets: the target of each graph: marginals [X] of its free variables, or one best score [1].
            weights: [N] the weight of each graph, relative to the mean weight; None for equal weights.
            device: where the batches are made.
            dtype: the float type of potentials, targets and weights.
            batch_states: the largest number of edge states in a batch; 0 for no limit.
            fixed: whether the structures of a batch stay the same from pass to pass.
        """
        self.graphs, self.targets = list(graphs), list(targets)
        self.device, self.dtype, self.batch_states, self.fixed = device, dtype, batch_states, fixed
        self.weights = np.ones(len(self.graphs)) if weights is None else np.asarray(weights, np.float64)
        # Relative to the mean of all graphs, not of a batch: all graphs of a batch may have a larger weight.
        self.weights = self.weights / (self.weights.mean() or 1.0)
        members: dict[Any, list[int]] = defaultdict(list)
        layouts: dict[int, bytes] = {}
        for n, g in enumerate(self.graphs):
            if id(g.structure) not in layouts:
                layouts[id(g.structure)] = _layout(g.structure)
            layout = layouts[id(g.structure)]
            members[layout, None if g.observed is None else (g.observed < 0).tobytes()].append(n)
        enough = 1 if fixed else 2  # The smallest number of graphs of one structure that are stacked.
        self.stacks = [GraphStack(self, np.array(m)) for m in members.values() if len(m) >= enough]
        self.unstacked = np.array([m[0] for m in members.values() if len(m) < enough], np.int64)
        self._compiled: dict[tuple[int, int], CompiledBatch] = {}
        self._fixed_batches: dict[int, list[FixedBatch]] = {}

    @property
    def torch_dtype(self) -> torch.dtype:
        """The float type of potentials, targets and weights."""
        return getattr(torch, self.dtype)

    def __len__(self) -> int:
        return len(self.graphs)

    def plans(self, batch_size: int, rng: np.random.Generator | None = None) -> list[BatchPlan]:
        """Return the batches of one pass, shuffled if a generator is given.

        Full batches hold one structure each and fill a compiled batch on the device. The remaining graphs of all
        structures are mixed. A batch has fewer graphs if more graphs would exceed `batch_states`. With `fixed`, each
        batch repeats the structures of an earlier batch, and only the graphs that fill it are drawn again.
        """
        if self.fixed:
            plans = [plan for batch in self._all_fixed(batch_size) for plan in batch.plans(rng)]
            return plans if rng is None else [plans[n] for n in rng.permutation(len(plans))]
        plans = []
        rest = [self.unstacked]
        for s, stack in enumerate(self.stacks):
            order = stack.members if rng is None else rng.permutation(stack.members)
            size = self._size(stack, batch_size)
            whole = len(order) // size * size
            cuts = list(range(0, whole, size))
            plans += [BatchPlan(order[c : c + size], self._compiled_batch(s, size)) for c in cuts]
            if whole < len(order) and len(self.stacks) == 1 and not len(self.unstacked):
                plans.append(BatchPlan(order[whole:], self._compiled_batch(s, len(order) - whole)))
            else:
                rest.append(order[whole:])
        mixed = np.concatenate(rest)
        mixed = mixed if rng is None else rng.permutation(mixed)
        plans += [BatchPlan(part, None) for part in self._cut(mixed, batch_size)]
        return plans if rng is None else [plans[n] for n in rng.permutation(len(plans))]

    def endless(self, batch_size: int, rng: np.random.Generator) -> Iterator[BatchPlan]:
        """Yield the plans of one pass after another, without end."""
        while True:
            yield from self.plans(batch_size, rng)

    def batch(self, plan: BatchPlan, rank: int = 0, world: int = 1) -> Batch:
        """Return the batch of a plan on the device; with several processes, the part of process `rank`."""
        if plan.compiled is not None and world == 1:
            return plan.compiled.fill(torch.tensor(plan.rows, device=self.device))
        mine = plan.indices[rank::world]
        # With fewer graphs than processes, a process without a graph takes the first graph with weight 0.
        indices = mine if len(mine) else plan.indices[:1]
        where: dict[str, Any] = {"device": self.device, "dtype": self.torch_dtype}
        flat = compile([self.graphs[n] for n in indices]).to(self.device, self.dtype)
        target = np.concatenate([np.ravel(self.targets[n]) for n in indices])
        # Gradients are averaged over the processes, so the share of each process counts `world` times.
        weight = self.weights[indices] * world / len(plan.indices) * bool(len(mine))
        return Batch(flat, torch.tensor(target, **where), torch.tensor(weight, **where))

    def retarget(self, scores: Sequence[float]) -> None:
        """Replace the targets by other best scores, for MAP."""
        self.targets = [np.array([s]) for s in scores]
        for stack in self.stacks:
            values = np.array([[scores[n]] for n in stack.members])
            stack.target.copy_(torch.tensor(values, dtype=stack.target.dtype))

    def names(self, plan: BatchPlan) -> str:
        """Return the names of the first five graphs of a batch, for an error message."""
        names = [self.graphs[n].name or f"graph {n}" for n in plan.indices.tolist()]
        return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

    def _size(self, stack: GraphStack, batch_size: int) -> int:
        """Return the number of graphs in a batch of one structure."""
        if not self.batch_states:
            return batch_size
        return min(batch_size, max(1, self.batch_states // edge_states(stack.first)))

    def _cut(self, order: IntArray, batch_size: int) -> Iterator[IntArray]:
        """Yield batches of graphs of any structure."""
        start = states = 0
        for n, graph in enumerate(order.tolist()):
            states += edge_states(self.graphs[graph]) if self.batch_states else 0
            if n > start and (n - start == batch_size or states > self.batch_states > 0):
                yield order[start:n]
                start, states = n, edge_states(self.graphs[graph])
        if len(order):
            yield order[start:]

    def _compiled_batch(self, stack: int, size: int) -> CompiledBatch:
        if (stack, size) not in self._compiled:
            self._compiled[stack, size] = CompiledBatch([self.stacks[stack]], [size], self.device, self.dtype)
        return self._compiled[stack, size]

    def _all_fixed(self, batch_size: int) -> list[FixedBatch]:
        if batch_size not in self._fixed_batches:
            self._fixed_batches[batch_size] = [
                FixedBatch(stacks, counts, self.device, self.dtype)
                for stacks, counts in compose(self.stacks, batch_size, self.batch_states)
            ]
        return self._fixed_batches[batch_size]


def _layout(structure: Structure) -> bytes:
    """Return bytes that are equal for structures that compile to the same arrays."""
    arrays = (structure.card, structure.scope_ptr, structure.scope_vars)
    return b"|".join(a.astype(np.int64).tobytes() for a in arrays)
