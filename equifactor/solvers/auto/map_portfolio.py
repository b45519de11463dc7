"""MAP by a portfolio of methods: search gives the first answers, messages and bounds improve them and certify them.

The first answer is a local optimum, after about a millisecond. Then the methods take turns, and all continue from the
best assignment. Search has the largest share at first, because it is the best single method on most graphs up to a
second. Max-product messages have the largest share while search does not get better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.status import Status
from equifactor.factors.move_model import MoveModel
from equifactor.graph import compile
from equifactor.solvers.auto.branch_worker import PLAIN_SWEEPS, BranchWorker
from equifactor.solvers.auto.native_search import MaxProduct
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

    Worker = Literal["search", "messages", "dual", "branching"]

# Sweeps over which the fall of a bound with cycles is measured. Halved or doubled: gap within 10 %.
_CYCLE_STALL_SWEEPS = 300
_ROUNDING = 1e-12  # The relative fall of a bound that counts as rounding, so that the bound has stalled.
# Phases of search without success after which the search counts as done. Halved or doubled: gap within 15 %.
_PATIENCE = 400
# The share of search while it gets better, and of messages while it does not, where each other worker has 1. In 18 runs
# on Potts grids of 400 variables the error after 0.3 s is 2.5e-4 with 8, 2.3e-4 with 16 and 1.7e-4 with 1e9, and in 18
# runs on spin grids of 625 variables it is 4.0e-4, 3.3e-4 and 3.0e-4.
_WEIGHT_RISING = 8.0
# Phases after which search has the share of the others, so that bounds get their time: 1.3 s on 1,600 spins. Then the
# others catch up. Without catching up, a grid of 1,600 spins is proven in 5.8 s and not in 4.2 s.
_FIRST_PHASES = 400
# The share of search after its first phases while cycles tighten the bound, which then also gives better assignments.
# With 1, and with 32 sweeps between two decodings, a grid of 6,400 spins errs by 46 nats after 20 s, and now by 9.
_WEIGHT_BESIDE_CYCLES = 0.3
_DECODED_SWEEPS = 16  # Sweeps of a dual between two decodings, after the first ones, which are closer together.
# Search gets better if its last success was not longer ago than this share of its time. In one run on each of six Potts
# grids the error after 30 ms was 8.5e-3 with 0.5 and 4.4e-3 with 0.9, both with a share of 4.
_IDLE_SEARCH = 0.9
# Messages have the larger share if the last success of search is longer ago than this share of its time. Noisy-or
# networks of 600 and 900 variables, on which search is stuck, then have their best assignment within 30 ms.
_IDLE_START = 0.5
# Iterations of max-product after which messages are decoded, beside the last. Decoding takes as long as 3 to 100
# iterations. Two noisy-or networks are first decoded well after 100 and 140 iterations, segmentations after 20.
_DECODED = 20, 60, 100, 140
# The longest phase of search counts less with every later phase, so that one slow phase does not shorten all of the
# last ones. Chosen by hand.
_FADING = 0.9
# A turn of branch and bound takes at most this share of the time left. On graphs of all pairs of 40 variables with a
# limit of 30 ms, answers are then at most 0.6 ms late, and 9.8 ms if a turn always takes 20 ms.
_TURN_SHARE = 0.1
_LEAST_TURN = 0.001  # Seconds of a turn of branch and bound, at least: shorter dives replay nodes. Chosen by hand.


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
        model = MoveModel(self.flat)
        self.search = LocalSearch(model, model.unary_assignment(), context.seed)
        self._renew_score()
        # None when they are finished, or if the tables are so large that there is no time to begin.
        self.messages: MaxProduct | None = None if context.clock.stopped else MaxProduct(self.flat, context)
        self.plain = VariableAscent(self.flat)
        self.dual: VariableAscent | CycleAscent | None = self.plain
        self.stall = Stall(STALL_SWEEPS, LEAST_FALL, _ROUNDING)  # watches the bounds of the current dual
        self.branching: BranchWorker | None = None  # It starts when the first bound has stalled.
        self.sweeps = 0  # the number of sweeps of all duals
        self.idle = 0  # the number of search phases since the last success
        self.risen = 0.0  # the seconds of search at its last success
        self.pace = self.search.phase_work  # the seconds of the longest recent phase of search
        self.spent: dict[Worker, float] = dict.fromkeys(("search", "messages", "dual", "branching"), 0.0)  # seconds

    def solve(self, seconds: float) -> Estimate:
        """Search and bound in turns, until they meet or time is up; call it again to continue.

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

    def offer(self, assignment: IntArray, bound: float | None) -> None:
        """Take an assignment [V] of positive probability of the original graph, and an upper bound."""
        self._offer([self.shrunk.states(assignment)])
        if bound is not None:
            self.bound = min(self.bound, bound)

    def _turn(self, left: float) -> None:
        """Give a turn to the worker with the least time for its weight."""
        weight = self._weights(left)
        worker = min(weight, key=lambda w: self.spent[w] / weight[w])
        start = self.context.clock.working
        if worker == "dual":
            self._lower_bound_once()
        elif worker == "branching":
            self._branch(left)
        elif worker == "messages":
            self._pass_messages()
        elif self._search(left):
            self.risen = self.spent["search"] + self.context.clock.working - start
        self.spent[worker] += self.context.clock.working - start

    def _weights(self, left: float) -> dict[Worker, float]:
        """Return the share of each worker in the time, where one that has shown no promise has 1."""
        idle = 1.0 - self.risen / self.spent["search"] if self.spent["search"] else 0.0
        rising = idle <= _IDLE_SEARCH and self.search.phases <= _FIRST_PHASES
        least = _WEIGHT_BESIDE_CYCLES if isinstance(self.dual, CycleAscent) else 1.0
        weight: dict[Worker, float] = {"search": _WEIGHT_RISING if rising else least}
        if self.messages is not None:
            weight["messages"] = _WEIGHT_RISING if idle > _IDLE_START else 1.0
        if self.dual is not None:
            weight["dual"] = 1.0
        if self.branching is not None:
            least = 0.0 if self.dual is not None else 1.0  # Without a dual no other worker can close the gap.
            weight["branching"] = max(least, self.branching.weight(self.bound, self.score, left))
        return weight

    def _search(self, left: float) -> bool:
        """Run a phase of search, or the part of one that fits the time; return whether the score rose."""
        clock, before = self.context.clock, self.score
        start, share = clock.working, min(1.0, left / self.pace)
        self.idle += 1
        if self.search.step(share):
            self.idle = 0
            self._renew_score()
        self.pace = max(_FADING * self.pace, (clock.working - start) / share)
        return self.score > before

    def _pass_messages(self) -> None:
        """Run a part of max-product, and decode it if it is time."""
        assert self.messages is not None
        self.messages.step()
        if self.messages.finished or self.messages.iterations in _DECODED:
            decoded, bounds = self.messages.decoded()
            self.bound = min(self.bound, float(bounds[0]))
            self._offer(decoded)
        if self.messages.finished:
            self.messages = None

    def _lower_bound_once(self) -> None:
        """Sweep the current dual once; start the next dual, or branch and bound, if it is time."""
        assert self.dual is not None
        self.sweeps += 1
        self.bound = min(self.bound, self.dual.sweep())
        self.stall.add(self.bound)
        if np.isneginf(self.bound):
            return  # No assignment is possible, so there is nothing to decode.
        if self.sweeps & (self.sweeps - 1) == 0 or self.sweeps % _DECODED_SWEEPS == 0:
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

    def _branch(self, left: float) -> None:
        assert self.branching is not None
        seconds = min(CALL_SECONDS, max(_LEAST_TURN, _TURN_SHARE * left))
        found = self.branching.turn(self.search.best, self.score, seconds)
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
        shown = (
            "No upper bound is known." if gap is None else f"The highest possible score is at most {gap:.3g} higher."
        )
        nodes = 0 if self.branching is None else self.branching.nodes
        return Estimate(
            status=status or Status.CONVERGED,
            message=f"The assignment is the best of local search, max-product decoding and {nodes:,} nodes of branch "
            f"and bound. {shown}",
            assignment=assignment,
            lower_bound=score,
            upper_bound=bound,
            iterations=self.sweeps,
            stats={
                "gap": gap, "search_phases": self.search.phases, "dual_sweeps": self.sweeps, "nodes": nodes,
                "variables": self.flat.num_vars,
            },
        )  # fmt: skip
