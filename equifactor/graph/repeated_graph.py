"""A batch of graphs that share one structure: compiled once, and index arrays only when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.flat_graph import FactorGroup, FlatGraph, frozen, has_zeros

if TYPE_CHECKING:
    import torch

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph

_CHUNK = 512  # Graphs whose tables are joined at a time, so that they stay in near caches. Chosen by hand.


def share_structure(graphs: Sequence[FactorGraph | None]) -> bool:
    """Return whether all graphs share one structure object, and nothing is observed or the same array says what is."""
    if not all(graphs):
        return False
    return all(len(set(map(id, map(attrgetter(name), graphs)))) == 1 for name in ("structure", "observed"))


def any_zeros(graphs: Sequence[FactorGraph]) -> bool:
    """Return whether a table entry of some graph is zero."""
    if len(graphs) == 1:
        return has_zeros(graphs[0].log_phi)
    parts = (graphs[n : n + _CHUNK] for n in range(0, len(graphs), _CHUNK))
    return any(np.concatenate([g.log_phi for g in part]).min(initial=0.0) == -np.inf for part in parts)


class RepeatedGraph(FlatGraph[np.ndarray]):
    """A `FlatGraph` of G graphs of one structure, with the arrays that `compile` would make.

    Its blocks are those of one graph, G times: block [F, d] becomes [G, F, d].
    """

    one: FlatGraph[np.ndarray] | None = None  # The first graph alone; None in a copy made by `replace`.

    @classmethod
    def of(cls, one: FlatGraph[np.ndarray], graphs: tuple[FactorGraph, ...]) -> RepeatedGraph:
        """Return a batch from the first graph, compiled."""
        new = cls.__new__(cls)
        count = len(graphs)
        sizes = {axis: int(ptr[-1]) for axis, ptr in one.graph_ptr.items()}
        ptr = {axis: np.arange(count + 1) * size for axis, size in sizes.items()}
        matrix = np.concatenate([g.log_phi for g in graphs]).reshape(count, -1)
        zeros = bool(matrix.min(initial=0.0) == -np.inf)
        own = {"one": one, "matrix": matrix, "graphs": graphs, "graph_ptr": ptr, "has_zeros": zeros, "cache": {}}
        vars(new).update(own)
        return new

    def subset(self, graphs: IntArray) -> FlatGraph[np.ndarray] | None:
        """Return the batch of some of the graphs; None for a copy, which does not know its first graph."""
        if self.one is None or not len(graphs):
            return None
        new = RepeatedGraph.of(self.one, (self.graphs[0],))
        chosen = tuple([self.graphs[n] for n in graphs.tolist()])
        ptr = {axis: p[: len(graphs) + 1] for axis, p in self.graph_ptr.items()}
        vars(new).update(matrix=vars(self)["matrix"][graphs], graphs=chosen, graph_ptr=ptr, has_zeros=self.has_zeros)
        return new

    def to(self, device: str = "cpu", dtype: str = "float64") -> FlatGraph[torch.Tensor]:
        """Return the same graph as torch tensors, whose index arrays are made on the device."""
        if self.one is None:
            return super().to(device, dtype)
        import torch

        one, count = self.one.to(device), self.num_graphs
        blocks = _RepeatedBlocks(one, count, lambda n: torch.arange(n, device=device), torch.cat)
        matrix = torch.from_numpy(vars(self)["matrix"]).to(device).to(getattr(torch, dtype))
        order = torch.tensor(one.entry_order, device=device)
        log_phi = torch.cat([matrix[:, order[g.entries]].reshape(-1) for g in one.groups] or [matrix.reshape(-1)])
        arrays = {name: getattr(blocks, name)() for name in _ARRAYS}
        new = _OnDevice.__new__(_OnDevice)
        own = {"log_phi": log_phi, "groups": blocks.groups(), "source": self, "has_zeros": self.has_zeros}
        vars(new).update(own, graphs=self.graphs, graph_ptr=self.graph_ptr, cache={}, **arrays)
        return new

    def edge_states_of(self, graphs: IntArray) -> IntArray:
        """Return the edge states of some graphs, in the order of a batch of them alone."""
        if self.one is None:
            return super().edge_states_of(graphs)
        rows = [first + np.arange(width) for first, width in self._starts(graphs)]
        return np.concatenate([row.reshape(-1) for row in rows] or [np.zeros(0, np.int64)])

    def edge_states_on(self, graphs: IntArray, device: torch.device) -> torch.Tensor:
        """Return the same as a tensor, which is made on its device."""
        import torch

        if self.one is None:
            return torch.as_tensor(self.edge_states_of(graphs), device=device)
        starts = self._starts(torch.as_tensor(graphs, device=device))
        rows = [(first + torch.arange(width, device=device)).reshape(-1) for first, width in starts]
        return torch.cat(rows or [torch.zeros(0, dtype=torch.int64, device=device)])

    def _starts(self, graphs: Any) -> list[tuple[Any, int]]:
        """Return for each slot the first edge states [G, 1] of some graphs, and how many follow."""
        slots = [slot for group in self._one.groups for slot in group.slots]
        widths = [slot.stop - slot.start for slot in slots]
        return [
            ((self.num_graphs * slot.start + graphs * width)[:, None], width)
            for slot, width in zip(slots, widths, strict=True)
        ]

    @cached_property
    def log_phi(self) -> FloatArray:
        """[T] natural logs."""
        matrix, order = vars(self)["matrix"], self._one.entry_order
        return frozen(
            np.concatenate([matrix[:, order[g.entries]].reshape(-1) for g in self._one.groups] or [matrix[0]])
        )

    @cached_property
    def groups(self) -> tuple[FactorGroup, ...]:
        """The groups of factors of one shape."""
        return self._blocks.groups()

    @cached_property
    def entry_order(self) -> IntArray:
        """[T] place of each flat entry in the graphs' own tables, one graph after the other."""
        return super().entry_order if self.one is None else frozen(self._blocks.entry_order())

    @property
    def _one(self) -> FlatGraph[np.ndarray]:
        assert self.one is not None
        return self.one

    @cached_property
    def _blocks(self) -> _RepeatedBlocks:
        return _RepeatedBlocks(self._one, self.num_graphs, np.arange, np.concatenate)

    @property
    def num_entries(self) -> int:
        """T, the number of table entries."""
        return int(self.graph_ptr["entries"][-1])

    @property
    def num_vars(self) -> int:
        """V, the number of free variables of all graphs."""
        return int(self.graph_ptr["variables"][-1])

    @property
    def num_states(self) -> int:
        """X, the number of variable states."""
        return int(self.graph_ptr["states"][-1])


