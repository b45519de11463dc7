"""Branch and bound as one of the workers of the MAP mix: when it is worth its time, and on which graph it works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph import compile
from equifactor.solvers.elimination.shrink import ShrunkGraph, shrink
from equifactor.solvers.optimise.ascent import VariableAscent
from equifactor.solvers.optimise.branch_and_bound import BranchAndBound

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.graph import FactorGraph
    from equifactor.typing import IntArray


_TRIAL = 0.5  # seconds in which it may show that it closes the gap
_BEHIND = 0.1  # hopeless too while another bound leaves so small a share of its gap
_SWEEPING, _ON_TRIAL, _ON_ITS_WAY, _SLOW, _BEATEN = 0.5, 2.0, 4.0, 1.0, 0.05  # its time against that of others
_STINT = 0.02  # seconds of one turn
_SWEEPS = 300  # of the dual ascent before the first node, at most ...
_STALL = 20  # ... or until so many of them lower the bound by less than
_LEAST_FALL = 1e-3  # ... this share of the gap
_BETTER = 0.7  # of the gap of all open nodes: with a smaller one at the root, it pays to begin anew


class Branching:
    """Branch and bound on a graph of the mix, with further cheap variables eliminated.

    Args:
        graph: that of the mix.
        plain: its dual ascent, used where nothing more can be eliminated.
        gap: relative gap between bound and score that counts as none.
        clock: that of the run.
    """

    def __init__(self, graph: FactorGraph, plain: VariableAscent, gap: float, clock: Clock) -> None:
        self.gap = gap
        self.clock = clock
        self.ascent = plain
        self.shrunk: ShrunkGraph | None = None  # the graph of the search, where it is not that of the mix
        smaller = shrink(graph)
        if smaller is not None and smaller.graph.num_vars < graph.num_vars:
            self.shrunk = smaller
            self.ascent = VariableAscent(compile(smaller.graph))
        self.falls: list[float] = []
        self.search: BranchAndBound | None = None  # begins when the ascent has stalled
        self.bound = np.inf
        self.history: list[tuple[float, float]] = []  # seconds and bound after each turn
        self.swept = 0  # sweeps of the ascent when it was last looked at
        self.seconds = 0.0  # spent on nodes

    @property
    def nodes(self) -> int:
        """Nodes visited."""
        return 0 if self.search is None else self.search.nodes

    def weight(self, bound: float, score: float, left: float) -> float:
        """Share of the time that it should have, against 1 for others; for the arguments see `hopeless`."""
        if self._is_beaten(bound, score):
            return _BEATEN
        if self.hopeless(bound, score, left):
            return _SLOW
        if self.search is None:
            return _SWEEPING if self.shrunk is not None else _ON_TRIAL
        return _ON_TRIAL if self.seconds < _TRIAL else _ON_ITS_WAY

    def hopeless(self, bound: float, score: float, left: float) -> bool:
        """Whether it will not prove the best score in `left` seconds, knowing the lowest bound of all.

        Others leave a much smaller gap, or after its trial it is too slow. Its pace is that of the second half of its
        time: bounds of best-first search fall fast at first.
        """
        if self.search is None or self._is_beaten(bound, score):
            return self._is_beaten(bound, score)
        gap = self.search.bound - score
        half_seconds, half_bound = self.history[len(self.history) // 2]
        closed = half_bound - self.search.bound
        return self.seconds >= _TRIAL and closed * left < gap * (self.seconds - half_seconds)

    def _is_beaten(self, bound: float, score: float) -> bool:
        """The gap of others is much smaller than its own."""
        own = self.search.bound if self.search is not None else self.falls[-1] if self.falls else -np.inf
        return bool(bound - score < _BEHIND * (own - score))

    def work(self, states: IntArray, score: float) -> IntArray | None:
        """One turn, knowing an assignment [V] of the mix and its log score; a better one when it finds one."""
        if self.search is None:
            self._sweep(states, score)
            return None
        self.search.offer(self._inner(states), score)
        if self.ascent.sweeps > self.swept:  # by the mix, in the meantime
            self.swept = self.ascent.sweeps
            if self.ascent.bound - score < _BETTER * (self.search.bound - score):
                self._begin(states, score)
        start = self.clock.seconds
        better = self.search.work(_STINT, lambda: self.clock.stopped)
        self.seconds += self.clock.seconds - start
        self.history.append((self.seconds, self.search.bound))
        self.bound = min(self.bound, self.search.bound)
        return self._outer(self.search.best) if better else None

    def _begin(self, states: IntArray, score: float) -> None:
        """A search from the messages of the ascent as they are now."""
        self.search = BranchAndBound(self.ascent, self._inner(states), score, self.gap)
        self.bound = min(self.bound, self.search.bound)
        self.history = [(0.0, self.search.bound)]
        self.swept = self.ascent.sweeps
        self.seconds = 0.0

    def _sweep(self, states: IntArray, score: float) -> None:
        """Dual ascent until it stalls; then the search begins."""
        stalled = self.shrunk is None
        end = time.perf_counter() + _STINT
        while not stalled and time.perf_counter() < end:
            self.falls.append(self.ascent.sweep())
            fallen = self.falls[-1 - _STALL] - self.falls[-1] if len(self.falls) > _STALL else np.inf
            stalled = len(self.falls) >= _SWEEPS or fallen <= _LEAST_FALL * (self.falls[-1] - score)
        if stalled:
            self._begin(states, score)

    def _inner(self, states: IntArray) -> IntArray:
        return states if self.shrunk is None else self.shrunk.states(states)

    def _outer(self, states: IntArray) -> IntArray:
        return states.copy() if self.shrunk is None else self.shrunk.assignment(states)
