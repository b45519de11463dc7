"""The loop of dual ascent: sweep, decode, until the best assignment meets the bound."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.result import Estimate, Status, impossible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.dual.ascent import Ascent
    from equifactor.solver import Run


RANDOM_DECODINGS = 10


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    iterations: int
    gap: float  # relative to the bound
    patience: int  # sweeps over which the bound must improve by `tolerance` of the gap
    tolerance: float


def close_gap(ascent: Ascent, limits: Limits, run: Run) -> Estimate:
    """Sweep and decode until the best assignment meets the bound, the bound stalls, or time is up (one graph)."""
    best = _Best(ascent)
    best.update()
    lowest = ascent.bound
    history = [lowest]
    sweeping = 0.0  # seconds
    done = 0
    status: Status | None = None
    while status is None:
        stalled = len(history) > limits.patience and (
            history[-1 - limits.patience] - lowest <= limits.tolerance * max(1.0, abs(lowest))
        )
        last = stalled or done >= limits.iterations or run.clock.stopped
        if done and (best.seconds <= sweeping or last):
            best.update()
        if stalled:  # several states may share a maximum: other orders break the ties in other ways
            rng = np.random.default_rng(run.seed)
            for _ in range(RANDOM_DECODINGS):
                if best.meets(lowest, limits.gap) or run.clock.stopped:
                    break
                best.update(rng)
        if best.meets(lowest, limits.gap):
            status = Status.OPTIMAL
        elif stalled:
            status = Status.CONVERGED
        elif last:
            status = run.clock.status or Status.ITERATION_LIMIT
        else:
            start = time.perf_counter()
            bound = ascent.sweep()
            sweeping += time.perf_counter() - start
            done += 1
            if np.isneginf(bound):
                return impossible("a variable has no state that its factors allow")
            lowest = min(lowest, bound)
            history.append(lowest)
            run.report(done, limits.iterations, f"gap {lowest - best.score:.3g}")
    bound = max(ascent.bound, best.score)  # of the messages as they are, free of rounding over the sweeps
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

    def __init__(self, ascent: Ascent) -> None:
        self.ascent = ascent
        self.assignment: NDArray[np.int64] | None = None
        self.score = -np.inf
        self.seconds = 0.0  # spent on finding it

    def update(self, rng: np.random.Generator | None = None) -> None:
        start = time.perf_counter()
        flat = self.ascent.flat
        for states in self.ascent.candidates(rng):
            assignment = flat.assignments(states)[0]
            score = flat.graphs[0].log_score(assignment)
            if self.assignment is None or score > self.score:
                self.assignment, self.score = assignment, score
        self.seconds += time.perf_counter() - start

    def meets(self, bound: float, gap: float) -> bool:
        return bound - self.score <= gap * max(1.0, abs(bound))
