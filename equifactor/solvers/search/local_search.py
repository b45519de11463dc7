"""MAP by local search: annealed regions, tabu walks and their recombination.

The search holds two assignments. The *keeper* is the best one. Random regions of it are heated and cooled by block
moves along trees, and each independent part of a change stays only if the score does not fall. The *rover* starts from
a random or a disturbed assignment and walks by tabu search, or is annealed like the keeper. When the rover stops
improving, the keeper takes over every independent part of the rover's best assignment that is better there, and the
rover starts again. Regions are better on large sparse graphs, tabu on small dense ones: the one that has not improved
recently gets fewer turns.

As long as structured factors such as clauses and checks are violated, a third assignment is searched first. A focused
walk changes random variables of random violated factors, which is how formulas are solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.budget import Seconds
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.options import option
from equifactor.base.run_context import check_run
from equifactor.base.status import Status, Task
from equifactor.factors.move_kinds import KindMoves
from equifactor.factors.move_model import MoveModel
from equifactor.graph import FactorGraph, FlatGraph, compile
from equifactor.graph.factor_graph import as_graph
from equifactor.graph.reading.observations import read_assignments
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.search.focused_walk import FocusedWalk
    from equifactor.solvers.search.tree_regions import RegionPlan
    from equifactor.solvers.search.walker import Walker


_PHASE_WORK = 5_000_000  # Table entries that a phase reads, which takes about 10 ms.
# Phases of a short search for the start of another solver. Halved or doubled: gap of `branch` and `mini-buckets` within
# 10 %.
START_PHASES = 30
# The share of the time left for such a search, or for another first answer. Halved or doubled: gap of `mini-buckets`
# within 15 %.
START_SHARE = 0.1
# Table entries per variable state that a phase reads on small graphs. Halved or doubled: error within 30 %.
_WORK_PER_STATE = 3_000
# Smallest and largest number of variables of a region. Halved or doubled: error within 30 %.
_SMALLEST_REGION, _LARGEST_REGION = 30, 400
_BLOCKS = 80  # Trees per region; 20 to 160 were measured on grids of 400 to 6,400 variables.
# The largest noise, as a multiple of the median cost of the best change of a variable. Halved or doubled: error within
# 50 %.
_HEAT = 1.5
_LONGEST_PAUSE = 8.0  # Keeper and rover each get at least one turn in this many. Halved or doubled: error within 30 %.
# Parts of a tabu phase: small models are solved by many short walks. A walk starts again after this many parts without
# a better assignment. Halved or doubled: error within 30 %.
_STINTS = 5
# An annealed rover starts again when its regions have covered the graph this many times without success. Halved or
# doubled: error within 20 %.
_ROUNDS = 3
# Phases after which the keeper's sums are recomputed, to remove rounding. Halved or doubled: error within 50 %.
_REFRESH = 16
# After a tabu move a variable rests for a number of moves between these two shares of the number of variables; None
# anneals instead. Long rests find the best known assignments of fully connected models where short rests do not, and
# short rests those of sparse models.
_RESTS = (0.03, 0.2), (0.15, 0.6), (0.3, 0.8), None
# Shares of the keeper's states with which a new rover starts. Halved or doubled: error within 50 %.
_KEPT = 0.0, 0.5, 0.8, 0.95
# Focused phases without fewer zeros after which the other phases get every second turn. Halved or doubled: error within
# 30 %.
_FOCUS_PATIENCE = 100
# Most phases without success before a search stops, if nothing else limits it. Halved or doubled: error within 30 %.
_PATIENCE = 1500


@register("local-search")
@dataclass(frozen=True, kw_only=True)
class LocalSearchSolver(GraphSolver):
    """Best improvement, then annealed regions by moves along trees and tabu walks, until no phase improves."""

    tasks = (Task.MAP,)
    symmetries = frozenset()  # its choices are random
    any_kind = True

    start: Literal["unary", "random"] = option("unary", "first assignment: best by the unary factors, or random")
    iterations: int = option(100_000, "most phases, of about 10 ms each on large models", low=0)
    patience: int | None = option(
        None, "phases in a row without success before it stops; none: 100 plus 20 per variable, up to 1,500", low=1
    )

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return the best assignment met; it is never proven."""

        def report(search: LocalSearch) -> None:
            context.report(search.phases, None, f"log score {search.score:.6g}")

        flat = compile(graph)
        model = MoveModel(flat)
        rng = np.random.default_rng(context.seed)
        first = model.random_assignment(rng) if self.start == "random" else model.unary_assignment()
        search = LocalSearch(model, first, context.seed)
        patience = self.patience or min(100 + 20 * flat.num_vars, _PATIENCE)
        settled = run_phases(search, context.clock, self.iterations, patience, report)
        unfinished = context.clock.status if search.phases < self.iterations else Status.ITERATION_LIMIT
        return Estimate(
            status=Status.CONVERGED if settled else unfinished or Status.ITERATION_LIMIT,
            message="" if search.possible else "No assignment of positive probability was found. Try another seed.",
            assignment=flat.assignments(search.best)[0],
            iterations=search.phases,
        )


