"""One run of a native network on a batch: its state, how far the last step moved it, and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.status import Task
from equifactor.kernels.readiness import plain_is_better
from equifactor.solvers.learned.native.native_wiring import NativeWiring, finite
from equifactor.solvers.learned.network_config import check_cardinality
from equifactor.solvers.messages import plain_engine
from equifactor.solvers.messages.bp_engine import BpPart, BpSettings

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FlatGraph
    from equifactor.solvers.messages.bp_engine import BpAnswers
    from equifactor.solving.solver import SolveContext


class NativeRun:
    """The same run as `NetworkRun` in torch.

    Answers treat messages that are not finite as uniform, so that one graph that overflows does not affect the others
    of its batch. `finite` returns which graphs are not affected.
    """

    def __init__(self, network: Any, compiled: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> None:
        self.network, self.compiled, self.context = network, compiled, context
        if hasattr(network.config, "card"):
            check_cardinality(compiled, network.config.name, network.config.card)
        self._last: tuple[FloatArray, FloatArray] | None = None  # The probabilities after the last watched step.
        self._read: tuple[Any, FloatArray] | None = None  # A state and its log beliefs.
        with np.errstate(all="ignore"):
            self.wiring = NativeWiring(compiled, "max" if task is Task.MAP else "sum", context.clock)
            self.state = network.start(self.wiring)
        self.graph_of_state = compiled.graph_of_var[compiled.var_of_state]  # [X]

    # ---- steps ------------------------------------------------------------------------------------------

    def advance(self, count: int, watched: bool = True) -> FloatArray:
        """Run `count` steps; return [G] the largest change of a belief or message in the last one, in probability.

        Without `watched` the change is infinite. Measuring it costs a readout.
        """
        with np.errstate(all="ignore"):
            for _ in range(count - 1):
                self.state = self.network.step(self.state)
            if not watched:
                self.state = self.network.step(self.state)
                return np.full(self.compiled.num_graphs, np.inf)
            before = self._probabilities() if self._last is None or count > 1 else self._last
            self.state = self.network.step(self.state)
            self._last = self._probabilities()
            beliefs, messages = (np.abs(p - q) for p, q in zip(self._last, before, strict=True))
            wiring = self.wiring
            return np.maximum(
                wiring.largest_per_graph(self.graph_of_state, beliefs), wiring.largest_per_graph(wiring.graph, messages)
            )

    def _probabilities(self) -> tuple[FloatArray, FloatArray]:
        """Return beliefs [X] and messages [S2] as probabilities; messages of a network may not be normalised."""
        return self.probabilities(), np.exp(self.wiring.normalize(self.state.msg_fv))

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
        self._last = None

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

    def log_beliefs(self) -> FloatArray:
        """Return [X], not normalised; cached, since a readout can cost as much as a step."""
        if self._read is None or self._read[0] is not self.state:
            with np.errstate(all="ignore"):
                self._read = self.state, self.network.log_beliefs(self.state)
        return self._read[1]

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
        flat = self.compiled
        if not flat.num_vars:
            return np.zeros(0)
        with np.errstate(all="ignore"):
            weight = np.exp(self.log_beliefs() - finite(self._best())[flat.var_of_state])
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
        if passes == 0 or self.compiled.structured:  # Bounds are not tightened for structured factors.
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
        """Return what the formulae of belief propagation give for messages; plain NumPy until kernels are loaded."""
        flat, is_max = self.compiled, self.wiring.is_max
        seconds = plain_engine.plain_bp_seconds(flat, 1)
        if plain_engine.applies_to(flat) and plain_is_better(seconds, 0.3 * seconds, "messages"):
            engine = plain_engine.PlainEngine(flat, BpSettings(self.wiring.semiring, "parallel", 0.0, 0.0, 0))
            engine.put(np.arange(flat.num_graphs), BpPart(messages, 0))
            return engine.answers()
        from equifactor.solvers.messages.numba_engine import answers_of

        return answers_of(flat, messages, is_max)
