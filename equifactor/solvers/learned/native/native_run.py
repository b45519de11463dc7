"""One run of a native network on a batch: its state, how far the last step moved it, and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.clock import TimeIsUp
from equifactor.base.status import Task
from equifactor.kernels.readiness import plain_is_better
from equifactor.solvers.learned.native.native_wiring import NativeWiring, finite
from equifactor.solvers.learned.network_config import check_cardinality
from equifactor.solvers.messages import plain_engine
from equifactor.solvers.messages.bp_engine import BpPart, BpSettings

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FlatGraph
    from equifactor.solvers.learned.best_assignments import BestAssignments
    from equifactor.solvers.messages.bp_engine import BpAnswers
    from equifactor.solving.solver import SolveContext

# Seconds of a step in plain NumPy, for itself and for each edge state, about those of one core at 3.5 GHz.
_STEP_SECONDS, _STATE_SECONDS = 2e-4, 3e-7
_KERNELS_FASTER = 0.5  # The time of the kernels for a step, as a share of the time in plain NumPy.
# Seconds after the deadline at which a run of several steps is cut short: a quarter of the second it may exceed.
_ABANDON_SECONDS = 0.25


class NativeRun:
    """The same run as `NetworkRun` in torch.

    Answers treat messages that are not finite as uniform, so that one graph that overflows does not affect the others
    of its batch. `finite` returns which graphs are not affected.
    """

    engine = "numpy"  # What runs the steps.

    def __init__(self, network: Any, compiled: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> None:
        self.network, self.compiled, self.context = network, compiled, context
        self.best: BestAssignments | None = None  # For MAP, if the run keeps its best assignments.
        if hasattr(network.config, "card"):
            check_cardinality(compiled, network.config.name, network.config.card)
        self._read: list[tuple[Any, FloatArray]] = []  # States and their log beliefs.
        self._moved: tuple[Any, FloatArray] | None = None  # A state and its messages as probabilities.
        with np.errstate(all="ignore"):
            self.wiring = NativeWiring(compiled, "max" if task is Task.MAP else "sum", context.clock)
            seconds = network.config.steps * (_STEP_SECONDS + _STATE_SECONDS * compiled.num_edge_states)
            self.wiring.compiled = not plain_is_better(seconds, _KERNELS_FASTER * seconds, "networks")
            self.state = network.start(self.wiring)
        self.graph_of_state = compiled.graph_of_var[compiled.var_of_state]  # [X]

    # ---- steps ------------------------------------------------------------------------------------------

    def advance(self, count: int, tolerance: float, most: int) -> FloatArray:
        """Run `count` steps; return [G] the largest change of a belief or message in the last one, in probability.

        With a tolerance of 0 the change is infinite. Beliefs cost a readout of two states. They are compared after the
        last of `most` steps, and if the messages of a graph moved by no more than the tolerance.
        """
        with np.errstate(all="ignore"):
            for n in range(count):
                before, self.state = self.state, self.network.step(self.state)
                if n + 1 < count and self.context.clock.late > _ABANDON_SECONDS:
                    raise TimeIsUp
            if tolerance == 0.0:
                return np.full(self.compiled.num_graphs, np.inf)
            wiring = self.wiring
            old = self._moved[1] if self._moved is not None and self._moved[0] is before else self._messages(before)
            new = self._messages(self.state)
            self._moved = self.state, new
            change = wiring.largest_per_graph(wiring.graph, np.abs(new - old))
            if self.state.steps < most and (change > tolerance).all():
                return change
            old, new = self._probabilities(before), self._probabilities(self.state)
            return np.maximum(change, wiring.largest_per_graph(self.graph_of_state, np.abs(new - old)))

    def _messages(self, state: Any) -> FloatArray:
        """Return the messages [S2] of a state as probabilities; those of a network may not be normalised."""
        return np.exp(self.wiring.normalize(state.msg_fv))

    # ---- parts of a batch -------------------------------------------------------------------------------

    def take(self, graphs: IntArray) -> tuple[Any, ...]:
        """Return a copy of the messages and hidden vectors of some graphs."""
        return tuple(
            values if axis is None else values[..., self._columns(axis, graphs)]
            for axis, values in zip(self.network.axes, self.state, strict=True)
        )

    def put(self, graphs: IntArray, part: tuple[Any, ...]) -> None:
        """Set the arrays of some graphs to those that `take` returned."""
        fields = []
        for axis, values, new in zip(self.network.axes, self.state, part, strict=True):
            if axis is not None:
                values = values.copy()
                values[..., self._columns(axis, graphs)] = new
            fields.append(new if axis is None else values)
        self.state = type(self.state)(*fields)

    def _columns(self, axis: str, graphs: IntArray) -> IntArray:
        """Return the columns of some graphs along an axis, ascending, which is their order in any batch."""
        flat = self.compiled
        if axis == "edge states":
            graph = self.wiring.graph
        else:
            graph = self.graph_of_state if axis == "states" else flat.graph_of_var[flat.var_of_edge]
        chosen = np.zeros(flat.num_graphs, bool)
        chosen[graphs] = True
        return np.flatnonzero(chosen[graph])

    # ---- answers ----------------------------------------------------------------------------------------

    def log_beliefs(self, state: Any = None) -> FloatArray:
        """Return [X], not normalised, of a state (by default the current one); the last two readouts are kept."""
        state = self.state if state is None else state
        for known, found in self._read:
            if known is state:
                return found
        with np.errstate(all="ignore"):
            self._read = [*self._read[-1:], (state, self.network.log_beliefs(state))]
        return self._read[-1][1]

    def finite(self) -> BoolArray:
        """Return [G] whether all log beliefs are numbers, or -inf for impossible states."""
        log_b = self.log_beliefs()
        return ~self._any(np.isnan(log_b) | np.isposinf(log_b))

    def possible(self) -> BoolArray:
        """Return [G] whether every variable has a possible state."""
        return ~self._any(np.isneginf(self._best())[self.compiled.var_of_state])

    def _any(self, marked: BoolArray) -> BoolArray:
        """Return [G] whether one of the states [X] of a graph is marked."""
        found = np.zeros(self.compiled.num_graphs, bool)
        found[self.graph_of_state[marked]] = True
        return found

    def _best(self) -> FloatArray:
        """Return [V] the highest log belief of each variable."""
        flat = self.compiled
        return np.maximum.reduceat(self.log_beliefs(), flat.var_ptr[:-1]) if flat.num_vars else np.zeros(0)

    def probabilities(self) -> FloatArray:
        """Return [X] normalised beliefs; all zero for a variable without any possible state."""
        with np.errstate(all="ignore"):
            return self._probabilities(self.state)

    def _probabilities(self, state: Any) -> FloatArray:
        flat, log_b = self.compiled, self.log_beliefs(state)
        if not flat.num_vars:
            return np.zeros(0)
        top = finite(np.maximum.reduceat(log_b, flat.var_ptr[:-1]))
        weight = np.exp(log_b - top[flat.var_of_state])
        total = np.add.reduceat(weight, flat.var_ptr[:-1])
        return weight / np.where(total > 0, total, 1.0)[flat.var_of_state]

    def best_states(self) -> IntArray:
        """Return [V] the state of highest belief, the first on ties."""
        flat, first = self.compiled, self.compiled.var_ptr[:-1]
        if not flat.num_vars:
            return np.zeros(0, np.int64)
        log_b = np.nan_to_num(self.log_beliefs(), nan=0.0, posinf=np.finfo(np.float64).max, neginf=-np.inf)
        best = np.maximum.reduceat(log_b, first)[flat.var_of_state]
        return np.minimum.reduceat(np.where(log_b >= best, np.arange(len(log_b)), len(log_b)), first) - first

    def messages(self) -> FloatArray:
        """Return [S] factor-to-variable log messages in flat order, unary factors included."""
        msg_fv = self.wiring.messages(self.state.msg_fv)
        return np.where(np.isnan(msg_fv) | np.isposinf(msg_fv), 0.0, msg_fv)

    def log_z(self) -> FloatArray:
        """Return [G] the Bethe estimate of ln Z from the messages."""
        return self._answers(self.messages()).log_z

    def upper_bound(self, passes: int = 0) -> FloatArray:
        """Return [G] an upper bound on the best log score; passes of dual ascent lower it while time is left."""
        messages = self.messages()
        bound = self._answers(messages).upper_bound
        if passes == 0:
            return bound
        from equifactor.solvers.duals.ascent import VariableAscent
        from equifactor.solvers.duals.map_bounds import upper_bound_of

        ascent = VariableAscent(self.compiled, messages)
        for _ in range(passes):
            if self.context.clock.stopped:
                break
            ascent.sweep()
        return np.minimum(bound, upper_bound_of(self.compiled, ascent.messages))

    def _answers(self, messages: FloatArray) -> BpAnswers:
        """Return the answers of belief propagation for messages, in plain NumPy until kernels are loaded."""
        flat, is_max = self.compiled, self.wiring.is_max
        seconds = plain_engine.plain_bp_seconds(flat, 1)
        if plain_engine.applies_to(flat) and plain_is_better(seconds, 0.3 * seconds, "messages"):
            engine = plain_engine.PlainEngine(flat, BpSettings(self.wiring.semiring, "parallel", 0.0, 0.0, 0))
            engine.put(np.arange(flat.num_graphs), BpPart(messages, 0))
            return engine.answers()
        from equifactor.solvers.messages.numba_engine import answers_of

        return answers_of(flat, messages, is_max)