class _PhaseSizes(NamedTuple):
    """The amount of work of one phase, from the sizes of the graph alone, so that runs can be repeated."""

    moves: int  # number of moves of a tabu phase, or of the first ascent
    plan: RegionPlan  # the regions of a phase of annealing
    rounds: int  # number of phases in which the regions cover the graph a few times
    seconds: float  # reference seconds of a phase

    @classmethod
    def of(cls, model: MoveModel) -> _PhaseSizes:
        from equifactor.solvers.search.tree_regions import RegionPlan

        arrays = model.arrays
        num_vars, num_states = max(1, len(model.card)), max(1, len(arrays.unary))
        card = num_states / num_vars
        high_links = float(np.sum(np.diff(arrays.factors[:, 0]) ** 2)) * card
        if arrays.kinds is not None:
            kinds = KindMoves(*arrays.kinds)
            for ptr in (kinds.literal_ptr, kinds.member_ptr):
                high_links += float(np.sum(np.diff(ptr).astype(float) ** 2)) * card
        work = min(_PHASE_WORK, _WORK_PER_STATE * num_states)
        per_move = 20 + num_vars + (len(arrays.pair) / card + high_links + 2 * num_states) / num_vars
        per_var = 40 + (2 * len(arrays.arcs) + len(arrays.pair) + 2 * high_links) / num_vars  # for one tree
        smallest = min(_SMALLEST_REGION, num_vars)
        affordable = int(4 * _PHASE_WORK / (_BLOCKS * per_var))
        largest = max(smallest, min(_LARGEST_REGION, num_vars, affordable))
        regions = max(1, int(3 * work / (_BLOCKS * per_var * (smallest + largest))))
        rounds = _STINTS + int(2 * _ROUNDS * num_vars / (regions * (smallest + largest)))
        plan = RegionPlan(regions, smallest, largest, _BLOCKS)
        return cls(max(10, int(work / per_move)), plan, rounds, Seconds.SEARCH_ENTRY * work)


