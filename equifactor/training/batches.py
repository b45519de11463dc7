"""Graphs and targets as batches on a device: seeded order, one structure at a time, nothing compiled twice."""

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
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure
    from equifactor.typing import IntArray


@dataclass(frozen=True)
class Plan:
    """Which graphs make up a batch; `template` is set where one is compiled for graphs of these structures."""

    indices: IntArray
    template: Template | None

    @property
    def rows(self) -> IntArray:
        """Rows of the graphs in the shelves of the template."""
        assert self.template is not None
        parts = zip(self.template.shelves, self.template.split(self.indices), strict=True)
        return np.concatenate([np.searchsorted(shelf.members, part) for shelf, part in parts])


class Batch(NamedTuple):
    """What one gradient step sees."""

    flat: FlatGraph[Tensor]
    target: Tensor  # [X] marginals, or [G] best scores
    weight: Tensor  # [G] share of each graph in the loss


class Shelf:
    """All graphs of one structure, their tables and targets stacked on the device."""

    def __init__(self, data: Dataset, members: IntArray) -> None:
        graphs, targets = data.graphs, data.targets
        where = {"device": data.device, "dtype": getattr(torch, data.dtype)}
        self.members = members  # ascending
        self.first = graphs[members[0]]
        self.log_phi = torch.tensor(np.stack([graphs[n].log_phi for n in members]), **where)
        self.target = torch.tensor(np.stack([targets[n] for n in members]), **where)
        self.has_zeros = bool(torch.isneginf(self.log_phi).any())
        self.weight = torch.tensor(data.weights[members], **where)


