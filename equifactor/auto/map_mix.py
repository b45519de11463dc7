"""MAP by a mix of methods that help each other: belief propagation starts, search improves, a dual bound certifies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from equifactor.bp.decode import sequential_states
from equifactor.bp.engine import Settings, new_engine
from equifactor.dual.ascent import VariableAscent
from equifactor.dual.cycles import CycleAscent
from equifactor.graph import compile
from equifactor.result import Estimate, Status, impossible
from equifactor.search.local_search import LocalSearch
from equifactor.search.model import SearchModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.graph import FactorGraph
    from equifactor.solver import Run

    IntArray = NDArray[np.int64]

_BP_ITERATIONS = 200
_STALL = {VariableAscent: 20, CycleAscent: 300}  # sweeps over which a bound has to fall by ...
_LEAST_FALL = 1e-3  # ... this share of the gap
_PATIENCE = 400  # search phases without success after which it counts as done


class MapMix:
    """The state of the mix on one graph: the best assignment, the lowest bound, and who works on them."""

    def __init__(self, graph: FactorGraph, run: Run, gap: float) -> None:
        self.graph = graph
        self.run = run
        self.gap = gap  # relative gap that counts as none
        self.flat = compile(graph)
        self.bound = np.inf
        self.search = LocalSearch(SearchModel(self.flat), self._start(), run.seed)
        self._renew_score()
        self.dual: VariableAscent | CycleAscent | None = VariableAscent(self.flat)
        self.falls: list[float] = []  # bounds of the present dual, sweep by sweep
        self.sweeps = 0
        self.idle = 0  # search phases since the last success
        self.spent = {"search": 0.0, "dual": 0.0}  # seconds

    def solve(self, seconds: float) -> Estimate:
        """Search and bound by turns of equal time, until they meet or time is up.

        Without a deadline it also ends when nobody has moved for long; with one, the time is there to be used.
        """
        clock = self.run.clock
        end = clock.seconds + seconds
        patience = _PATIENCE if clock.time_limit is None else np.inf
        status: Status | None = None
        while status is None:
            if self.proven:
                status = Status.OPTIMAL
            elif clock.stopped:
                status = clock.status
            elif clock.seconds >= end or (self.dual is None and self.idle >= patience):
                status = Status.CONVERGED
            else:
                self._turn()
                if np.isneginf(self.bound):
                    return impossible("a variable has no state that its factors allow")
                self.run.report(int(clock.seconds - end + seconds), int(seconds), f"gap {self.bound - self.score:.3g}")
        return self._estimate(status)

    def _renew_score(self) -> None:
        """The log score of the best assignment in full precision, -inf when it has probability zero."""
        self.score = self.graph.log_score(self.flat.assignments(self.search.best)[0])

    @property
    def proven(self) -> bool:
        """The bound has come down to the score."""
        return np.isfinite(self.bound) and self.bound - self.score <= self.gap * max(1.0, abs(self.bound))

    def _start(self) -> IntArray:
        """The better decoding of damped max-product messages."""
        settings = Settings("max", "parallel", 0.5, 1e-6, self.run.seed)
        engine = new_engine(self.flat, settings, self.run, "numba")
        change = np.inf
        for _ in range(_BP_ITERATIONS // 20):
            if change <= settings.tolerance or self.run.clock.stopped:
                break
            change = float(engine.sweep(20).max(initial=0.0))
        decodings = [engine.answers().states, sequential_states(self.flat, engine.messages())]
        return max(decodings, key=lambda x: self.graph.log_score(self.flat.assignments(x)[0]))

    def _turn(self) -> None:
        start = time.perf_counter()
        if self.dual is not None and self.spent["dual"] <= self.spent["search"]:
            self._lower_bound_once()
            self.spent["dual"] += time.perf_counter() - start
        else:
            self.idle += 1
            if self.search.step():
                self.idle = 0
                self._renew_score()
            self.spent["search"] += time.perf_counter() - start

    def _lower_bound_once(self) -> None:
        assert self.dual is not None
        self.sweeps += 1
        self.bound = min(self.bound, self.dual.sweep())
        self.falls.append(self.bound)
        if self.sweeps & (self.sweeps - 1) == 0 or self.sweeps % 32 == 0:  # often at first, then less
            taken = [self.search.offer(states) for states in self.dual.candidates()]
            if any(taken):
                self._renew_score()
        stall = _STALL[type(self.dual)]
        fallen = self.falls[-1 - stall] - self.bound if len(self.falls) > stall else np.inf
        if fallen <= _LEAST_FALL * (self.bound - self.score) or fallen <= 1e-12 * abs(self.bound):
            self._next_dual()

    def _next_dual(self) -> None:
        """A stalled bound is tightened along frustrated cycles, where all factors are pairs; then it stays."""
        pairwise = all(len(g.shape) <= 2 for g in self.flat.groups)
        self.dual = CycleAscent(self.flat) if pairwise and isinstance(self.dual, VariableAscent) else None
        self.falls.clear()

    def _estimate(self, status: Status | None) -> Estimate:
        assignment = self.flat.assignments(self.search.best)[0]
        score = self.graph.log_score(assignment)
        bound = max(self.bound, score) if np.isfinite(self.bound) else None
        gap = None if bound is None else bound - score
        shown = "no bound" if gap is None else f"gap {gap:.3g}"
        return Estimate(
            status=status or Status.CONVERGED,
            message=f"best of max-product decoding and local search, dual bound by {self.sweeps} sweeps: {shown}",
            assignment=assignment,
            lower_bound=score,
            upper_bound=bound,
            iterations=self.sweeps,
            stats={"gap": gap, "search_phases": self.search.phases, "dual_sweeps": self.sweeps},
        )
