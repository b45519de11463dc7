"""Batches that are compiled once and filled many times, for graphs that differ only in their potentials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from equifactor.graph import FlatGraph, compile

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure
    from equifactor.learning.training.batches import Dataset

# Structures whose tables have more than this number of shapes share batches with each other. Chosen by hand.
_MANY_SHAPES = 4


class Batch(NamedTuple):
    """The graphs, targets and weights of one gradient step."""

    flat: FlatGraph[Tensor]
    target: Tensor  # [X] marginals, or [G] best scores.
    weight: Tensor  # [G] the share of each graph in the loss.


class GraphStack:
    """All graphs of one structure. Their tables and targets are stacked on the device."""

    def __init__(self, data: Dataset, members: IntArray) -> None:
        graphs, targets = data.graphs, data.targets
        where: dict[str, Any] = {"device": data.device, "dtype": data.torch_dtype}
        self.members = members  # The numbers of the graphs in the data set, ascending.
        self.first = graphs[members[0]]
        self.log_phi = torch.tensor(np.stack([graphs[n].log_phi for n in members]), **where)
        self.target = torch.tensor(np.stack([targets[n] for n in members]), **where)
        self.has_zeros = bool(torch.isneginf(self.log_phi).any())
        self.weight = torch.tensor(data.weights[members], **where)


class CompiledBatch:
    """A compiled batch with `counts[k]` graphs of `stacks[k]`. The method `fill` sets their potentials."""

    def __init__(self, stacks: Sequence[GraphStack], counts: Sequence[int], device: str, dtype: str) -> None:
        flat = compile([stack.first for stack, n in zip(stacks, counts, strict=True) for _ in range(n)])
        self.stacks, self.ends = list(stacks), np.cumsum(counts).tolist()
        self.order = torch.tensor(flat.entry_order, device=device)
        self.flat = replace(flat.to(device, dtype), has_zeros=any(stack.has_zeros for stack in stacks))

    def fill(self, rows: Tensor) -> Batch:
        """Return the batch of these rows of the stacks, stack by stack; everything stays on the device."""
        parts = list(zip(self.stacks, torch.tensor_split(rows, self.ends[:-1]), strict=True))
        log_phi = torch.cat([stack.log_phi[part].reshape(-1) for stack, part in parts])[self.order]
        target = torch.cat([stack.target[part].reshape(-1) for stack, part in parts])
        weight = torch.cat([stack.weight[part] for stack, part in parts])
        return Batch(replace(self.flat, log_phi=log_phi), target, weight / len(weight))

    def rows(self, indices: IntArray) -> IntArray:
        """Return the row of each graph in its stack, for graphs given stack by stack."""
        parts = zip(self.stacks, np.split(indices, self.ends[:-1]), strict=True)
        return np.concatenate([np.searchsorted(stack.members, part) for stack, part in parts])


@dataclass(frozen=True)
class BatchPlan:
    """The graphs of a batch, and the compiled batch that they fill, or None."""

    indices: IntArray
    compiled: CompiledBatch | None

    @property
    def rows(self) -> IntArray:
        """The rows of the graphs in the stacks of the compiled batch."""
        assert self.compiled is not None
        return self.compiled.rows(self.indices)


class FixedBatch:
    """A batch whose structures stay the same from step to step, so that a GPU captures it once."""

    def __init__(self, stacks: Sequence[GraphStack], counts: Sequence[int], device: str, dtype: str) -> None:
        self.compiled = CompiledBatch(stacks, counts, device, dtype)
        self.counts = counts

    def plans(self, rng: np.random.Generator | None = None) -> list[BatchPlan]:
        """Return enough batches to use every graph at least once; graphs of small stacks are used more often."""
        stacks = self.compiled.stacks
        number = max(-(-len(s.members) // n) for s, n in zip(stacks, self.counts, strict=True))
        columns = []
        for stack, count in zip(stacks, self.counts, strict=True):
            order = stack.members if rng is None else rng.permutation(stack.members)
            columns.append(np.resize(order, (number, count)))
        return [BatchPlan(row, self.compiled) for row in np.concatenate(columns, axis=1)]


def compose(
    stacks: Sequence[GraphStack], batch_size: int, batch_states: int
) -> list[tuple[list[GraphStack], list[int]]]:
    """Return the stacks of each batch, and the number of graphs that the batch takes from each stack.

    All tables of one shape are processed in one operation, so structures with the same few shapes share batches,
    smaller structures first. Structures with zeros slow a batch down, and share batches only with each other.
    """
    classes: dict[Any, list[GraphStack]] = defaultdict(list)
    for stack in stacks:
        shapes = frozenset(_shapes(stack.first.structure))
        if stack.has_zeros:  # Excluded states make the shapes of each structure differ, so only sizes are compared.
            key: Any = max(map(len, shapes), default=0), max((d for s in shapes for d in s), default=0)
        else:
            key = shapes if len(shapes) <= _MANY_SHAPES else None
        classes[key].append(stack)
    batches: list[tuple[list[GraphStack], list[int]]] = []
    for members in classes.values():
        queue = sorted(members, key=lambda stack: edge_states(stack.first))
        while queue:
            part = _fitting(queue, batch_size, batch_states)
            queue = queue[len(part) :]
            graphs = np.array([len(stack.members) for stack in part])
            states = np.array([edge_states(stack.first) for stack in part])
            # Each stack gets its share of the graphs that fit, and at least one graph.
            room = batch_states * graphs.sum() / (graphs * states).sum() if batch_states else np.inf
            share = min(batch_size, room) * graphs / graphs.sum()
            batches.append((part, np.maximum(1, share.astype(np.int64)).tolist()))
    return batches


def edge_states(graph: FactorGraph) -> int:
    """Return the number of edge states of a graph, at least 1."""
    return max(1, int(graph.structure.card[graph.structure.scope_vars].sum()))


def _fitting(queue: list[GraphStack], batch_size: int, batch_states: int) -> list[GraphStack]:
    """Return the first stacks such that one graph of each fills at most half a batch; at least one stack."""
    states = np.cumsum([edge_states(stack.first) for stack in queue])
    number = int(np.searchsorted(states, batch_states / 2, side="right")) if batch_states else len(queue)
    return queue[: max(1, min(number, batch_size))]


def _shapes(structure: Structure) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of the tables with two or more variables."""
    for a in np.flatnonzero(structure.arity > 1).tolist():
        yield structure.shape(a)