class Template:
    """A compiled batch of `counts` graphs of each of some shelves, waiting for their potentials."""

    def __init__(self, shelves: Sequence[Shelf], counts: Sequence[int], device: str, dtype: str) -> None:
        flat = compile([shelf.first for shelf, n in zip(shelves, counts, strict=True) for _ in range(n)])
        self.shelves, self.ends = list(shelves), np.cumsum(counts).tolist()
        self.order = torch.tensor(flat.entry_order, device=device)
        self.flat = replace(flat.to(device, dtype), has_zeros=any(shelf.has_zeros for shelf in shelves))

    def fill(self, rows: Tensor) -> Batch:
        """The batch of these rows of the shelves, one shelf after the other; stays on the device."""
        parts = list(zip(self.shelves, torch.tensor_split(rows, self.ends[:-1]), strict=True))
        log_phi = torch.cat([shelf.log_phi[part].reshape(-1) for shelf, part in parts])[self.order]
        target = torch.cat([shelf.target[part].reshape(-1) for shelf, part in parts])
        weight = torch.cat([shelf.weight[part] for shelf, part in parts])
        return Batch(replace(self.flat, log_phi=log_phi), target, weight / len(weight))

    def split(self, values: IntArray) -> list[IntArray]:
        """One number per graph, shelf by shelf."""
        return np.split(values, self.ends[:-1])


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
        self.graphs, self.targets = list(graphs), list(targets)
        self.device, self.dtype, self.batch_states, self.fixed = device, dtype, batch_states, fixed
        self.weights = np.ones(len(self.graphs)) if weights is None else np.asarray(weights, np.float64)
        # Against the mean of all graphs, not of a batch: a batch holds one structure, whose graphs may all count more.
        self.weights = self.weights / (self.weights.mean() or 1.0)
        members: dict[Any, list[int]] = defaultdict(list)
        layouts: dict[int, bytes] = {}
        for n, g in enumerate(self.graphs):
            if id(g.structure) not in layouts:
                layouts[id(g.structure)] = _layout(g.structure)
            layout = layouts[id(g.structure)]
            members[layout, None if g.observed is None else (g.observed < 0).tobytes()].append(n)
        enough = 1 if fixed else 2  # graphs of one structure that are worth a shelf
        self.shelves = [Shelf(self, np.array(m)) for m in members.values() if len(m) >= enough]
        self.loose = np.array([m[0] for m in members.values() if len(m) < enough], np.int64)
        self._templates: dict[tuple[int, int], Template] = {}
        self._racks: dict[int, list[Rack]] = {}

    @property
    def torch_dtype(self) -> torch.dtype:
        """Of potentials, targets and weights."""
        return getattr(torch, self.dtype)

    def __len__(self) -> int:
        return len(self.graphs)

    def plans(self, batch_size: int, rng: np.random.Generator | None = None) -> list[Plan]:
        """One pass in batches, shuffled where a generator is given.

        Full batches hold one structure each: they fill a compiled template on the device. What is left over of every
        structure is mixed. A batch has fewer graphs where more would exceed `batch_states`. Where batches are `fixed`
        each repeats the structures of an earlier one; only the graphs that fill it are drawn anew.
        """
        if self.fixed:
            plans = [plan for rack in self._all_racks(batch_size) for plan in rack.plans(rng)]
            return plans if rng is None else [plans[n] for n in rng.permutation(len(plans))]
        plans = []
        rest = [self.loose]
        for s, shelf in enumerate(self.shelves):
            order = shelf.members if rng is None else rng.permutation(shelf.members)
            size = self._size(shelf, batch_size)
            whole = len(order) // size * size
            cuts = list(range(0, whole, size))
            plans += [Plan(order[c : c + size], self._template(s, size)) for c in cuts]
            if whole < len(order) and len(self.shelves) == 1 and not len(self.loose):
                plans.append(Plan(order[whole:], self._template(s, len(order) - whole)))
            else:
                rest.append(order[whole:])
        mixed = np.concatenate(rest)
        mixed = mixed if rng is None else rng.permutation(mixed)
        plans += [Plan(part, None) for part in self._cut(mixed, batch_size)]
        return plans if rng is None else [plans[n] for n in rng.permutation(len(plans))]

    def _size(self, shelf: Shelf, batch_size: int) -> int:
        """Graphs of a batch of one structure."""
        if not self.batch_states:
            return batch_size
        return min(batch_size, max(1, self.batch_states // _edge_states(shelf.first)))

    def _cut(self, order: IntArray, batch_size: int) -> Iterator[IntArray]:
        """Batches of graphs of any structure, one after the other."""
        start = states = 0
        for n, graph in enumerate(order.tolist()):
            states += _edge_states(self.graphs[graph]) if self.batch_states else 0
            if n > start and (n - start == batch_size or states > self.batch_states > 0):
                yield order[start:n]
                start, states = n, _edge_states(self.graphs[graph])
        if len(order):
            yield order[start:]

    def endless(self, batch_size: int, rng: np.random.Generator) -> Iterator[Plan]:
        """Pass after pass."""
        while True:
            yield from self.plans(batch_size, rng)

    def batch(self, plan: Plan, rank: int = 0, world: int = 1) -> Batch:
        """The batch of a plan on the device; with several processes the share of one of them."""
        if plan.template is not None and world == 1:
            return plan.template.fill(torch.tensor(plan.rows, device=self.device))
        mine = plan.indices[rank::world]
        indices = mine if len(mine) else plan.indices[:1]  # fewer graphs than processes: a stand-in that counts nothing
        where: dict[str, Any] = {"device": self.device, "dtype": getattr(torch, self.dtype)}
        flat = compile([self.graphs[n] for n in indices]).to(self.device, self.dtype)
        target = np.concatenate([np.ravel(self.targets[n]) for n in indices])
        # Gradients are averaged over the processes, so each one's share of the whole batch counts `world` times.
        weight = self.weights[indices] * world / len(plan.indices) * bool(len(mine))
        return Batch(flat, torch.tensor(target, **where), torch.tensor(weight, **where))

    def retarget(self, scores: Sequence[float]) -> None:
        """MAP: other best scores."""
        self.targets = [np.array([s]) for s in scores]
        for shelf in self.shelves:
            values = np.array([[scores[n]] for n in shelf.members])
            shelf.target.copy_(torch.tensor(values, dtype=shelf.target.dtype))

    def names(self, plan: Plan) -> str:
        """The first few graphs, for a message."""
        names = [self.graphs[n].name or f"graph {n}" for n in plan.indices.tolist()]
        return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

    def _template(self, shelf: int, size: int) -> Template:
        if (shelf, size) not in self._templates:
            self._templates[shelf, size] = Template([self.shelves[shelf]], [size], self.device, self.dtype)
        return self._templates[shelf, size]

    def _all_racks(self, batch_size: int) -> list[Rack]:
        if batch_size not in self._racks:
            self._racks[batch_size] = [
                Rack(shelves, counts, self.device, self.dtype)
                for shelves, counts in compose(self.shelves, batch_size, self.batch_states)
            ]
        return self._racks[batch_size]


class Rack:
    """A batch whose structures stay the same from step to step: on a GPU it is captured once for all of them."""

    def __init__(self, shelves: Sequence[Shelf], counts: Sequence[int], device: str, dtype: str) -> None:
        self.template = Template(shelves, counts, device, dtype)
        self.counts = counts

    def plans(self, rng: np.random.Generator | None = None) -> list[Plan]:
        """So many batches that every graph comes at least once; those of small shelves come more often."""
        shelves = self.template.shelves
        number = max(-(-len(s.members) // n) for s, n in zip(shelves, self.counts, strict=True))
        columns = []
        for shelf, count in zip(shelves, self.counts, strict=True):
            order = shelf.members if rng is None else rng.permutation(shelf.members)
            columns.append(np.resize(order, (number, count)))
        return [Plan(row, self.template) for row in np.concatenate(columns, axis=1)]


_MANY_SHAPES = 4  # tables of more shapes than these make a structure ragged, and it goes with others of the kind


def compose(shelves: Sequence[Shelf], batch_size: int, batch_states: int) -> list[tuple[list[Shelf], list[int]]]:
    """Shelves that share a batch, and how many graphs of each.

    Tables of one shape are one operation, so structures with the same few shapes go together, by their number of
    graphs, smaller ones first. Those with zeros, which slow a batch down, stay among themselves.
    """
    classes: dict[Any, list[Shelf]] = defaultdict(list)
    for shelf in shelves:
        shapes = frozenset(_shapes(shelf.first.structure))
        if shelf.has_zeros:  # which states they exclude makes each structure one of its own: only sizes are alike
            key: Any = max(map(len, shapes), default=0), max((d for s in shapes for d in s), default=0)
        else:
            key = shapes if len(shapes) <= _MANY_SHAPES else None
        classes[key].append(shelf)
    batches: list[tuple[list[Shelf], list[int]]] = []
    for members in classes.values():
        queue = sorted(members, key=lambda shelf: _edge_states(shelf.first))
        while queue:
            part = _fitting(queue, batch_size, batch_states)
            queue = queue[len(part) :]
            graphs = np.array([len(shelf.members) for shelf in part])
            states = np.array([_edge_states(shelf.first) for shelf in part])
            # As many as fit when each shelf gets its share, but at least one of each.
            room = batch_states * graphs.sum() / (graphs * states).sum() if batch_states else np.inf
            share = min(batch_size, room) * graphs / graphs.sum()
            batches.append((part, np.maximum(1, share.astype(np.int64)).tolist()))
    return batches


def _fitting(queue: list[Shelf], batch_size: int, batch_states: int) -> list[Shelf]:
    """The first shelves of which one graph each make half a batch at most; one shelf at least."""
    states = np.cumsum([_edge_states(shelf.first) for shelf in queue])
    number = int(np.searchsorted(states, batch_states / 2, side="right")) if batch_states else len(queue)
    return queue[: max(1, min(number, batch_size))]


def _shapes(structure: Structure) -> Iterator[tuple[int, ...]]:
    """Of the tables of two variables and more."""
    for a in np.flatnonzero(structure.arity > 1).tolist():
        yield structure.shape(a)


def _edge_states(graph: FactorGraph) -> int:
    return max(1, int(graph.structure.card[graph.structure.scope_vars].sum()))


def _layout(structure: Structure) -> bytes:
    """Equal for graphs that compile alike, also where two generators made them."""
    arrays = (structure.card, structure.scope_ptr, structure.scope_vars)
    return b"|".join(a.astype(np.int64).tobytes() for a in arrays)
