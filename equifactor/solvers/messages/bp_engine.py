"""What an engine of belief propagation offers to the solver, and the choice between the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from equifactor.graph import FlatGraph
    from equifactor.graph.flat_graph import FactorGroup
    from equifactor.solver import SolveContext

Semiring = Literal["sum", "max"]
Schedule = Literal["parallel", "sequential", "random", "residual"]


@dataclass(frozen=True)
class Settings:
    """How messages are updated."""

    semiring: Semiring
    schedule: Schedule
    damping: float
    tolerance: float
    seed: int


@dataclass(frozen=True)
class Answers:
    """What messages say about a batch, in numpy."""

    probabilities: NDArray[np.float64]  # [X], all zero for a variable without any possible state
    states: NDArray[np.int64]  # [V] of highest belief
    log_z: NDArray[np.float64]  # [G] Bethe estimate (sum semiring)
    upper_bound: NDArray[np.float64]  # [G] on the best log score (max semiring)


def message_floor(flat: FlatGraph[np.ndarray]) -> float:
    """Log messages below this, true zeros aside, are held here: a thousand times the widest table, at least -10^4.

    Around loops of hard constraints the message of an impossible state may double with every sweep. Left alone it takes
    all digits from the sums it enters, then overflows into a zero that no table states.
    """
    return -1e3 * max([10.0, *(float(table_ranges(flat, group).max()) for group in flat.groups)])


def table_ranges(flat: FlatGraph[np.ndarray], group: FactorGroup) -> NDArray[np.float64]:
    """[F] of a group: the largest log entry of each table less the smallest one that is no true zero."""
    import numpy as np

    table = flat.log_phi[group.entries].reshape(group.num_factors, -1)
    low = np.where(np.isneginf(table), np.inf, table).min(axis=1)
    return np.asarray(table.max(axis=1) - low)


class Engine(Protocol):
    """Messages of one batch and the way to improve them."""

    def sweep(self, count: int) -> NDArray[np.float64]:
        """Update every message so many times (at least once); [G] largest undamped change of the last sweep."""
        ...

    def answers(self) -> Answers:
        """Beliefs and what follows, from the current messages."""
        ...

    def messages(self) -> NDArray[np.float64]:
        """[S] factor-to-variable log messages in flat order, up to a constant each."""
        ...


def new_engine(flat: FlatGraph[np.ndarray], settings: Settings, context: SolveContext, name: str) -> Engine:
    """The engine by name; `auto` takes Numba on the CPU in float64 and torch otherwise."""
    if name == "auto":
        name = "numba" if context.device == "cpu" and context.dtype == "float64" else "torch"
    if name == "numba":
        from equifactor.solvers.messages import binary_engine

        if settings.schedule in ("parallel", "residual") and binary_engine.applies_to(flat):
            return binary_engine.BinaryEngine(flat, settings)
        from equifactor.solvers.messages.numba_engine import NumbaEngine

        return NumbaEngine(flat, settings)
    from equifactor.solvers.messages.torch_engine import TorchEngine

    return TorchEngine(flat, settings, context)