class _OnDevice(FlatGraph["torch.Tensor"]):
    """A `RepeatedGraph` as tensors, whose order of entries stays in NumPy and is made when somebody asks for it."""

    @cached_property
    def entry_order(self) -> IntArray:
        """[T] place of each flat entry in the graphs' own tables, one graph after the other."""
        return vars(self)["source"].entry_order if "source" in vars(self) else super().entry_order


class _RepeatedBlocks:
    """The index arrays of a batch of graphs of one structure, in numpy or torch."""

    def __init__(
        self, one: FlatGraph[Any], count: int, arange: Callable[[int], Any], cat: Callable[[Any], Any]
    ) -> None:
        self.one, self.count, self.arange, self.cat = one, count, arange, cat
        self.graph = arange(count)[:, None]

    def _tiled(self, values: Any, step: int) -> Any:
        """Return values of one graph for each graph in turn, plus the number of the graph times a step."""
        return (self.graph * step + values[None, :]).reshape(-1)

    def _joined(self, values: Any, slices: Sequence[slice], step: int) -> Any:
        """Return the blocks of values of one graph, each for all graphs in turn."""
        return self.cat([self._tiled(values[s], step) for s in slices] or [values])

    def groups(self) -> tuple[FactorGroup, ...]:
        def longer(s: slice) -> slice:
            return slice(self.count * s.start, self.count * s.stop)

        return tuple(
            FactorGroup(
                g.shape, self._tiled(g.factors, self.one.num_factors), longer(g.entries),
                tuple(map(longer, g.slots)), tuple(map(longer, g.edges)),
            )
            for g in self.one.groups
        )  # fmt: skip

    def var_ptr(self) -> Any:
        ends = self.one.num_states * self.count + self.arange(1)
        return self.cat([self._tiled(self.one.var_ptr[:-1], self.one.num_states), ends])

    def var_of_state(self) -> Any:
        return self._tiled(self.one.var_of_state, self.one.num_vars)

    def state_of_edge_state(self) -> Any:
        return self._joined(self.one.state_of_edge_state, self._slots, self.one.num_states)

    def edge_of_edge_state(self) -> Any:
        rows = []
        for group in self.one.groups:
            for edges, d in zip(group.edges, group.shape, strict=True):
                own = self.count * edges.start + self.arange(self.count * (edges.stop - edges.start))
                rows.append((own[:, None] + 0 * self.arange(d)[None, :]).reshape(-1))
        return self.cat(rows or [self.arange(0)])

    def var_of_edge(self) -> Any:
        return self._joined(self.one.var_of_edge, self._edges, self.one.num_vars)

    def factor_of_edge(self) -> Any:
        return self._joined(self.one.factor_of_edge, self._edges, self.one.num_factors)

    def graph_of_var(self) -> Any:
        return (self.graph + 0 * self.arange(self.one.num_vars)[None, :]).reshape(-1)

    def graph_of_factor(self) -> Any:
        return (self.graph + 0 * self.arange(self.one.num_factors)[None, :]).reshape(-1)

    def factor_of_entry(self) -> Any:
        return self._joined(self.one.factor_of_entry, [g.entries for g in self.one.groups], self.one.num_factors)

    def entry_order(self) -> Any:
        return self._joined(self.one.entry_order, [g.entries for g in self.one.groups], self.one.num_entries)

    @property
    def _slots(self) -> list[slice]:
        return [slot for group in self.one.groups for slot in group.slots]

    @property
    def _edges(self) -> list[slice]:
        return [edges for group in self.one.groups for edges in group.edges]


_ARRAYS = (
    "var_ptr", "var_of_state", "state_of_edge_state", "edge_of_edge_state", "var_of_edge", "factor_of_edge",
    "graph_of_var", "graph_of_factor", "factor_of_entry",
)  # fmt: skip


def _array(name: str) -> Any:
    """Return a property that makes an array when it is first asked for."""

    def get(self: RepeatedGraph) -> IntArray:
        if self.one is None:  # A copy has its own arrays, except those over entries.
            return vars(FlatGraph)[name].func(self)
        return frozen(getattr(self._blocks, name)())

    found = cached_property(get)
    found.__set_name__(RepeatedGraph, name)
    return found


for _name in _ARRAYS:
    setattr(RepeatedGraph, _name, _array(_name))
