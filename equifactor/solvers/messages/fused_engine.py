"""Belief propagation on a GPU by fused Triton kernels: two launches an iteration, which a CUDA graph replays.

The engine keeps the messages, answers and meaning of `TorchEngine`. Its kernels take tables of two to four variables;
what they leave, large tables, other arities and structured factors, passes through torch in the same iteration.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from equifactor.base.torch_device import may_fuse
from equifactor.factors import tensors
from equifactor.kernels.segments import finite
from equifactor.solvers.messages.bp_engine import BpSettings
from equifactor.solvers.messages.torch_engine import TorchEngine

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FlatGraph
    from equifactor.graph.flat_graph import FactorGroup
    from equifactor.solving.solver import SolveContext

_MOST_ENTRIES = 4096  # Entries of a table, each side rounded up to a power of two: what registers hold.
_MOST_ENTRIES_OF_MORE = (
    1024  # The same of tables of three or four variables, which need several blocks at once. By hand.
)
# Variables of a table. `table_messages` takes up to four: on an H200 its messages for three and four binary variables
# agree with torch (errors 8e-16 in float64, 1.4e-6 in float32), but its speed has not been measured.
_MOST_ARITY = 2
_ENTRIES_OF_MORE = 512  # Table entries of a program of `table_messages`. Chosen by hand.
# Table entries of a program of `pair_messages`: up to 16 entries a table, and above. On an H200 grids with 2 and 11
# states take 35 and 109 us; with 1,024 entries for both 39 and 164 us.
_ENTRIES = 512, 2048
_STATES = 256  # Variable states of a program of `sum_messages`.
_MOST_EDGES = 512  # Edges of a variable that one thread of `sum_messages` adds. Beyond, torch adds with atomics.
_CAPTURE_AFTER = (
    8  # Iterations that are launched one by one before a CUDA graph is captured, which takes about as long.
)
_known: dict[torch.device, bool] = {}  # The devices on which the kernels have been tried.


def applies_to(flat: FlatGraph[np.ndarray], settings: BpSettings, context: SolveContext) -> bool:
    """Return whether the kernels can run and take some of the factors."""
    device = torch.device(context.device)
    if settings.schedule != "parallel" or not may_fuse(device) or not any(map(_takes, flat.groups)):
        return False
    # Indices are int32.
    return max(flat.num_edge_states, flat.num_states) < 2**31 and _kernels_work(device, context)


def _takes(group: FactorGroup) -> bool:
    """Return whether the kernels take the tables of one shape."""
    most = _MOST_ENTRIES if len(group.shape) == 2 else _MOST_ENTRIES_OF_MORE
    return 2 <= len(group.shape) <= _MOST_ARITY and math.prod(map(_padded, group.shape)) <= most


def _padded(size: int) -> int:
    """Return the smallest power of two that is at least `size`."""
    return 1 << (size - 1).bit_length()


def _kernels_work(device: torch.device, context: SolveContext) -> bool:
    """Return whether an iteration on a small graph agrees with torch; if not, warn once and name the reason."""
    if device not in _known:
        from equifactor.graph import FactorGraph, compile

        tables = np.random.default_rng(0).standard_normal((4, 2, 2))
        factors: list[Any] = list(zip(((0, 1), (1, 2), (3, 2), (0, 3)), tables, strict=True))
        if _MOST_ARITY > 2:
            factors.append(((0, 1, 2), tables[:2]))
        flat, settings = compile([FactorGraph([2] * 4, factors, log=True)]), BpSettings("sum", "parallel", 0.3, 1e-6, 0)
        why = ""
        try:
            engines = FusedEngine(flat, settings, context), TorchEngine(flat, settings, context)
            for engine in engines:
                for count in (1, 2 * _CAPTURE_AFTER, *[1] * _CAPTURE_AFTER):
                    engine.sweep(count)
            error = float((engines[0].msg_fv - engines[1].msg_fv).abs().max())
            why = "" if error < 1e-3 else f"their messages differ from those of torch by {error:.1g}"
        except Exception as error:  # Compilers and drivers raise errors of their own classes.
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        _known[device] = not why
        if why:
            warnings.warn(
                f"The fused kernels of bp cannot be used on {device} ({why}). It runs in plain torch, which is slower. "
                "EQUIFACTOR_FUSED=0 switches the kernels off without a trial.",
                RuntimeWarning,
                stacklevel=2,
            )
    return _known[device]


@dataclass(eq=False)
class _TableCall:
    """The arguments of `pair_messages`, or with four axes of `table_messages`, for the tables of one shape."""

    messages: tuple[Tensor, ...]  # [F, D0], [F, D1] .., views of the messages of the engine
    table: Tensor  # [F, D0, D1, ..]
    bases: tuple[Tensor, ...]  # [F] the first variable states
    change: Tensor  # [F]
    graph: Tensor  # [F]
    sizes: dict[str, int]


class FusedEngine(TorchEngine):
    """The parallel schedule, with pair tables in Triton kernels."""

    name = "triton"

    def __init__(self, flat: FlatGraph[np.ndarray], settings: BpSettings, context: SolveContext) -> None:
        super().__init__(flat, settings, context)
        g, msg = self.flat, self.msg_fv
        self.zeros = g.has_zeros or bool(g.structured)
        self.numbers = msg.new_tensor([settings.damping, float(self.floor)])
        taken, rest = [p for p in flat.groups if _takes(p)], [p for p in flat.groups if not _takes(p)]
        unary = [p for p in rest if len(p.shape) == 1]
        self.others = _FactorsInTorch(g, [p for p in rest if len(p.shape) != 1], self.kinds, g.graph_of_var)
        # Unary factors send the same message in every iteration.
        self.constant = msg.new_zeros(g.num_states)
        for p in unary:
            self.constant.index_add_(0, g.state_of_edge_state[p.slots[0]], msg[p.slots[0]])
        self.belief = torch.empty_like(self.constant)
        self.gone = msg.new_zeros(g.num_states if self.zeros else 1, dtype=torch.int32)
        self.index = self._edges_of_variables(unary)
        self.calls = [self._table_call(p) for p in taken]
        self.residual = msg.new_zeros(g.num_graphs)
        self.runs = {False: 0, True: 0}
        self.captured: dict[bool, torch.cuda.CUDAGraph] = {}

    def _edges_of_variables(self, unary: Sequence[FactorGroup]) -> tuple[Tensor, ...]:
        """Return what `sum_messages` reads: variables and pointers of states, pointers and first places of edges."""
        g = self.flat
        own = torch.ones(g.num_edges, dtype=torch.bool, device=self.msg_fv.device)
        for p in unary:
            own[p.edges[0]] = False
        edges = own.nonzero().squeeze(1)
        card = g.var_ptr.diff()
        states = torch.bincount(g.edge_of_edge_state, minlength=g.num_edges)  # of each edge, one edge after the other
        first = states.cumsum(0) - states
        var = g.var_of_edge[edges]
        order = torch.argsort(var, stable=True)
        degree = torch.bincount(var, minlength=g.num_vars)
        edge_ptr = torch.nn.functional.pad(degree.cumsum(0), (1, 0))
        self.uniform = int(card[0]) if bool((card == card[0]).all()) else 0  # The cardinality of all variables.
        self.by_atomics = int(degree.max()) > _MOST_EDGES
        if self.by_atomics:
            self.summed = own[g.edge_of_edge_state].nonzero().squeeze(1)
            self.summed_at = g.state_of_edge_state[self.summed]
        return tuple(t.to(torch.int32) for t in (g.var_of_state, g.var_ptr, edge_ptr, first[edges][order]))

    def _table_call(self, p: FactorGroup) -> _TableCall:
        g, padded = self.flat, [_padded(d) for d in p.shape]
        entries = math.prod(padded)
        sizes = {f"D{n}": d for n, d in enumerate(p.shape)} | {f"P{n}": d for n, d in enumerate(padded)}
        messages = [self.msg_fv[slot] for slot in p.slots]
        bases = [g.var_ptr[g.var_of_edge[e]].to(torch.int32) for e in p.edges]
        if len(p.shape) == 3:  # A fourth axis without messages.
            messages, bases, sizes = [*messages, messages[0]], [*bases, bases[0]], {**sizes, "D3": 0, "P3": 1}
        most = _ENTRIES[entries > 16] if len(p.shape) == 2 else _ENTRIES_OF_MORE
        return _TableCall(
            tuple(messages), g.log_phi[p.entries], tuple(bases), self.msg_fv.new_zeros(p.num_factors),
            g.graph_of_var[g.var_of_edge[p.edges[0]]], {**sizes, "B": max(1, most // entries)},
        )  # fmt: skip

    def sweep(self, count: int) -> FloatArray:
        """Update all messages `count` times; return the change [G] of the last update."""
        check = self.settings.tolerance > 0.0
        device = self.msg_fv.device
        with torch.cuda.device(device if device.type == "cuda" else -1):
            for k in range(count):
                self._iterate(check and k == count - 1)
        if not check:
            return np.full(self.flat.num_graphs, np.inf)
        return np.asarray(self.residual.double().cpu().numpy())

    # ---- one iteration ----------------------------------------------------------------------------------

    def _iterate(self, check: bool) -> None:
        """Update all messages once; with `check`, write the residual."""
        self.runs[check] += 1
        if check in self.captured:
            self.captured[check].replay()
            return
        self._launch(check)
        if self.msg_fv.is_cuda and self.runs[check] >= _CAPTURE_AFTER:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                self._launch(check)
                graph.capture_end()
            torch.cuda.current_stream().wait_stream(stream)
            self.captured[check] = graph

    def _launch(self, check: bool) -> None:
        from equifactor.solvers.messages.fused_kernels import pair_messages, table_messages

        self._sum()
        modes = {"MAX": self.settings.semiring == "max", "ZEROS": self.zeros}
        modes |= {"DAMP": self.settings.damping > 0.0, "CHECK": check}
        for call in self.calls:
            factors = len(call.change)
            kernel = pair_messages if len(call.bases) == 2 else table_messages
            kernel[(-(-factors // call.sizes["B"]),)](
                *call.messages, self.belief, self.gone, call.table, *call.bases, call.change, self.numbers, factors,
                **call.sizes, **modes,
            )  # fmt: skip
        moved = [(call.change, call.graph) for call in self.calls]
        if self.others:
            moved.append((self.others.update(self), self.others.graph))
        if check and len(self.residual) == 1:
            torch.amax(torch.stack([change.amax() for change, _ in moved]), 0, keepdim=True, out=self.residual)
        elif check:
            self.residual.zero_()
            for change, graph in moved:
                self.residual.scatter_reduce_(0, graph, change, "amax")

    def _sum(self) -> None:
        """Add up the messages at each variable state, and count those that are -inf."""
        from equifactor.solvers.messages.fused_kernels import sum_messages

        if not self.by_atomics:
            states = len(self.belief)
            sum_messages[(-(-states // _STATES),)](
                self.msg_fv, self.constant, *self.index, self.belief, self.gone, states,
                D=self.uniform, B=_STATES, ZEROS=self.zeros,
            )  # fmt: skip
            return
        msg = self.msg_fv[self.summed]
        self.belief.copy_(finite(self.constant)).index_add_(0, self.summed_at, finite(msg))
        if self.zeros:
            self.gone.copy_(torch.isneginf(self.constant)).index_add_(0, self.summed_at, torch.isneginf(msg).int())


class _FactorsInTorch:
    """The factors that no kernel takes: their messages in torch."""

    def __init__(
        self, flat: FlatGraph[Tensor], groups: Sequence[FactorGroup], kinds: Any, graph_of_var: Tensor
    ) -> None:
        at, slots = 0, list[slice]()
        shifted: list[FactorGroup] = []
        for group in groups:
            own = []
            for slot in group.slots:
                own.append(slice(at, at + slot.stop - slot.start))
                slots.append(slot)
                at = own[-1].stop
            shifted.append(replace(group, slots=tuple(own)))
        self.of_tables = at  # The number of edge states of tables, which come first.
        self.kinds = []
        for kind in kinds:
            self.kinds.append((kind, kind.group.states.start - at))
            slots.append(kind.group.states)
            at += kind.group.states.stop - kind.group.states.start
        self.flat = replace(flat, groups=tuple(shifted))
        device = flat.log_phi.device
        none = torch.zeros(0, dtype=torch.int64, device=device)
        self.places = torch.cat([none, *(torch.arange(s.start, s.stop, device=device) for s in slots)])
        self.states = flat.state_of_edge_state[self.places]
        self.graph = graph_of_var[flat.var_of_edge[flat.edge_of_edge_state[self.places]]]

    def __bool__(self) -> bool:
        return len(self.places) > 0

    def update(self, engine: FusedEngine) -> Tensor:
        """Update the messages from the beliefs of the engine; return the change of each before damping."""
        old = engine.msg_fv[self.places]
        sent = engine.belief[self.states] - finite(old)
        if engine.zeros:
            sent = torch.where(engine.gone[self.states] > torch.isneginf(old).int(), -torch.inf, sent)
        semiring = engine.settings.semiring
        blocks = [tensors.marginalize_tables(self.flat, sent[: self.of_tables], semiring, ())]
        for kind, first in self.kinds:
            values = kind.messages(self.flat.log_phi, sent, semiring, first=first)
            blocks.append(kind.normalized(values, semiring))
        new = tensors.hold_above(torch.cat(blocks), engine.floor)
        engine.msg_fv.index_copy_(0, self.places, tensors.damp(new, old, engine.settings.damping))
        return (new.exp() - old.exp()).abs()