class LocalSearch:
    """The search as a sequence of short phases: `step` runs one, `best` is always the best assignment so far.

    Reproducible: a phase depends on the seed and on the phases before, not on the time they took.

    Args:
        model: the compiled graph.
        start: [V] states of the free variables to begin with.
        seed: the seed of all random choices.
    """

    _rest: tuple[int, int] | None  # the rover's variables rest that long after a move; None while it is annealed
    _rover_x: IntArray  # the best assignment that the rover has met since its start
    _rover_score: float  # the score of that assignment
    _idle: int  # number of phases, or parts of a phase, since the rover met that assignment

    def __init__(self, model: MoveModel, start: IntArray, seed: int = 0) -> None:
        from equifactor.solvers.search.walker import Walker

        self.model = model
        self.phases = 0
        self._share = 1.0  # the share of a phase that the present call runs
        self._rng = np.random.default_rng(seed)
        self._sizes = _PhaseSizes.of(model)
        self._heat = 0.0  # set at the end of the first ascent
        self._due = [0.0, 0.0]  # times of the next turns of keeper and rover; the earlier one is next
        self._pause = [1.0, 1.0]  # time between two turns of keeper and rover
        self._keeper, self._rover = Walker(model, self._rng), Walker(model, self._rng)
        self._keeper.start(start)
        self._send_rover()
        self._focus: FocusedWalk | None = None  # exists while the best assignment is impossible
        self._unfocused = 0  # number of focused phases in a row without fewer zeros
        if model.num_structured and not self._keeper.possible:
            from equifactor.solvers.search.focused_walk import FocusedWalk

            self._focus = FocusedWalk(model, self._rng, start)

    @property
    def best(self) -> IntArray:
        """The best assignment [V] so far; a copy."""
        leader = self._keeper.x if self._focus is None or not self._focus_leads else self._focus.best_x
        return leader.copy()

    @property
    def score(self) -> float:
        """The log score of the best assignment so far, zeros counted as penalties; see `MoveModel`."""
        return self._focus.best_score if self._focus is not None and self._focus_leads else self._keeper.score

    @property
    def possible(self) -> bool:
        """Whether the best assignment so far has a positive probability."""
        return self.score >= self.model.possible_score

    @property
    def phase_work(self) -> float:
        """The reference seconds of one phase."""
        return self._sizes.seconds

    @property
    def repairing(self) -> bool:
        """Whether a focused walk is still looking for a possible assignment."""
        return self._focus is not None

    def offer(self, states: IntArray) -> bool:
        """Take over every independent part of another assignment [V] that is better; return whether there was one."""
        self._take_over()
        before = self._keeper.score
        self._keeper.recombine(states)
        return self._keeper.score > before + self.model.smallest_gain

    def step(self, share: float = 1.0) -> bool:
        """Run one phase, or about this share of one; return whether the best assignment became better."""
        self._share = share
        self.phases += 1
        if not len(self.model.card):
            return False
        if self._focus is not None and (self._unfocused < _FOCUS_PATIENCE or self.phases % 2 == 0):
            return self._step_focused(self._focus)
        self._take_over()
        if not self._heat:
            return self._ascend()
        if self.phases % _REFRESH == 0:
            self._keeper.start(self._keeper.x)
        before = self._keeper.score
        turn = 0 if self._due[0] <= self._due[1] else 1
        if turn == 0:
            self._anneal(self._keeper)
        else:
            self._rove()
        better = self._keeper.score > before + self.model.smallest_gain
        self._pause[turn] = 1.0 if better else min(2.0 * self._pause[turn], _LONGEST_PAUSE)
        self._due[turn] += self._pause[turn]
        return better

    @property
    def _focus_leads(self) -> bool:
        return self._focus is not None and self._focus.best_score > self._keeper.score + self.model.smallest_gain

    def _step_focused(self, focus: FocusedWalk) -> bool:
        """Run a phase of the focused walk; return whether the best assignment became better."""
        before = self.score
        self._unfocused = 0 if focus.step() else self._unfocused + 1
        better = self.score > before + self.model.smallest_gain
        if self.possible or not focus.num_zeros:
            self._take_over()
            self._focus = None
        return better

    def _take_over(self) -> None:
        """Let the keeper continue from the best assignment of the focused walk, if that is better."""
        if self._focus is not None and self._focus_leads:
            self._keeper.start(self._focus.best_x)

    def _ascend(self) -> bool:
        if self._keeper.ascend(self._sizes.moves) < self._sizes.moves:
            self._heat = _HEAT * _typical_cost(self._keeper.gain, self.model.penalty)
        return True

    def _anneal(self, walker: Walker) -> None:
        plan = self._sizes.plan
        walker.anneal(plan._replace(regions=max(1, int(self._share * plan.regions))), self._heat)

    def _rove(self) -> None:
        """Run one phase of the rover, and let the keeper take over the parts that are better."""
        for _ in range(1 if self._rest is None else _STINTS):
            if self._rest is None:
                self._anneal(self._rover)
                x, score, most = self._rover.x, self._rover.score, self._sizes.rounds
            else:
                x, score = self._rover.tabu(max(10, int(self._share * self._sizes.moves) // _STINTS), *self._rest)
                most = _STINTS
            self._idle += 1
            if score > self._rover_score + self.model.smallest_gain:
                self._rover_score, self._rover_x, self._idle = score, x.copy(), 0
            if self._idle >= most or self._rover_score > self._keeper.score:
                self._keeper.recombine(self._rover_x)
            if self._idle >= most:
                self._send_rover()
                return

    def _send_rover(self) -> None:
        """Start the rover again: random states for a random part of the keeper's variables, and a random rest."""
        x, count = self._keeper.x, len(self.model.card)
        kept = self._rng.random(count) < self._rng.choice(_KEPT)
        self._rover.start(np.where(kept, x, self.model.random_assignment(self._rng)))
        self._rover_x, self._rover_score, self._idle = self._rover.x.copy(), self._rover.score, 0
        shares = _RESTS[self._rng.integers(len(_RESTS))]
        self._rest = None if shares is None else (1 + int(shares[0] * count), 3 + int(shares[1] * count))


def run_phases(
    search: LocalSearch,
    clock: Clock,
    phases: int | None = None,
    patience: int | None = None,
    report: Callable[[LocalSearch], None] = lambda search: None,
) -> bool:
    """Run phases until a limit or the clock.

    Returns:
        whether it ended by itself: after `patience` phases in a row without improvement, or because every factor has
            its highest value. As long as the best assignment is impossible, a model with structured factors gets ten
            times the patience.
    """
    idle, highest = 0, search.model.highest_score - search.model.smallest_gain
    while not clock.stopped and (phases is None or search.phases < phases):
        idle = 0 if search.step() else idle + 1
        clock.spend(search.phase_work)
        report(search)
        if search.score >= highest:
            return True
        if patience is not None and idle >= patience * (10 if search.repairing else 1):
            return True
    return False


@checks_types("phases", "patience")
def improve(
    graph: FactorGraph | FlatGraph[np.ndarray],
    assignment: IntArray,
    clock: Clock,
    seed: int = 0,
    *,
    phases: int | None = None,
    patience: int | None = None,
) -> tuple[IntArray, float]:
    """Improve an assignment until the clock stops or a limit is reached.

    Args:
        graph: one graph, compiled or not.
        assignment: [V] over the graph's own variables, observed ones included.
        clock: the deadline and the interrupt. Without a deadline, `phases` and `patience`, the patience is 1500.
        seed: the seed of all random choices.
        phases: the most phases to run, of about 10 ms each on large graphs and less on small ones.
        patience: the search stops after this many phases in a row without improvement.

    Returns:
        the best assignment [V] found, never worse than the given one, and its log score.
    """
    flat = graph if isinstance(graph, FlatGraph) else compile(as_graph(graph))
    if not isinstance(clock, Clock):
        raise OptionError(f"clock must be a Clock, such as Clock(10.0), found {brief(clock)}.")
    check_run(None, seed, False)
    if flat.num_graphs != 1:
        raise ModelError(f"improve works on one graph at a time, but got a batch of {flat.num_graphs} graphs.")
    source = flat.graphs[0]
    if clock.time_limit is None and phases is None and patience is None:
        patience = _PATIENCE
    start = read_assignments(source.structure, assignment)
    if start.shape != (source.num_vars,):
        raise ModelError(f"assignment must hold one state for each of {source.num_vars} variables.")
    search = LocalSearch(MoveModel(flat), start[source.free_vars], seed)
    run_phases(search, clock, phases, patience)
    best = flat.assignments(search.best)[0]
    return best, float(source.log_score(best))


def _typical_cost(gain: FloatArray, penalty: float) -> float:
    """Return the median cost of the best change of a variable, leaving out changes to zeros."""
    cost = -gain[(gain < 0.0) & (gain > -penalty / 2)]
    return float(np.median(cost)) if len(cost) else 1.0
