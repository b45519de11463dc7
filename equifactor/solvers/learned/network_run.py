"""One run of a network on a batch: its state, how far the last step moved it, and its answers."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from equifactor.base.clock import TimeIsUp
from equifactor.base.status import Task
from equifactor.factors import tensors
from equifactor.kernels.segments import segment_max

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FlatGraph
    from equifactor.solvers.learned.best_assignments import BestAssignments
    from equifactor.solvers.learned.network import HiddenAxis, Network, NetworkState
    from equifactor.solving.solver import SolveContext


# Seconds after the deadline at which a step is abandoned, between two operations of torch. It is a quarter of the
# second by which a run may exceed its limit (`evaluation.jobs`).
_ABANDON_SECONDS = 0.25
# Edge states and table entries from which the clock is looked at during a step. On a 60 x 60 grid with 64,000 of them a
# step takes 53 ms on one core, with and without looking; on smaller graphs looking costs up to a third.
_LARGE = 20_000


class _Watched(TorchFunctionMode):
    """Raises `TimeIsUp` before the next operation of torch when the deadline is past: one step can take seconds."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.clock.late > _ABANDON_SECONDS:
            raise TimeIsUp
        return func(*args, **(kwargs or {}))


class NetworkRun:
    """A run that steps in the float type of the context and answers in double precision, so that bounds are valid.

    Answers treat messages that are not finite as uniform, so that one graph that overflows does not affect the others
    of its batch. `finite` returns which graphs are not affected.
    """

    def __init__(self, network: Network, compiled: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> None:
        self.network, self.compiled, self.context = network, compiled, context
        self.best: BestAssignments | None = None  # For MAP, if the run keeps its best assignments.
        self._last: tuple[Tensor, Tensor] | None = None  # The probabilities after the last watched step.
        self._read: tuple[NetworkState, Tensor] | None = None  # A state and its log beliefs.
        self.flat = compiled.to(context.device, context.dtype)
        with torch.inference_mode():
            self.state = network.begin(self.flat, "max" if task is Task.MAP else "sum", context.clock)

    @property
    def engine(self) -> str:
        """What runs the steps: torch, or fused kernels of Triton."""
        return "torch" if self.state.wiring.fused is None else "triton"

    # ---- steps ------------------------------------------------------------------------------------------

    def advance(self, count: int, tolerance: float, most: int) -> FloatArray:
        """Run `count` of `most` steps; return [G] the largest change of a belief or message in the last one.

        It is a change of probability. With a tolerance of 0 it is infinite: measuring it waits for the device.
        """
        with torch.inference_mode(), self._watch():
            for _ in range(count - 1):
                self.state = self.network.step(self.state)
            if tolerance == 0.0:
                self.state = self.network.step(self.state)
                return np.full(self.flat.num_graphs, np.inf)
            before = self._probabilities() if self._last is None or count > 1 else self._last
            self._last = None  # in case the step is abandoned
            self.state = self.network.step(self.state)
            self._last = self._probabilities()
            change = [
                segment_max((p - q).abs(), graph, self.flat.num_graphs, empty=0.0)
                for p, q, graph in zip(self._last, before, self._graph_of, strict=True)
            ]
            return _numpy(torch.maximum(*change))

    def _watch(self) -> contextlib.AbstractContextManager[object]:
        """Return a context that abandons a step of a large batch on the CPU when the deadline is past."""
        size = self.flat.num_edge_states + self.flat.num_entries
        large = self.context.device == "cpu" and size > _LARGE
        return _Watched(self.context.clock) if large else contextlib.nullcontext()

    def _probabilities(self) -> tuple[Tensor, Tensor]:
        """Return beliefs [X] and messages [S2] as probabilities; messages of a network may not be normalised."""
        beliefs = tensors.probabilities(self.flat, self.network.log_beliefs(self.state))
        return beliefs, self.state.wiring.normalize(self.state.msg_fv).exp()

    @functools.cached_property
    def _graph_of(self) -> tuple[Tensor, Tensor]:
        """The graph of each variable state [X] and of each edge state [S2]."""
        return self.flat.graph_of_var[self.flat.var_of_state], self.state.wiring.graph

    # ---- parts of a batch -------------------------------------------------------------------------------

    def take(self, graphs: IntArray) -> tuple[Tensor, ...] | None:
        """Return a copy of the messages and hidden tensors of some graphs, or None without `hidden_axes`."""
        if self.network.hidden_axes is None:
            return None
        with torch.inference_mode():
            return tuple(
                values if axis in (None, "fixed") else values[self._rows(axis, graphs)]
                for axis, values in self._by_axis()
            )

    def put(self, graphs: IntArray, part: tuple[Tensor, ...]) -> None:
        """Set the tensors of some graphs to those that `take` returned."""
        with torch.inference_mode():
            msg_fv, *hidden = (
                values if axis == "fixed" else new if axis is None
                else values.index_copy(0, self._rows(axis, graphs), new)
                for (axis, values), new in zip(self._by_axis(), part, strict=True)
            )  # fmt: skip
        self.state = self.state._replace(msg_fv=msg_fv, hidden=tuple(hidden))
        self._last = None

    def _by_axis(self) -> list[tuple[HiddenAxis | None, Tensor]]:
        """Return the tensors of the state, each with the axis its rows belong to."""
        axes = self.network.hidden_axes or ()
        return [("edge states", self.state.msg_fv), *zip(axes, self.state.hidden, strict=False)]

    def _rows(self, axis: HiddenAxis, graphs: IntArray) -> Tensor:
        """Return the rows of some graphs along an axis, ascending, which is their order in any batch."""
        flat, wiring = self.flat, self.state.wiring
        if axis == "edge states":
            graph = wiring.graph
        elif axis == "unary":
            graph = flat.graph_of_var[flat.var_of_edge[flat.edge_of_edge_state[: wiring.first]]]
        elif axis in ("larger factors", "nodes"):
            own = flat.graph_of_var if axis == "nodes" else flat.graph_of_var[:0]
            factors = [torch.as_tensor(group.factors, device=own.device) for group in wiring.groups]
            graph = torch.cat([own, *(flat.graph_of_factor[f] for f in factors)])
        elif axis in ("factors", "entries"):
            graph = flat.graph_of_factor if axis == "factors" else flat.graph_of_factor[flat.factor_of_entry]
        else:
            index = {"states": flat.var_of_state, "edges": flat.var_of_edge}.get(axis)
            graph = flat.graph_of_var if index is None else flat.graph_of_var[index]
        chosen = torch.zeros(flat.num_graphs, dtype=torch.bool)
        chosen[torch.as_tensor(graphs)] = True
        return torch.nonzero(chosen.to(graph.device)[graph]).squeeze(1)

    # ---- answers ----------------------------------------------------------------------------------------

    def log_beliefs(self) -> Tensor:
        """Return [X] in double precision, not normalised; cached, since a readout can cost as much as a step."""
        if self._read is None or self._read[0] is not self.state:
            with torch.inference_mode():
                self._read = self.state, self.network.log_beliefs(self.state).double()
        return self._read[1]

    def finite(self) -> BoolArray:
        """Return [G] whether all log beliefs are numbers, or -inf for impossible states."""
        log_b = self.log_beliefs()
        bad = (torch.isnan(log_b) | torch.isposinf(log_b)).double()
        return _numpy(segment_max(bad, self._graph_of[0], self.flat.num_graphs, empty=0.0)) == 0.0

    def possible(self) -> BoolArray:
        """Return [G] whether every variable has a possible state."""
        best = segment_max(self.log_beliefs(), self.flat.var_of_state, self.flat.num_vars)
        none_left = torch.isneginf(best).double()
        return _numpy(segment_max(none_left, self.flat.graph_of_var, self.flat.num_graphs, empty=0.0)) == 0.0

    def probabilities(self) -> FloatArray:
        """Return [X] normalised beliefs."""
        return _numpy(tensors.probabilities(self.flat, self.log_beliefs()))

    def best_states(self) -> IntArray:
        """Return [V] the state of highest belief, the first on ties."""
        states = tensors.max_states(self.flat, self.log_beliefs().nan_to_num(0.0, neginf=-torch.inf))
        return np.asarray(states.cpu().numpy())

    def messages(self) -> FloatArray:
        """Return [S] factor-to-variable log messages in flat order, unary factors included, in double precision."""
        return _numpy(self._messages())

    def _messages(self) -> Tensor:
        with torch.inference_mode():
            msg_fv = self.state.wiring.messages(self.state.msg_fv).double()
            return torch.where(torch.isnan(msg_fv) | torch.isposinf(msg_fv), 0.0, msg_fv)

    def log_z(self) -> FloatArray:
        """Return [G] the Bethe estimate of ln Z from the messages."""
        return _numpy(tensors.bethe_log_z(self._exact(), self._messages()))

    def upper_bound(self, passes: int = 0) -> FloatArray:
        """Return [G] an upper bound on the best log score; passes of dual ascent lower it while time is left."""
        from equifactor.solvers.duals.map_bounds import upper_bound_of

        messages = self._messages()
        bound = _numpy(upper_bound_of(self._exact(), messages))
        if passes == 0:
            return bound
        from equifactor.solvers.duals.ascent import VariableAscent

        ascent = VariableAscent(self.compiled, _numpy(messages))
        for _ in range(passes):
            if self.context.clock.stopped:
                break
            ascent.sweep()
        return np.minimum(bound, upper_bound_of(self.compiled, ascent.messages))

    def _exact(self) -> FlatGraph[Tensor]:
        """Return the batch with its tables in double precision, as they were before rounding for the network."""
        return replace(self.flat, log_phi=torch.tensor(self.compiled.log_phi, device=self.flat.log_phi.device))


def _numpy(values: Tensor) -> FloatArray:
    return np.asarray(values.double().cpu().numpy())
