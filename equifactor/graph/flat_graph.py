"""FlatGraph: the compiled form of one factor graph, or of a batch of different ones; `compile` makes it.

Tables are grouped by shape, structured factors by kind. A group of F factors of shape (d1, .., dk) is one dense tensor
`[F, d1, .., dk]`. The messages on slot j of its factors are one contiguous block `[F, d_j]` of the flat vector of edge
states. A batch is the concatenation of its graphs: nothing is padded.

Symbols: V free variables, F factors, E edges, X variable states, S edge states, T table entries, G graphs.
Edges and edge states are ordered by (group, slot, factor); table entries by (group, factor).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.options import choices
from equifactor.base.torch_device import check_device
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows
from equifactor.graph.marginals import Marginals

if TYPE_CHECKING:
    import torch

    from equifactor.base.typing import FloatArray, IntArray


Array = TypeVar("Array")  # numpy.ndarray or torch.Tensor
Axis = Literal["variables", "states", "factors", "entries"]


@dataclass(frozen=True)
class FactorGroup:
    """All factors with one table shape. `factors` are batch-wide factor numbers, in order."""

    shape: tuple[int, ...]
    factors: Any  # [F] numpy, or a tensor in a FlatGraph of tensors
    entries: slice  # the part of log_phi [T] that holds its tables
    slots: tuple[slice, ...]  # the parts of the edge states [S], one block per scope position
    edges: tuple[slice, ...]  # the parts of the edges [E], one block per scope position

    @property
    def num_factors(self) -> int:
        """F, the number of factors of this group."""
        return len(self.factors)

    def table(self, log_phi: Any) -> Any:
        """Return a view of the flat table entries [T] (or [T, H]) as [F, d1, .., dk] (or with channels last)."""
        return log_phi[self.entries].reshape(self.num_factors, *self.shape, *log_phi.shape[1:])

    def message(self, edge_states: Any, slot: int) -> Any:
        """Return a view of flat edge states [S] (or [S, H]) as [F, d_slot] (or with channels last)."""
        values = edge_states[self.slots[slot]]
        return values.reshape(self.num_factors, self.shape[slot], *edge_states.shape[1:])


@dataclass(frozen=True)
class StructuredGroup:
    """All structured factors of one kind, of any arities, one after the other; N factors, e edges.

    Every pointer counts from the group's first edge, value or word. Its edges are in factor order, and their edge
    states follow each other.
    """

    kind: int  # its place in the table `KINDS`
    factors: Any  # [N] batch-wide factor numbers, in order
    entries: slice  # the part of log_phi [T] that holds its log values
    states: slice  # the part of the edge states [S]
    edges: slice  # the part of the edges [E]
    edge_ptr: IntArray  # [N+1]
    value_ptr: IntArray  # [N+1]
    word_ptr: IntArray  # [N+1]
    words: IntArray
    card: IntArray  # [e]

    @property
    def num_factors(self) -> int:
        """N, the number of factors of this group."""
        return len(self.factors)

    def rows(self, log_values: FloatArray, scope_vars: IntArray | None = None) -> FactorRows:
        """Return the factors as rows with these log values [t]; without `scope_vars` [e] their variables are all 0."""
        return FactorRows(
            np.full(self.num_factors, self.kind),
            self.edge_ptr, np.zeros(len(self.card), np.int64) if scope_vars is None else scope_vars,
            self.value_ptr, log_values,
            self.word_ptr, self.words,
            self.card,
        )  # fmt: skip


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
    has_zeros: bool
    graphs: tuple[FactorGraph, ...]
    graph_ptr: dict[Axis, IntArray]  # [G+1] first variable, state, factor or entry of each graph
    # Arrays derived from the structure alone, such as the CPU layout; graphs that differ in potentials share them.
    cache: dict[str, Any] = field(default_factory=dict)
    structured: tuple[StructuredGroup, ...] = ()  # the structured factors

    @property
    def num_graphs(self) -> int:
        """G, the number of graphs."""
        return len(self.graphs)

    @property
    def num_vars(self) -> int:
        """V, the number of free variables of all graphs."""
        return len(self.graph_of_var)  # type: ignore[arg-type]

    @property
    def num_states(self) -> int:
        """X, the number of variable states."""
        return len(self.var_of_state)  # type: ignore[arg-type]

    @property
    def num_factors(self) -> int:
        """F, the number of factors."""
        return len(self.graph_of_factor)  # type: ignore[arg-type]

    @property
    def num_edges(self) -> int:
        """E, the number of edges."""
        return len(self.var_of_edge)  # type: ignore[arg-type]

    @property
    def num_edge_states(self) -> int:
        """S, the number of edge states."""
        return len(self.state_of_edge_state)  # type: ignore[arg-type]

    @property
    def num_entries(self) -> int:
        """T, the number of table entries."""
        return len(self.log_phi)  # type: ignore[arg-type]

    # Index arrays over entries are made when somebody asks for them: with large tables they are most of the memory.

    @cached_property
    def factor_of_entry(self) -> Array:
        """[T] batch-wide factor number of each flat table entry."""
        sizes: list[tuple[Any, Any]] = [(g.factors, math.prod(g.shape)) for g in self.groups]
        sizes += [(g.factors, np.diff(g.value_ptr)) for g in self.structured]
        if isinstance(self.log_phi, np.ndarray):
            parts = [np.repeat(factors, count) for factors, count in sizes]
            return frozen(np.concatenate([np.zeros(0, np.int64), *parts]))
        import torch

        device = self.log_phi.device  # type: ignore[attr-defined]
        tensors = [factors.repeat_interleave(torch.as_tensor(count, device=device)) for factors, count in sizes]
        return torch.cat([torch.zeros(0, dtype=torch.int64, device=device), *tensors])  # type: ignore[return-value]

    @cached_property
    def entry_order(self) -> IntArray:
        """[T] place of each flat entry in the graphs' own tables, one graph after the other."""
        firsts = self.graph_ptr["entries"].tolist()
        ptr = np.concatenate([g.structure.table_ptr[:-1] + n for g, n in zip(self.graphs, firsts, strict=False)])
        order = np.empty(self.num_entries, np.int64)
        for group in self.groups:
            rows = order[group.entries].reshape(group.num_factors, math.prod(group.shape))
            np.add(ptr[_on_host(group.factors)][:, None], np.arange(rows.shape[1]), out=rows)
        for kind in self.structured:
            first = ptr[_on_host(kind.factors)] - kind.value_ptr[:-1]
            order[kind.entries] = np.repeat(first, np.diff(kind.value_ptr)) + np.arange(kind.value_ptr[-1])
        return frozen(order)

    def __repr__(self) -> str:
        return (
            f"FlatGraph({self.num_graphs:,} graph{'s' * (self.num_graphs != 1)}, {self.num_vars:,} free variables, "
            f"{self.num_factors:,} factors, {self.num_edge_states:,} edge states, "
            f"{len(self.groups):,} table shapes)"
        )

    def with_log_phi(self, log_phi: Array) -> FlatGraph[Array]:
        """Return the same structure with other potentials [T] in flat order; nothing is recompiled.

        `has_zeros` is kept when the tensor carries gradients or lives on a GPU, where a look would wait for the
        device. Potentials from a network are finite, and a graph compiled with zeros stays safe.
        """
        shape = getattr(log_phi, "shape", None)
        if shape is None or tuple(shape) != (self.num_entries,):
            found = brief(log_phi) if shape is None else tuple(shape)
            raise ModelError(f"log_phi needs shape ({self.num_entries},), found {found}.")
        zeros = self.has_zeros
        if isinstance(log_phi, np.ndarray):
            zeros = has_zeros(log_phi)
            log_phi = log_phi.view()  # read-only as in every graph: kernels are compiled again for other arrays
            log_phi.flags.writeable = False
        elif not log_phi.requires_grad and log_phi.device.type == "cpu":  # type: ignore[attr-defined]
            zeros = bool((log_phi == -np.inf).any())  # type: ignore[attr-defined]
        return replace(self, log_phi=log_phi, has_zeros=zeros)

    @checks_types("tables")
    def pack(self, tables: Sequence[FloatArray]) -> FloatArray:
        """Return in flat order [T] the tables given as one `log_phi` array per graph, in each graph's own order."""
        try:
            given = np.concatenate([np.zeros(0), *map(np.asarray, tables)])
        except Exception:  # other shapes, or any error of a foreign object that is asked for numbers
            given = np.zeros(0)
        if len(given) != self.num_entries:
            raise ModelError(f"The tables must be one flat array per graph, {self.num_entries} entries in total.")
        return given[self.entry_order]

    def to(self, device: str = "cpu", dtype: str = "float64") -> FlatGraph[torch.Tensor]:
        """Return the same graph as torch tensors; potentials in `dtype`, indices in int64."""
        check_device(device, "FlatGraph.to")
        import torch

        if not isinstance(getattr(torch, str(dtype), None), torch.dtype):
            raise OptionError(f"There is no type of numbers {brief(dtype)}. Use float32 or float64.")

        def tensor(values: Any) -> torch.Tensor:
            # A copy: the numpy arrays are read-only, and torch expects memory that it may write to.
            values = values if isinstance(values, torch.Tensor) else torch.tensor(values)
            return values.to(device)

        arrays = (
            "var_ptr", "var_of_state", "state_of_edge_state", "edge_of_edge_state", "var_of_edge",
            "factor_of_edge", "graph_of_var", "graph_of_factor",
        )  # fmt: skip
        moved: dict[str, Any] = {name: tensor(getattr(self, name)) for name in arrays}
        log_phi = tensor(self.log_phi).to(getattr(torch, dtype))
        groups = tuple(replace(g, factors=tensor(g.factors)) for g in self.groups)
        # The words of structured factors stay numpy arrays: the first message turns them into index tensors.
        structured = tuple(replace(g, factors=tensor(g.factors)) for g in self.structured)
        moved |= {"log_phi": log_phi, "groups": groups, "structured": structured}
        own = {each.name: getattr(self, each.name) for each in fields(FlatGraph)}
        return FlatGraph(**{**own, **moved, "cache": {}})

    def require_tables(self, what: str) -> None:
        """Raise `ModelError` if some factor is structured; `what` is the subject of the sentence, such as a solver."""
        if self.structured:
            raise ModelError(
                f"{what} takes dense tables only, and this graph has structured factors. "
                "Use equifactor.solvers.lower(graph).graph, an equal graph of dense tables."
            )

    @checks_types("graphs")
    def edge_states_of(self, graphs: IntArray) -> IntArray:
        """Return the edge states of some graphs of a batch in numpy, in the order of a batch of these graphs alone.

        Blocks of edges list their factors graph by graph, in any batch.
        """
        if "graph_of_edge_state" not in self.cache:
            self.cache["graph_of_edge_state"] = self.graph_of_var[self.var_of_edge[self.edge_of_edge_state]]  # type: ignore[index]
        chosen = np.zeros(self.num_graphs, bool)
        try:
            chosen[graphs] = True
        except IndexError:
            raise ModelError(f"There are {self.num_graphs} graphs, numbered from 0; found {brief(graphs)}.") from None
        return np.flatnonzero(chosen[self.cache["graph_of_edge_state"]])

    @checks_types("graph", "values")
    def sum_per_graph(self, graph: IntArray, values: FloatArray) -> FloatArray:
        """Return [G] the sum over each graph of numpy values [N]; `graph` [N] is the graph of each value."""
        if np.ndim(graph) != 1 or np.shape(graph) != np.shape(values):
            raise ModelError(f"graph and values must have one shape [N], found {np.shape(graph)}, {np.shape(values)}.")
        return np.bincount(graph, values, self.num_graphs).astype(np.float64)  # bincount of no values has integers

    # ---- answers per graph ------------------------------------------------------------------------------

    def split(self, values: Any, axis: Axis) -> list[Any]:
        """Cut a flat array into one piece per graph, along its first axis.

        `entries` undoes the grouping, so that piece g is in the order of graph g's own `log_phi`.
        """
        if not isinstance(axis, str) or axis not in self.graph_ptr:
            raise OptionError(f"There is no axis {brief(axis)}; {choices(axis, list(self.graph_ptr))}.")
        count = int(self.graph_ptr[axis][-1])
        if getattr(values, "shape", ())[:1] != (count,):
            raise ModelError(f"{axis} need an array or a tensor with {count} rows, found {brief(values)}.")
        if axis == "entries":
            place = np.empty_like(self.entry_order)
            place[self.entry_order] = np.arange(self.num_entries)
            values = values[place]  # a gather, so that tensors keep their device and gradient
        return [values[start:stop] for start, stop in pairwise(self.graph_ptr[axis].tolist())]

    def marginals(self, probabilities: FloatArray) -> list[Marginals]:
        """Return marginals of each graph over its *original* variables from the free states [X].

        They are views of the probabilities for graphs without evidence.
        """
        states = self.split(probabilities, "states")
        return [
            Marginals(piece, ptr) if graph.observed is None else _with_observed(graph, piece)
            for graph, piece, ptr in zip(self.graphs, states, self._state_ptrs(), strict=True)
        ]

    @checks_types("n")
    def marginals_of(self, probabilities: FloatArray, n: int) -> Marginals:
        """Return marginals of graph n alone, as `marginals` does."""
        if getattr(probabilities, "shape", ())[:1] != (self.num_states,):
            raise ModelError(f"probabilities must be an array [{self.num_states}], found {brief(probabilities)}.")
        if not 0 <= n < self.num_graphs:
            raise ModelError(f"Graph {n} does not exist. The number of graphs is {self.num_graphs}.")
        first, last = self.graph_ptr["states"][n : n + 2]
        if self.graphs[n].observed is not None:
            return _with_observed(self.graphs[n], probabilities[first:last])
        return Marginals(probabilities[first:last], self.graphs[n].structure.state_ptr)

    def _state_ptrs(self) -> list[IntArray]:
        """Return [V_g+1] first state of each free variable within its graph, for each graph; all at once."""
        first_var, first_state = self.graph_ptr["variables"], self.graph_ptr["states"]
        count = np.diff(first_var) + 1
        last = np.cumsum(count)  # where the pieces end; the last entry of a graph is also the first of the next one
        variable = np.arange(last[-1]) - np.repeat(np.arange(self.num_graphs), count)
        var_ptr: Any = self.var_ptr if isinstance(self.var_ptr, np.ndarray) else self.var_ptr.cpu().numpy()  # type: ignore[attr-defined]
        ptr = var_ptr[variable] - np.repeat(first_state[:-1], count)
        ptr.flags.writeable = False
        return [ptr[start:stop] for start, stop in pairwise((0, *last.tolist()))]

    def assignments(self, states: IntArray) -> list[IntArray]:
        """Return the assignment of each graph over its *original* variables from the free variables' states [V]."""
        answers = []
        for graph, piece in zip(self.graphs, self.split(states, "variables"), strict=True):
            full = np.array(piece) if graph.observed is None else graph.observed.copy()
            if graph.observed is not None:
                full[graph.free_vars] = piece
            answers.append(full)
        return answers


def has_zeros(log_phi: FloatArray) -> bool:
    """Return whether an entry is a true zero; a minimum makes no array, which counts with large tables."""
    return bool(log_phi.min(initial=0.0) == -np.inf)


def frozen(array: Any) -> Any:
    """Return the array, read-only from now on."""
    array.flags.writeable = False
    return array


def _on_host(factors: Any) -> IntArray:
    """Return factor numbers as an array; in a FlatGraph of tensors they are a tensor."""
    return factors if isinstance(factors, np.ndarray) else factors.cpu().numpy()


def _with_observed(graph: FactorGraph, probabilities: FloatArray) -> Marginals:
    """Return marginals of all variables of one graph from those of its free ones."""
    assert graph.observed is not None
    ptr = graph.structure.state_ptr
    values = np.zeros(ptr[-1])
    seen = graph.observed >= 0
    values[ptr[:-1][seen] + graph.observed[seen]] = 1.0
    values[np.repeat(~seen, graph.card)] = probabilities
    return Marginals(values, ptr)
