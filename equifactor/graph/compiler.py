"""From factor graphs to a `FlatGraph`: join the graphs, group their factors by table shape, lay out the messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import ModelError
from equifactor.graph.factor_graph import FactorGraph, as_graphs
from equifactor.graph.flat_graph import Axis, FactorGroup, FlatGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.graph.structure import Structure

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


def compile(graphs: FactorGraph | Sequence[FactorGraph]) -> FlatGraph[np.ndarray]:
    """Compile one graph or a batch of different ones; observed variables are left out.

    Cost O(T + E log F): array operations per table shape, no loop over factors. Graphs that share their
    structure (from `with_potentials` or a generator) are laid side by side without looking at each again.
    """
    batch = tuple(as_graphs(graphs))
    if not batch:
        raise ModelError("compile needs at least one graph")
    parts = _concatenate(batch)
    order, shapes, bounds = _groups_of(parts)

    size = np.diff(parts.table_ptr)
    groups: list[FactorGroup] = []
    edge_blocks: list[IntArray] = []  # original edge numbers, in flat order
    entry_blocks: list[IntArray] = []
    edge_state_blocks: list[IntArray] = []
    first_edge = first_edge_state = first_entry = 0
    for shape, start, stop in zip(shapes, bounds[:-1], bounds[1:], strict=True):
        factors = order[start:stop]
        slots, edges = [], []
        for j, d in enumerate(shape):
            edge = parts.scope_ptr[factors] + j
            states = parts.var_ptr[parts.scope_vars[edge]][:, None] + np.arange(d)
            edge_blocks.append(edge)
            edge_state_blocks.append(states.ravel())
            edges.append(slice(first_edge, first_edge + len(edge)))
            slots.append(slice(first_edge_state, first_edge_state + states.size))
            first_edge += len(edge)
            first_edge_state += states.size
        block = parts.table_ptr[factors][:, None] + np.arange(size[factors[0]])
        entry_blocks.append(block.ravel())
        entries = slice(first_entry, first_entry + block.size)
        groups.append(FactorGroup(shape, factors, entries, tuple(slots), tuple(edges)))
        first_entry += block.size

    edge_order = _join(edge_blocks)
    entry_order = _join(entry_blocks)
    log_phi = parts.log_phi[entry_order]
    var_of_edge = parts.scope_vars[edge_order]
    arrays: dict[str, Any] = {
        "log_phi": log_phi,
        "var_ptr": parts.var_ptr,
        "var_of_state": np.repeat(np.arange(len(parts.card)), parts.card),
        "state_of_edge_state": _join(edge_state_blocks),
        "edge_of_edge_state": np.repeat(np.arange(len(edge_order)), parts.card[var_of_edge]),
        "var_of_edge": var_of_edge,
        "factor_of_edge": parts.factor_of_edge[edge_order],
        "graph_of_var": parts.graph_of(parts.graph_ptr["variables"]),
        "graph_of_factor": parts.graph_of(parts.graph_ptr["factors"]),
        "factor_of_entry": np.repeat(order, size[order]),
        "entry_order": entry_order,
    }
    for array in arrays.values():
        array.flags.writeable = False
    return FlatGraph(
        **arrays,
        groups=tuple(groups),
        has_zeros=bool(np.isneginf(log_phi).any()),
        graphs=batch,
        graph_ptr=parts.graph_ptr,
    )


@dataclass(frozen=True)
class _Parts:
    """The graphs one after the other, still in their own factor order, free variables renumbered."""

    card: IntArray  # [V]
    var_ptr: IntArray  # [V+1]
    scope_ptr: IntArray  # [F+1]
    scope_vars: IntArray  # [E]
    table_ptr: IntArray  # [F+1]
    log_phi: FloatArray  # [T]
    graph_ptr: dict[Axis, IntArray]

    @property
    def factor_of_edge(self) -> IntArray:
        return np.repeat(np.arange(len(self.scope_ptr) - 1), np.diff(self.scope_ptr))

    def graph_of(self, ptr: IntArray) -> IntArray:
        return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def _concatenate(batch: tuple[FactorGraph, ...]) -> _Parts:
    """Join the arrays of all graphs; runs of graphs with one structure are repeated, not visited."""
    cards, arities, scopes, sizes = [], [], [], []
    count = {"variables": [], "factors": [], "states": [], "entries": []}  # type: dict[Axis, list[int]]
    first_var = 0
    for run in _runs(batch):
        graph, n = run[0], len(run)
        s = graph.structure
        card, scope_vars = _free_part(s, graph.observed)
        cards.append(np.tile(card, n))
        arities.append(np.tile(s.arity, n))
        sizes.append(np.tile(np.diff(s.table_ptr), n))
        shift = first_var + np.arange(n)[:, None] * len(card)
        scopes.append((scope_vars[None, :] + shift).ravel())
        count["variables"] += [len(card)] * n
        count["states"] += [int(card.sum())] * n
        count["factors"] += [s.num_factors] * n
        count["entries"] += [s.num_entries] * n
        first_var += n * len(card)
    card = _join(cards)
    return _Parts(
        card=card,
        var_ptr=_ptr(card),
        scope_ptr=_ptr(_join(arities)),
        scope_vars=_join(scopes),
        table_ptr=_ptr(_join(sizes)),
        log_phi=np.concatenate([g.log_phi for g in batch]),
        graph_ptr={axis: _ptr(np.array(n, np.int64)) for axis, n in count.items()},
    )


def _runs(batch: tuple[FactorGraph, ...]) -> Iterator[Sequence[FactorGraph]]:
    """Neighbouring graphs that share structure and set of observed variables."""
    start = 0
    for stop in range(1, len(batch) + 1):
        if stop == len(batch) or not _same_layout(batch[start], batch[stop]):
            yield batch[start:stop]
            start = stop


def _same_layout(g: FactorGraph, h: FactorGraph) -> bool:
    return g.structure is h.structure and (
        g.observed is h.observed
        or (g.observed is not None and h.observed is not None and np.array_equal(g.observed < 0, h.observed < 0))
    )


def _free_part(s: Structure, observed: IntArray | None) -> tuple[IntArray, IntArray]:
    """Cardinalities of the free variables, and scopes in their numbering."""
    if observed is None:
        return s.card, s.scope_vars
    free = observed < 0
    return s.card[free], (np.cumsum(free) - 1)[s.scope_vars]


def _groups_of(parts: _Parts) -> tuple[IntArray, list[tuple[int, ...]], IntArray]:
    """Factors sorted by (arity, shape), stably; the shapes; where each shape begins.

    Returns:
        order [F], one shape per group, bounds [groups + 1] into order.
    """
    arity = np.diff(parts.scope_ptr)
    order: list[IntArray] = []
    shapes: list[tuple[int, ...]] = []
    bounds = [0]
    for k in np.unique(arity).tolist():
        factors = np.flatnonzero(arity == k)
        cards = parts.card[parts.scope_vars[parts.scope_ptr[factors][:, None] + np.arange(k)]]  # [F_k, k]
        if k:
            by_shape = np.lexsort(cards.T[::-1])
            factors, cards = factors[by_shape], cards[by_shape]
        new = np.any(cards[1:] != cards[:-1], axis=1)
        starts = np.concatenate(([0], np.flatnonzero(new) + 1))
        shapes += map(tuple, cards[starts].tolist())
        bounds += (bounds[-1] + np.append(starts[1:], len(factors))).tolist()
        order.append(factors)
    return _join(order), shapes, np.array(bounds)


def _ptr(counts: IntArray) -> IntArray:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _join(blocks: list[IntArray]) -> IntArray:
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
