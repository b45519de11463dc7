"""Branch and bound as a worker of the MAP portfolio: its share of the time, and the graph on which it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.clock import Clock
from equifactor.graph import compile
from equifactor.solvers.duals.ascent import VariableAscent
from equifactor.solvers.duals.stall import LEAST_FALL, STALL_SWEEPS, Stall
from equifactor.solvers.elimination.shrink import has_time_to_shrink, shrink
from equifactor.solvers.search.branch import Branching

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph


# Seconds in which the search must show that it closes the gap. Halved or doubled: gap within 20 %.
_TRIAL_SECONDS = 0.5
# The search is beaten if another bound leaves less than this share of its gap. Halved or doubled: gap within 20 %.
_BEATEN_GAP = 0.1
# Sweeps of plain ascent after which branch and bound begins even if the bound still falls. Halved or doubled: gap
# within 15 %.
PLAIN_SWEEPS = 300
# The search restarts if the gap at the root is below this share of that of its open nodes. Halved or doubled: gap
# within 15 %.
_BETTER_ROOT = 0.7

# The share of the time for this worker while it lowers a bound of its own, where each other worker has 1. Halved or
# doubled: gap within 15 %.
_WEIGHT_SWEEPING = 0.5
# Its share while the search is on trial, or too slow to prove the best score in time. Doubled on trial: gap +7 %.
_WEIGHT_SEARCHING = 1.0
# Its share if the search should prove the best score in time. Halved or doubled: gap within 30 %.
_WEIGHT_PROMISING = 4.0
_WEIGHT_BEATEN = 0.05  # Its share if others leave a much smaller gap. Halved or doubled: gap within 15 %.


class BranchWorker(Branching):
    """Branch and bound on the graph of the portfolio, with further cheap variables eliminated.

    Args:
        graph: the graph of the portfolio.
        plain: the dual ascent of that graph, used if no more variables can be eliminated.
        gap: the relative gap between bound and score that counts as closed.
        clock: the clock of the call.
    """

    def __init__(self, graph: FactorGraph, plain: VariableAscent, gap: float, clock: Clock) -> None:
        smaller = shrink(graph) if has_time_to_shrink(graph.structure, clock) else None
        self.shrunk = smaller if smaller is not None and smaller.graph.num_vars < graph.num_vars else None
        ascent = plain if self.shrunk is None else VariableAscent(compile(self.shrunk.graph))
        super().__init__(ascent, Stall(STALL_SWEEPS, share_of_gap=LEAST_FALL), gap, clock)
        self.bound = np.inf  # the lowest bound of all searches
        self.history: list[tuple[float, float]] = []  # the seconds and the bound after each turn
        self.known_sweeps = 0  # the sweeps of the ascent at the last turn
        self.seconds = 0.0  # the time spent on nodes

    def weight(self, bound: float, score: float, left: float) -> float:
        """Return the share of the time of this worker, where others have 1; for the arguments see `too_slow`."""
        if self._is_beaten(bound, score):
            return _WEIGHT_BEATEN
        if self.too_slow(bound, score, left):
            return _WEIGHT_SEARCHING
        if self.search is None:
            return _WEIGHT_SWEEPING if self.shrunk is not None else _WEIGHT_SEARCHING
        return _WEIGHT_SEARCHING if self.seconds < _TRIAL_SECONDS else _WEIGHT_PROMISING

    def too_slow(self, bound: float, score: float, left: float) -> bool:
        """Return whether this worker is not expected to prove the best score in time.

        This holds if other workers leave a much smaller gap, or if the search is too slow after its trial. The pace is
        measured over the second half of its time, because bounds of best-first search fall fast at first.

        Args:
            bound: the lowest bound of all workers.
            score: the best log score.
            left: the seconds that are left.
        """
        if self.search is None or self._is_beaten(bound, score):
            return self._is_beaten(bound, score)
        gap = self.search.bound - score
        half_seconds, half_bound = self.history[len(self.history) // 2]
        closed = half_bound - self.search.bound
        return self.seconds >= _TRIAL_SECONDS and closed * left < gap * (self.seconds - half_seconds)

    def _is_beaten(self, bound: float, score: float) -> bool:
        """Return whether the gap of other workers is much smaller than that of this worker."""
        own = self.swept_bound if self.search is None else self.search.bound
        return bool(bound - score < _BEATEN_GAP * (own - score))

    def turn(self, states: IntArray, score: float, seconds: float = CALL_SECONDS) -> IntArray | None:
        """Work for about `seconds`; return a better assignment [V] than the given one if it finds one.

        Args:
            states: [V] the best assignment.
            score: its log score.
            seconds: the time of the turn.
        """
        if self.search is None:
            if self._ascend(score, seconds):
                self._restart(states, score)
            return None
        self.search.offer(self._inner(states), score)
        if self.ascent.sweeps > self.known_sweeps:  # The portfolio has swept in the meantime.
            self.known_sweeps = self.ascent.sweeps
            if self.ascent.bound - score < _BETTER_ROOT * (self.search.bound - score):
                self._restart(states, score)
        start = self.clock.seconds
        better = self.work(seconds)
        self.seconds += self.clock.seconds - start
        self.history.append((self.seconds, self.search.bound))
        self.bound = min(self.bound, self.search.bound)
        return self._outer(self.search.best) if better else None

    def _restart(self, states: IntArray, score: float) -> None:
        search = self.begin(self._inner(states), score)
        self.bound = min(self.bound, search.bound)
        self.history = [(0.0, search.bound)]
        self.known_sweeps = self.ascent.sweeps
        self.seconds = 0.0

    def _ascend(self, score: float, seconds: float) -> bool:
        """Sweep for one turn; return whether the bound has stalled, as the ascent of the portfolio always has."""
        stalled = self.shrunk is None
        end = Clock.now() + seconds
        while not stalled and Clock.now() < end:
            bound = self.sweep()
            stalled = self.sweeps >= PLAIN_SWEEPS or self.stall.stalled(bound - score)
        return stalled

    def _inner(self, states: IntArray) -> IntArray:
        """Return states of the graph that is searched, from states of the graph of the portfolio."""
        return states if self.shrunk is None else self.shrunk.states(states)

    def _outer(self, states: IntArray) -> IntArray:
        """Return states of the graph of the portfolio, from states of the graph that is searched."""
        return states.copy() if self.shrunk is None else self.shrunk.assignment(states)
