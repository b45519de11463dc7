"""FlatGraph: the compiled form of one factor graph, or of a batch of different ones.

Factors are grouped by table shape. A group of F factors of shape (d1, .., dk) is one dense tensor
`[F, d1, .., dk]`, and the messages on slot j of its factors are one contiguous block `[F, d_j]` of the flat
vector of edge states. A batch is the concatenation of its graphs: nothing is padded.

Symbols: V free variables, F factors, E edges, X variable states, S edge states, T table entries, G graphs.
Edges and edge states are ordered by (group, slot, factor); table entries by (group, factor).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.marginals import Marginals

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from equifactor.graph.structure import Structure

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

Array = TypeVar("Array")  # numpy.ndarray or torch.Tensor
Axis = Literal["variables", "states", "factors", "entries"]


@dataclass(frozen=True)
class FactorGroup:
    """All factors with one table shape. `factors` are batch-wide factor numbers, in order."""

    shape: tuple[int, ...]
    factors: IntArray  # [F]
    entries: slice  # of log_phi [T]
    slots: tuple[slice, ...]  # of the edge states [S], one block per scope position
    edges: tuple[slice, ...]  # of the edges [E], one block per scope position

    @property
    def num_factors(self) -> int:
        """F of this group."""
        return len(self.factors)

    def table(self, log_phi: Any) -> Any:
        """View of the flat table entries [T] (or [T, H]) as [F, d1, .., dk] (or with channels last)."""
        return log_phi[self.entries].reshape(self.num_factors, *self.shape, *log_phi.shape[1:])

    def message(self, edge_states: Any, slot: int) -> Any:
        """View of flat edge states [S] (or [S, H]) as [F, d_slot] (or with channels last)."""
        values = edge_states[self.slots[slot]]
        return values.reshape(self.num_factors, self.shape[slot], *edge_states.shape[1:])


@dataclass(frozen=True, eq=False)
class FlatGraph(Generic[Array]):
    """Frozen index arrays and potentials; numpy from `compile`, torch from `to`."""

    log_phi: Array  # [T] natural logs, -inf is a true zero
    groups: tuple[FactorGroup, ...]
    var_ptr: Array  # [V+1] states of variable i are var_ptr[i]:var_ptr[i+1]
    var_of_state: Array  # [X]
    state_of_edge_state: Array  # [S]
    edge_of_edge_state: Array  # [S]
    var_of_edge: Array  # [E]
    factor_of_edge: Array  # [E] batch-wide factor number
    graph_of_var: Array  # [V]
    graph_of_factor: Array  # [F] by batch-wide factor number
    factor_of_entry: Array  # [T] batch-wide factor number of each flat table entry
    entry_order: IntArray  # [T] place of each flat entry in the graphs' own tables, one graph after the other
    has_zeros: bool
    graphs: tuple[FactorGraph, ...]
    graph_ptr: dict[Axis, IntArray]  # [G+1] first variable, state, factor or entry of each graph

    @property
    def num_graphs(self) -> int:
        """G."""
        return len(self.graphs)

    @property
    def num_vars(self) -> int:
        """V: free variables of all graphs."""
        return len(self.graph_of_var)  # type: ignore[arg-type]

    @property
    def num_states(self) -> int:
        """X."""
        return len(self.var_of_state)  # type: ignore[arg-type]

    @property
    def num_factors(self) -> int:
        """F."""
        return len(self.graph_of_factor)  # type: ignore[arg-type]

    @property
    def num_edges(self) -> int:
        """E."""
        return len(self.var_of_edge)  # type: ignore[arg-type]

    @property
    def num_edge_states(self) -> int:
        """S."""
        return len(self.state_of_edge_state)  # type: ignore[arg-type]

    @property
    def num_entries(self) -> int:
        """T."""
        return len(self.log_phi)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return (
            f"FlatGraph({self.num_graphs:,} graphs, {self.num_vars:,} free variables, "
            f"{self.num_factors:,} factors, {self.num_edge_states:,} edge states, "
            f"{len(self.groups):,} table shapes)"
        )

    def with_log_phi(self, log_phi: Array) -> FlatGraph[Array]:
        """The same structure with other potentials [T] in flat order; nothing is recompiled.

        `has_zeros` is kept when the tensor carries gradients or lives on a GPU (looking would wait for the
        device): potentials from a network are finite, and a graph compiled with zeros stays safe.
        """
        if tuple(log_phi.shape) != (self.num_entries,):  # type: ignore[attr-defined]
            raise ValueError(f"log_phi needs shape ({self.num_entries},), found {tuple(log_phi.shape)}")  # type: ignore[attr-defined]
        zeros = self.has_zeros
        if isinstance(log_phi, np.ndarray):
            zeros = bool(np.isneginf(log_phi).any())
        elif not log_phi.requires_grad and log_phi.device.type == "cpu":  # type: ignore[attr-defined]
            zeros = bool((log_phi == -np.inf).any())  # type: ignore[attr-defined]
        return replace(self, log_phi=log_phi, has_zeros=zeros)

    def pack(self, tables: Sequence[FloatArray]) -> FloatArray:
        """Flat order [T] of tables given as one `log_phi` array per graph, in each graph's own order."""
        return np.concatenate(list(tables))[self.entry_order]

    def to(self, device: str = "cpu", dtype: str = "float64") -> FlatGraph[torch.Tensor]:
        """The same graph as torch tensors; potentials in `dtype`, indices in int64."""
        import torch

        def tensor(values: Any) -> torch.Tensor:
            # numpy arrays here are read-only; torch wants to own what it may write to
            values = values if isinstance(values, torch.Tensor) else torch.tensor(values)
            return values.to(device)

        arrays = (
            "var_ptr", "var_of_state", "state_of_edge_state", "edge_of_edge_state", "var_of_edge",
            "factor_of_edge", "graph_of_var", "graph_of_factor", "factor_of_entry",
        )  # fmt: skip
        moved = {name: tensor(getattr(self, name)) for name in arrays}
        log_phi = tensor(self.log_phi).to(getattr(torch, dtype))
        return FlatGraph(**{**vars(self), **moved, "log_phi": log_phi})

    # ---- answers per graph ------------------------------------------------------------------------------

    def split(self, values: Any, axis: Axis) -> list[Any]:
        """Cut a flat array into one piece per graph, along its first axis.

        `entries` undoes the grouping, so that piece g is in the order of graph g's own `log_phi`.
        """
        if axis == "entries":
            place = np.empty_like(self.entry_order)
            place[self.entry_order] = np.arange(self.num_entries)
            values = values[place]  # a gather, so that tensors keep their device and gradient
        ptr = self.graph_ptr[axis]
        return [values[ptr[g] : ptr[g + 1]] for g in range(self.num_graphs)]

    def marginals(self, probabilities: FloatArray) -> list[Marginals]:
        """Marginals of each graph over its *original* variables from the free states [X]."""
        return [
            _marginals_of(graph, piece)
            for graph, piece in zip(self.graphs, self.split(probabilities, "states"), strict=True)
        ]

    def assignments(self, states: IntArray) -> list[IntArray]:
        """Assignment of each graph over its *original* variables from the free variables' states [V]."""
        answers = []
        for graph, piece in zip(self.graphs, self.split(states, "variables"), strict=True):
            full = np.array(piece) if graph.observed is None else graph.observed.copy()
            if graph.observed is not None:
                full[graph.free_vars] = piece
            answers.append(full)
        return answers


def compile(graphs: FactorGraph | Sequence[FactorGraph]) -> FlatGraph[np.ndarray]:
    """Compile one graph or a batch of different ones; observed variables are left out.

    Cost O(T + E log F): array operations per table shape, no loop over factors. Graphs that share their
    structure (from `with_potentials` or a generator) are laid side by side without looking at each again.
    """
    batch = (graphs,) if isinstance(graphs, FactorGraph) else tuple(graphs)
    if not batch:
        raise ValueError("compile needs at least one graph")
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


def _marginals_of(graph: FactorGraph, probabilities: FloatArray) -> Marginals:
    ptr = graph.structure.state_ptr
    if graph.observed is None:
        return Marginals(np.ascontiguousarray(probabilities), ptr)
    values = np.zeros(ptr[-1])
    seen = graph.observed >= 0
    values[ptr[:-1][seen] + graph.observed[seen]] = 1.0
    values[np.repeat(~seen, graph.card)] = probabilities
    return Marginals(values, ptr)


def _ptr(counts: IntArray) -> IntArray:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _join(blocks: list[IntArray]) -> IntArray:
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
