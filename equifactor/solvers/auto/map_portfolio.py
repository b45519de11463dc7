"""MAP by a portfolio of methods: belief propagation gives a start, search improves it, and bounds certify it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.status import Status
from equifactor.factors.move_model import MoveModel
from equifactor.graph import compile
from equifactor.solvers.auto.branch_worker import PLAIN_SWEEPS, BranchWorker
from equifactor.solvers.auto.native_search import max_product
from equifactor.solvers.duals.ascent import VariableAscent
from equifactor.solvers.duals.cycle_ascent import CycleAscent
from equifactor.solvers.duals.stall import LEAST_FALL, STALL_SWEEPS, Stall
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.shrink import ShrunkGraph, shrink
from equifactor.solvers.search.local_search import LocalSearch
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import SolveContext

    Worker = Literal["search", "dual", "branching"]

# Sweeps over which the fall of a bound with cycles is measured. Halved or doubled: gap within 10 %.
_CYCLE_STALL_SWEEPS = 300
_ROUNDING = 1e-12  # The relative fall of a bound that counts as rounding, so that the bound has stalled.
# Phases of search without success after which the search counts as done. Halved or doubled: gap within 15 %.
_PATIENCE = 400


def without_cheap_variables(graph: FactorGraph) -> ShrunkGraph | None:
    """Return the graph that the portfolio works on; None if no assignment is possible.

    A pairwise graph stays pairwise, because cycles of pairs then give the best bounds.
    """
    pairs = int(np.diff(graph.structure.scope_ptr).max(initial=0)) <= 2
    return shrink(graph, widest=2) if pairs else shrink(graph)


class MapPortfolio:
    """The state of the portfolio on one graph: the best assignment, the lowest bound, and the workers on both.

    It works on the rest of the graph after cheap variables are eliminated; answers go back through `shrunk`.

    Args:
        shrunk: the rest of the graph, with at least one variable.
        context: the seed and the clock of the call.
        gap: the relative gap between bound and score that counts as closed.
    """

    def __init__(self, shrunk: ShrunkGraph, context: SolveContext, gap: float) -> None:
        self.shrunk = shrunk
        self.context = context
        self.gap = gap
        self.flat = compile(shrunk.graph)
        self.pairwise = all(len(g.shape) <= 2 for g in self.flat.groups)
        self.bound = np.inf
        self.search = LocalSearch(MoveModel(self.flat), self._start(), context.seed)
        self._renew_score()
        self.plain = VariableAscent(self.flat)
        self.dual: VariableAscent | CycleAscent | None = self.plain
        self.stall = Stall(STALL_SWEEPS, LEAST_FALL, _ROUNDING)  # watches the bounds of the current dual
        self.branching: BranchWorker | None = None  # It starts when the first bound has stalled.
        self.sweeps = 0  # the number of sweeps of all duals
        self.idle = 0  # the number of search phases since the last success
        self.spent: dict[Worker, float] = {"search": 0.0, "dual": 0.0, "branching": 0.0}  # seconds of each worker

    def solve(self, seconds: float) -> Estimate:
        """Search and bound in turns of equal time, until they meet or time is up; call it again to continue.

        Without a deadline it also ends when no worker has made progress for long.
        """
        clock = self.context.clock
        end = clock.seconds + seconds
        patience = _PATIENCE if clock.time_limit is None else np.inf
        status: Status | None = None
        while status is None:
            if self.proven:
                status = Status.OPTIMAL
            elif clock.stopped:
                status = clock.status
            elif clock.seconds >= end or (self.idle >= patience and self._is_stuck(end - clock.seconds)):
                status = Status.CONVERGED
            else:
                self._turn(end - clock.seconds)
                if np.isneginf(self.bound):
                    return zero_by_exclusion(self.shrunk.original)
                self.context.report(
                    int(clock.seconds - end + seconds), int(seconds), f"gap {self.bound - self.score:.3g}"
                )
        return self._estimate(status)

    @property
    def proven(self) -> bool:
        """Whether the bound has reached the score."""
        return np.isfinite(self.bound) and self.bound - self.score <= self.gap * max(1.0, abs(self.bound))

    def _is_stuck(self, left: float) -> bool:
        """Return whether no bound should fall any further within `left` seconds."""
        return (
            self.dual is None and self.branching is not None and self.branching.too_slow(self.bound, self.score, left)
        )

    def _renew_score(self) -> None:
        """Compute the log score of the best assignment in full precision; -inf if it has probability zero."""
        self.score = self.shrunk.original.log_score(self.shrunk.assignment(self.search.best))

    def _start(self) -> IntArray:
        """Return the better decoding of damped max-product messages."""
        return max(max_product(self.flat, self.context)[0], key=self.shrunk.graph.log_score)

    def offer(self, assignment: IntArray, bound: float | None) -> None:
        """Take an assignment [V] of positive probability of the original graph, and an upper bound."""
        self._offer([self.shrunk.states(assignment)])
        if bound is not None:
            self.bound = min(self.bound, bound)

    def _turn(self, left: float) -> None:
        """Give a turn to the worker with the least time for its weight."""
        weight: dict[Worker, float] = {"search": 1.0}
        if self.dual is not None:
            weight["dual"] = 1.0
        if self.branching is not None:
            least = 0.0 if self.dual is not None else 1.0  # Without a dual no other worker can close the gap.
            weight["branching"] = max(least, self.branching.weight(self.bound, self.score, left))
        worker = min(weight, key=lambda w: self.spent[w] / weight[w])
        start = self.context.clock.working
        if worker == "dual":
            self._lower_bound_once()
        elif worker == "branching":
            self._branch()
        else:
            self.idle += 1
            if self.search.step():
                self.idle = 0
                self._renew_score()
        self.spent[worker] += self.context.clock.working - start

    def _lower_bound_once(self) -> None:
        """Sweep the current dual once; start the next dual, or branch and bound, if it is time."""
        assert self.dual is not None
        self.sweeps += 1
        self.bound = min(self.bound, self.dual.sweep())
        self.stall.add(self.bound)
        if np.isneginf(self.bound):
            return  # No assignment is possible, so there is nothing to decode.
        if self.sweeps & (self.sweeps - 1) == 0 or self.sweeps % 32 == 0:  # Decode often at first, then less.
            self._offer(self.dual.candidates(clock=self.context.clock))
        if self.stall.stalled(self.bound - self.score):
            self._next_dual()
        if self.branching is None and (self.dual is not self.plain or self.sweeps >= PLAIN_SWEEPS):
            self.branching = BranchWorker(self.shrunk.graph, self.plain, self.gap, self.context.clock)
            self.spent["branching"] = min(self.spent.values())

    def _next_dual(self) -> None:
        """Tighten a stalled bound along frustrated cycles if the graph is pairwise; otherwise leave it."""
        self.dual = CycleAscent(self.flat) if self.pairwise and isinstance(self.dual, VariableAscent) else None
        self.stall = Stall(_CYCLE_STALL_SWEEPS, LEAST_FALL, _ROUNDING)

    def _branch(self) -> None:
        assert self.branching is not None
        found = self.branching.turn(self.search.best, self.score)
        self._offer([] if found is None else [found])
        self.bound = min(self.bound, self.branching.bound)

    def _offer(self, candidates: Iterable[IntArray]) -> None:
        taken = [self.search.offer(states) for states in candidates]
        if any(taken):
            self._renew_score()

    def _estimate(self, status: Status | None) -> Estimate:
        assignment = self.shrunk.assignment(self.search.best)
        score = self.shrunk.original.log_score(assignment)
        bound = max(self.bound, score) if np.isfinite(self.bound) else None
        gap = None if bound is None else bound - score
        shown = "no bound" if gap is None else f"gap {gap:.3g}"
        nodes = 0 if self.branching is None else self.branching.nodes
        return Estimate(
            status=status or Status.CONVERGED,
            message=f"best of max-product decoding, local search and {nodes:,} nodes of branch and bound, dual bound "
            f"by {self.sweeps} sweeps: {shown}",
            assignment=assignment,
            lower_bound=score,
            upper_bound=bound,
            iterations=self.sweeps,
            stats={
                "gap": gap, "search_phases": self.search.phases, "dual_sweeps": self.sweeps, "nodes": nodes,
                "variables": self.flat.num_vars,
            },
        )  # fmt: skip
