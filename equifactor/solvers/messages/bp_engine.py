"""What an engine of belief propagation offers to the solver, and the choice between the engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

    from equifactor.base.typing import FloatArray, IntArray, Semiring
    from equifactor.graph import FlatGraph
    from equifactor.solving.solver import SolveContext

Schedule = Literal["parallel", "sequential", "random", "residual"]


@dataclass(frozen=True)
class BpSettings:
    """How messages are updated."""

    semiring: Semiring
    schedule: Schedule
    damping: float
    tolerance: float
    seed: int


@dataclass(frozen=True)
class BpAnswers:
    """What messages say about a batch, in numpy."""

    probabilities: FloatArray  # [X], all zero for a variable without any possible state
    states: IntArray  # [V] the state of highest belief of each variable
    log_z: FloatArray  # [G] Bethe estimate (sum semiring)
    upper_bound: FloatArray  # [G] on the best log score (max semiring)


class BpPart(NamedTuple):
    """What an engine holds of some graphs of a batch."""

    messages: Any  # their log messages in flat order, up to a constant each; numpy, or a tensor in the torch engine
    sweeps: int  # how often the engine has updated all messages in an order that turns round


class BpEngine(Protocol):
    """Messages of one batch and the way to improve them."""

    def sweep(self, count: int) -> FloatArray:
        """Update every message `count` times, at least once; [G] largest undamped change of the last sweep."""
        ...

    def answers(self) -> BpAnswers:
        """Beliefs and what follows, from the current messages."""
        ...

    def messages(self) -> FloatArray:
        """[S] factor-to-variable log messages in flat order, up to a constant each."""
        ...

    def take(self, graphs: IntArray) -> BpPart:
        """A copy of what it holds of some graphs."""
        ...

    def put(self, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs; they may come from another engine."""
        ...

    def rest(self, graphs: IntArray) -> None:
        """Spend as little as possible on some graphs, whose messages no longer count until `put` sets them."""
        ...


def engine_name(name: str, context: SolveContext) -> str:
    """Which engine it is: `auto` takes Numba on the CPU in float64 and torch otherwise."""
    if name != "auto":
        return name
    return "numba" if context.device == "cpu" and context.dtype == "float64" else "torch"


def new_engine(flat: FlatGraph[np.ndarray], settings: BpSettings, context: SolveContext, name: str) -> BpEngine:
    """The engine by the name of the option."""
    if engine_name(name, context) == "numba":
        from equifactor.solvers.messages import binary_engine

        if settings.schedule in ("parallel", "residual") and binary_engine.applies_to(flat):
            return binary_engine.BinaryEngine(flat, settings)
        from equifactor.solvers.messages import literal_engine

        if settings.schedule == "parallel" and literal_engine.applies_to(flat):
            return literal_engine.LiteralEngine(flat, settings)
        from equifactor.solvers.messages.numba_engine import NumbaEngine

        return NumbaEngine(flat, settings)
    from equifactor.solvers.messages.torch_engine import TorchEngine

    return TorchEngine(flat, settings, context)
