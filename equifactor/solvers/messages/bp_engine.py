"""The interface of an engine of belief propagation, and the choice between the engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from equifactor.base.torch_device import check_device
from equifactor.kernels.readiness import plain_is_better, uses_kernels

if TYPE_CHECKING:
    import numpy as np

    from equifactor.base.typing import FloatArray, IntArray, Semiring
    from equifactor.graph import FlatGraph
    from equifactor.solving.solver import SolveContext

_KERNELS_FASTER = 0.3  # The time of the kernels for an iteration, as a share of the time in plain NumPy.
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
    """The answers that messages give for a batch, in numpy."""

    probabilities: FloatArray  # [X], all zero for a variable without any possible state
    states: IntArray  # [V] the state of highest belief of each variable
    log_z: FloatArray  # [G] Bethe estimate (sum semiring)
    upper_bound: FloatArray  # [G] on the best log score (max semiring)


class BpPart(NamedTuple):
    """The messages of some graphs of a batch."""

    messages: Any  # log messages in flat order, each up to a constant; numpy, or a tensor in the torch engine
    sweeps: int  # number of sweeps so far; a sequential schedule reverses its order in every second sweep


class BpEngine(Protocol):
    """The messages of one batch and the updates that improve them."""

    name: str  # What runs the updates: numba, numpy, torch or triton.

    def sweep(self, count: int) -> FloatArray:
        """Update every message `count` times, at least once; return the largest undamped change [G] of the last one."""
        ...

    def answers(self, with_log_z: bool = True) -> BpAnswers:
        """Return beliefs and the answers that follow from them, from the current messages.

        Args:
            with_log_z: whether ln Z is needed; otherwise it may be NaN.
        """
        ...

    def messages(self) -> FloatArray:
        """Return the factor-to-variable log messages [S] in flat order, each up to a constant."""
        ...

    def take(self, graphs: IntArray) -> BpPart:
        """Return a copy of the messages of some graphs."""
        ...

    def put(self, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs; they may come from another engine."""
        ...

    def rest(self, graphs: IntArray) -> None:
        """Spend as little as possible on some graphs; their messages are not used until `put` sets them."""
        ...


def engine_name(name: str, context: SolveContext) -> str:
    """Return the name of the engine: `auto` takes Numba (or NumPy) on the CPU in float64 and torch otherwise."""
    if name != "auto":
        return name
    return "numba" if context.device == "cpu" and context.dtype == "float64" else "torch"


def new_engine(
    flat: FlatGraph[np.ndarray], settings: BpSettings, context: SolveContext, name: str, iterations: int = 200
) -> BpEngine:
    """Return the engine of the given name; `auto` takes plain NumPy if `iterations` end before kernels are loaded."""
    if engine_name(name, context) == "numba":
        if name == "auto" and settings.schedule == "parallel" and not uses_kernels("messages"):
            from equifactor.solvers.messages import plain_engine

            seconds = plain_engine.plain_bp_seconds(flat, iterations)
            if plain_is_better(seconds, _KERNELS_FASTER * seconds, "messages") and plain_engine.applies_to(flat):
                return plain_engine.PlainEngine(flat, settings)
        from equifactor.solvers.messages import binary_engine

        if settings.schedule in ("parallel", "residual") and binary_engine.applies_to(flat):
            return binary_engine.BinaryEngine(flat, settings, context.threads)
        from equifactor.solvers.messages import literal_engine

        if settings.schedule == "parallel" and literal_engine.applies_to(flat):
            return literal_engine.LiteralEngine(flat, settings)
        from equifactor.solvers.messages.numba_engine import NumbaEngine

        return NumbaEngine(flat, settings)
    check_device(context.device, "bp on the torch engine")
    from equifactor.solvers.messages.torch_engine import TorchEngine

    if name == "auto":
        from equifactor.solvers.messages import fused_engine

        if fused_engine.applies_to(flat, settings, context):
            return fused_engine.FusedEngine(flat, settings, context)
    return TorchEngine(flat, settings, context)
