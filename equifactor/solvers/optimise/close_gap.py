"""The loop of dual ascent: sweep, decode, until the best assignment meets the bound."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from equifactor.result import Estimate, Status, impossible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.graph import FlatGraph
    from equifactor.solver import SolveContext


DECODING = 0.3  # seconds of decoding per second of sweeping
RANDOM_DECODINGS = 10


class Dual(Protocol):
    """What the loop needs: a bound that sweeps lower, and assignments read off on the way."""

    flat: FlatGraph[np.ndarray]

    @property
    def bound(self) -> float:
        """Upper bound on the best log score, computed afresh."""
        ...

    def sweep(self) -> float:
        """The bound after one more sweep, up to rounding (-inf: no assignment is possible)."""
        ...

    def candidates(self, rng: np.random.Generator | None = None) -> list[NDArray[np.int64]]:
        """Assignments [V] of the free variables."""
        ...


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    iterations: int
    gap: float  # relative to the bound
    patience: int  # sweeps over which the bound must improve by `tolerance` of the gap
    tolerance: float


def close_gap(dual: Dual, limits: Limits, context: SolveContext) -> Estimate:
    """Sweep and decode until the best assignment meets the bound, the bound stalls, or time is up (one graph)."""
    best = _Best(dual)
    best.update()
    lowest = dual.bound
    history = [lowest]
    sweeping = 0.0  # seconds
    done = 0
    status: Status | None = None
    while status is None:
        stalled = len(history) > limits.patience and (
            history[-1 - limits.patience] - lowest <= limits.tolerance * max(1.0, abs(lowest))
        )
        last = stalled or done >= limits.iterations or context.clock.stopped
        if done and (best.seconds <= DECODING * sweeping or last):
            best.update()
        if stalled:  # several states may share a maximum: other orders break the ties in other ways
            rng = np.random.default_rng(context.seed)
            for _ in range(RANDOM_DECODINGS):
                if best.meets(lowest, limits.gap) or context.clock.stopped:
                    break
                best.update(rng)
        if best.meets(lowest, limits.gap):
            status = Status.OPTIMAL
        elif stalled:
            status = Status.CONVERGED
        elif last:
            status = context.clock.status or Status.ITERATION_LIMIT
        else:
            start = time.perf_counter()
            bound = dual.sweep()
            sweeping += time.perf_counter() - start
            done += 1
            if np.isneginf(bound):
                return impossible("a variable has no state that its factors allow")
            lowest = min(lowest, bound)
            history.append(lowest)
            context.report(done, limits.iterations, f"gap {lowest - best.score:.3g}")
    bound = max(dual.bound, best.score)  # of the messages as they are, free of rounding over the sweeps
    return Estimate(
        status=status,
        assignment=best.assignment,
        lower_bound=best.score,
        upper_bound=bound,
        iterations=done,
        stats={"gap": bound - best.score},
    )


class _Best:
    """The best assignment so far."""

    def __init__(self, dual: Dual) -> None:
        self.dual = dual
        self.assignment: NDArray[np.int64] | None = None
        self.score = -np.inf
        self.seconds = 0.0  # spent on finding it

    def update(self, rng: np.random.Generator | None = None) -> None:
        start = time.perf_counter()
        flat = self.dual.flat
        for states in self.dual.candidates(rng):
            assignment = flat.assignments(states)[0]
            score = flat.graphs[0].log_score(assignment)
            if self.assignment is None or score > self.score:
                self.assignment, self.score = assignment, score
        self.seconds += time.perf_counter() - start

    def meets(self, bound: float, gap: float) -> bool:
        return bound - self.score <= gap * max(1.0, abs(bound))
