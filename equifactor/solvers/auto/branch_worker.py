"""Branch and bound as a worker of the MAP portfolio: when it is worth its time, and on which graph it works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph import compile
from equifactor.solvers.duals.ascent import VariableAscent
from equifactor.solvers.duals.stall import Stall
from equifactor.solvers.elimination.shrink import shrink
from equifactor.solvers.search.branch import Branching

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph


_TRIAL = 0.5  # The search has this many seconds to show that it closes the gap.
_BEHIND = 0.1  # The search is beaten while another bound leaves a smaller share of its gap than this.
_STINT = 0.02  # One turn takes about this many seconds.
PLAIN_SWEEPS = 300  # Branch and bound begins after this many sweeps of plain ascent although the bound still falls.
PLAIN_STALL_SWEEPS = 20  # The fall of a plain bound is measured over this many sweeps.
LEAST_FALL = 1e-3  # A bound whose fall is no more than this share of the gap has stalled.
_BETTER = 0.7  # The search begins anew when the gap at the root is less than this share of the gap of its open nodes.

# The weights of this worker are its shares of the time, against 1 for each of the others.
_WEIGHT_SWEEPING = 0.5  # It lowers a bound of its own.
_WEIGHT_ON_TRIAL = 2.0  # The search has begun, or is about to.
_WEIGHT_PROMISING = 4.0  # The search will prove the best score in the time left.
_WEIGHT_SLOW = 1.0  # The search will not prove the best score in the time left.
_WEIGHT_BEATEN = 0.05  # Others leave a much smaller gap.


class BranchWorker(Branching):
    """Branch and bound on the graph of the portfolio, with further cheap variables eliminated.

    Args:
        graph: the graph of the portfolio.
        plain: the dual ascent of that graph, used where nothing more can be eliminated.
        gap: the relative gap between bound and score that counts as none.
        clock: the clock of the call.
    """

    def __init__(self, graph: FactorGraph, plain: VariableAscent, gap: float, clock: Clock) -> None:
        smaller = shrink(graph)
        self.shrunk = smaller if smaller is not None and smaller.graph.num_vars < graph.num_vars else None
        ascent = plain if self.shrunk is None else VariableAscent(compile(self.shrunk.graph))
        super().__init__(ascent, Stall(PLAIN_STALL_SWEEPS, share_of_gap=LEAST_FALL), gap, clock)
        self.bound = np.inf  # The lowest bound of all searches.
        self.history: list[tuple[float, float]] = []  # The seconds and the bound after each turn.
        self.known_sweeps = 0  # The sweeps of the ascent when it was last looked at.
        self.seconds = 0.0  # The time spent on nodes.

    def weight(self, bound: float, score: float, left: float) -> float:
        """The share of the time that it should have, against 1 for others; for the arguments see `hopeless`."""
        if self._is_beaten(bound, score):
            return _WEIGHT_BEATEN
        if self.hopeless(bound, score, left):
            return _WEIGHT_SLOW
        if self.search is None:
            return _WEIGHT_SWEEPING if self.shrunk is not None else _WEIGHT_ON_TRIAL
        return _WEIGHT_ON_TRIAL if self.seconds < _TRIAL else _WEIGHT_PROMISING

    def hopeless(self, bound: float, score: float, left: float) -> bool:
        """Whether it will not prove the best score in time.

        Others leave a much smaller gap, or after its trial it is too slow. Its pace is that of the second half of its
        time: bounds of best-first search fall fast at first.

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
        return self.seconds >= _TRIAL and closed * left < gap * (self.seconds - half_seconds)

    def _is_beaten(self, bound: float, score: float) -> bool:
        """Whether the gap of others is much smaller than its own."""
        own = self.swept_bound if self.search is None else self.search.bound
        return bool(bound - score < _BEHIND * (own - score))

    def turn(self, states: IntArray, score: float) -> IntArray | None:
        """Work for one turn, knowing an assignment [V] and its log score; a better assignment when it finds one."""
        if self.search is None:
            if self._ascend(score):
                self._begin_anew(states, score)
            return None
        self.search.offer(self._inner(states), score)
        if self.ascent.sweeps > self.known_sweeps:  # The portfolio has swept in the meantime.
            self.known_sweeps = self.ascent.sweeps
            if self.ascent.bound - score < _BETTER * (self.search.bound - score):
                self._begin_anew(states, score)
        start = self.clock.seconds
        better = self.work(_STINT)
        self.seconds += self.clock.seconds - start
        self.history.append((self.seconds, self.search.bound))
        self.bound = min(self.bound, self.search.bound)
        return self._outer(self.search.best) if better else None

    def _begin_anew(self, states: IntArray, score: float) -> None:
        search = self.begin(self._inner(states), score)
        self.bound = min(self.bound, search.bound)
        self.history = [(0.0, search.bound)]
        self.known_sweeps = self.ascent.sweeps
        self.seconds = 0.0

    def _ascend(self, score: float) -> bool:
        """Sweep for one turn; whether the bound has stalled. The ascent of the portfolio itself has stalled before."""
        stalled = self.shrunk is None
        end = time.perf_counter() + _STINT
        while not stalled and time.perf_counter() < end:
            bound = self.sweep()
            stalled = self.sweeps >= PLAIN_SWEEPS or self.stall.stalled(bound - score)
        return stalled

    def _inner(self, states: IntArray) -> IntArray:
        """States of the graph that is searched, from those of the portfolio."""
        return states if self.shrunk is None else self.shrunk.states(states)

    def _outer(self, states: IntArray) -> IntArray:
        """States of the graph of the portfolio, from those of the one that is searched."""
        return states.copy() if self.shrunk is None else self.shrunk.assignment(states)
