"""Relaxations with larger and larger tables while time is left, then several at the largest bound that fits.

Choices below that say "public models" were made on the 13 models that docs/solvers/regions.md names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, Refusal, Seconds
from equifactor.base.status import Status
from equifactor.solvers.regions.agreement import NEARLY_SETTLED, Agreement, Rounds, agree
from equifactor.solvers.regions.relaxation import Relaxation, SplitRule, TableLimits
from equifactor.solving.ladder import Ladder, Step, Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.budget import Budget
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph import FactorGraph

# Rules of splitting, used in turn: which is best depends on the model, and draws by one rule differ as much as rules.
_RULES = tuple(SplitRule(balance, noise) for noise in (0.05, 0.3) for balance in (1.0, 2.0, 4.0))
_CANDIDATES = 24  # Splittings drawn at most, of which the one that loses least is run. Chosen on public models.
_ROUNDS = 30  # Rounds until clones agree, for estimates of time; 10 to 50 on public models.
# A first answer takes about as long as this many draws of a splitting. Halved or doubled: error within 15 %.
_FIRST_DRAWS = 3
_STEP_SHARE = 0.1  # A bound is chosen if it takes this share of the time left, so that many follow. Public models.
# Drawing splittings takes this share of the time of the chosen one, at most. Halved or doubled: error within 15 %.
_CHOICE_SHARE = 0.2
# A bound above the chosen ones may take this share of the time left. Halved or doubled: error within 20 %.
_LARGER_SHARE = 0.5
# Bits that splitting a variable costs even if its state is certain, since beliefs may be wrong. Halved or doubled:
# error within 15 %.
_LEAST_WORTH = 0.02
_JOINED_GROWTH = 2.0  # Clones are joined until the tables are this many times as large. Chosen on public models.
# Splittings are drawn with this many bounds in turn, the present one and those below it. Halved or doubled: error
# within 15 %.
_BOUNDS_DRAWN = 3
_ENOUGH = 4  # Splittings that must agree before only larger tables can help. Halved or doubled: error within 10 %.
_UNANIMOUS = 0.004  # Mean standard error, in total variation, below which splittings agree. Chosen on public models.
# Bits above the last bound in which larger tables are looked for: a variable may have many states. Halved or doubled:
# error within 10 %.
_JUMP = 8
# Tables must grow by this factor before a larger bound counts as larger. Halved or doubled: error within 10 %.
_LARGER = 1.5
# Bits from one bound to the next: tables become four times as large. Halved or doubled: error within 20 %.
_BITS_MORE = 2


class RegionLimits(NamedTuple):
    """The bounds to go through."""

    start: int  # log2 of the entries of the largest table at the first bound
    bound: int  # log2 of the entries of the largest table at the last bound
    splittings: int  # most relaxations at the last bound


@dataclass
class Splitting:
    """The answer of one relaxation."""

    bound: int
    splits: int  # clones beyond one per variable
    largest: float  # log2 of the entries of the largest table
    entries: float  # entries of all tables
    found: Agreement


@dataclass
class GrowingRegions:
    """All relaxations of one graph so far, and the choice of the next one."""

    graph: FactorGraph  # reduced: no observed variables, dense tables only
    limits: RegionLimits
    rounds: Rounds
    rng: NDArray[np.uint64]
    budget: Budget
    report: Callable[[int, int | None, str], None]
    splittings: list[Splitting] = field(default_factory=list)  # all relaxations that were run
    at_top: list[Splitting] = field(default_factory=list)  # all relaxations of the last bound
    below: FloatArray | None = None  # [X] beliefs at the bound before the last
    outcome: Status | None = None  # EXACT or ZERO_PROBABILITY once that is known

    def __post_init__(self) -> None:
        s = self.graph.structure
        self.possible: BoolArray = np.ones(int(s.state_ptr[-1]), bool)
        self.worth: FloatArray = np.log2(s.card)
        self.starts = np.random.default_rng(int(self.rng[0]))

    def run(self) -> None:
        """Run relaxations until nothing more is worth starting."""
        Ladder(self._steps(), self.budget).run()

    def _steps(self) -> Steps[Splitting]:
        """Go up to the largest bound that memory and time allow, then try other splittings there."""
        first = _FIRST_DRAWS * Seconds.SPLITTING * self.graph.structure.num_edges
        if self.budget.clock.stopped or not self.budget.worth_starting(first):
            return
        top = self._top()
        for bound in range(top - max(0, top - self.limits.start) // _BITS_MORE * _BITS_MORE, top + 1, _BITS_MORE):
            relaxation = self._choose(bound)
            if self.splittings and relaxation.entries <= self.splittings[-1].entries:
                continue
            yield self._step(relaxation, bound, 2 * _STEP_SHARE, relaxation.memory)
            if self.outcome is not None:
                return
        bound = top
        while self.outcome is None:
            many = len(self.at_top) >= self.limits.splittings
            higher = self._higher(bound) if many or self._unanimous() else None
            if many and higher is None:
                return
            bound = bound if higher is None else higher
            relaxation = self._choose(bound)
            if isinstance((yield self._step(relaxation, bound, 1.0, 0.0)), Refusal):
                return

    def _step(self, relaxation: Relaxation, bound: int, share: float, memory: float) -> Step[Splitting]:
        """Return the step that runs a relaxation; the first one is run at any cost."""
        return Step(
            run=lambda: self._run(relaxation, bound),
            work=self._work(relaxation),
            memory=memory,
            share=share,
            required=not self.splittings,
        )

    def _top(self) -> int:
        """Return the largest bound that fits, by one draw each; it is below the first one if that does not fit."""
        limits, budget = self.limits, self.budget
        bound = limits.start
        drawn = self._draw(bound, 0)
        while bound > 0 and drawn.memory > budget.memory:
            bound -= 1
            drawn = self._draw(bound, 0)
        until = budget.clock.seconds + _STEP_SHARE * budget.clock.left
        while bound < limits.bound and not drawn.exact and budget.clock.seconds < until:
            drawn = self._draw(bound + 1, 0)
            if not budget.worth_starting(self._work(drawn), _STEP_SHARE, drawn.memory):
                break
            bound += 1
        return bound

    def _unanimous(self) -> bool:
        """Return whether the splittings agree so well that only larger tables can change the answer."""
        error = self._standard_error(self.settled(self.at_top))
        return len(self.at_top) >= _ENOUGH and error is not None and float(error.mean()) < _UNANIMOUS

    def _higher(self, bound: int) -> int | None:
        """Return the next bound with larger tables; None if they do not fit memory and half of the time left."""
        for higher in range(bound + 1, min(bound + _JUMP, self.limits.bound) + 1):
            drawn = self._draw(higher, 0)
            if drawn.entries > _LARGER * self.at_top[-1].entries:
                fits = self.budget.worth_starting(self._work(drawn), _LARGER_SHARE, drawn.memory)
                return higher if fits else None
        return None

    def _draw(self, bound: int, number: int) -> Relaxation:
        s = self.graph.structure
        self.budget.spend(Seconds.SPLITTING * s.num_edges)
        return Relaxation.make(s, bound, self.worth, _RULES[number % len(_RULES)], self.rng)

    def _choose(self, bound: int) -> Relaxation:
        """Return the splitting that loses least of several, those within memory before others.

        Clones are joined again until all tables together have twice the entries of the first draw, one table has four
        times the bound, or memory is full. A smaller bound leaves more clones to join, and may end up better.
        """
        first = self._draw(bound, 0)
        kept = self.budget.memory / FLOAT_BYTES - 2.0 * self.graph.structure.num_entries
        most = TableLimits(_JOINED_GROWTH * first.entries, kept, float(min(bound + _BITS_MORE, self.limits.bound)))
        num_edges = max(1, self.graph.structure.num_edges)
        allowed = _CHOICE_SHARE * self._work(first)
        attempts = min(2 * int(first.num_splits.sum()), int(allowed / (Seconds.JOINING * num_edges)))
        each = num_edges * (Seconds.SPLITTING + attempts * Seconds.JOINING)
        best = first.merged(self.worth, most, attempts)
        for n in range(1, min(_CANDIDATES, int(allowed / each))):
            if not self.splittings or best.exact or self.budget.clock.stopped:
                break
            drawn = self._draw(max(0, bound - n % _BOUNDS_DRAWN), n).merged(self.worth, most, attempts)
            best = min(best, drawn, key=self._loss)
            self.budget.spend(each - Seconds.SPLITTING * num_edges)
        return best

    def _loss(self, relaxation: Relaxation) -> tuple[bool, float]:
        return relaxation.memory > self.budget.memory, float(relaxation.num_splits @ self.worth)

    def _work(self, relaxation: Relaxation) -> float:
        """Return the reference seconds until the clones agree."""
        return Seconds.UP_AND_DOWN * relaxation.entries * (1 if relaxation.exact else _ROUNDS)

    def _run(self, relaxation: Relaxation, bound: int) -> Splitting | Refusal:
        start = self.starts if self.at_top and self.at_top[-1].bound == bound else None
        clock = self.budget.clock
        found = agree(relaxation, self.graph.log_phi, self.possible, self.rounds, clock, start)
        if found is None:
            return Refusal("the clock stopped it before the first round ended")
        self.budget.spend(Seconds.UP_AND_DOWN * relaxation.entries * found.rounds)
        if found.log_z == -math.inf:
            self.outcome = Status.ZERO_PROBABILITY
            return Refusal("no assignment has a positive probability")
        if clock.stopped and self.splittings and found.change > self.rounds.tolerance and not relaxation.exact:
            return Refusal("the clock stopped it before it settled, and the answers so far are better")
        new = Splitting(bound, int(relaxation.num_splits.sum()), relaxation.largest, relaxation.entries, found)
        if self.at_top and self.at_top[-1].bound != bound:
            self.below, self.at_top = _mean(self.settled(self.at_top)), []
        self.splittings.append(new)
        self.at_top.append(new)
        self.budget.follow_pace()
        if relaxation.exact:
            self.outcome = Status.EXACT
            self.at_top = [new]
        # A split costs the entropy of the mean over all splittings: a single fixed point is certain of too much.
        self.worth = _LEAST_WORTH + self._entropy(_mean(self.splittings))
        self.report(len(self.splittings), None, f"tables of 2^{relaxation.largest:.0f}, {new.splits} splits")
        return new

    def average(self) -> FloatArray:
        """Return [X] the mean belief of the splittings that count."""
        return _mean(self.kept())

    def kept(self) -> list[Splitting]:
        """Return the splittings that count: those at the last bound if they agree, otherwise those at all bounds.

        Models with symmetries have many fixed points, each far from the mean of all. Splittings fall into them at
        random, and only their average is near the truth: more splittings then help more than larger tables.
        """
        error = self._standard_error(self.settled(self.at_top))
        agree = self.outcome is Status.EXACT or (error is not None and float(error.mean()) < _UNANIMOUS)
        return self.settled(self.at_top if agree else self.splittings)

    def settled(self, splittings: list[Splitting]) -> list[Splitting]:
        """Return the splittings that settled, or nearly; all of them if none did."""
        most = max(NEARLY_SETTLED, self.rounds.tolerance)
        return [one for one in splittings if one.found.change <= most] or splittings

    def error(self) -> FloatArray | None:
        """Return [V] the estimated error of each marginal, in total variation; None if there is nothing to compare.

        It is the change between the last two bounds, or the standard error of the mean of the splittings if larger.
        """
        top = _mean(self.settled(self.at_top))
        change = None if self.below is None else self._distance(top - self.below)
        spread = self._standard_error(self.kept())
        if change is None or spread is None:
            return spread if change is None else change
        return np.maximum(change, spread)

    def log_z(self) -> float:
        """Return the mean of ln Z over the splittings at the last bound."""
        return float(np.mean([one.found.log_z for one in self.settled(self.at_top)]))

    def _standard_error(self, splittings: list[Splitting]) -> FloatArray | None:
        """Return [V] the standard error of the mean of splittings, in total variation; None for a single splitting."""
        if len(splittings) < 2:
            return None
        deviation = np.std([one.found.p for one in splittings], axis=0, ddof=1)
        return self._distance(deviation / np.sqrt(len(splittings)))

    def _distance(self, gap: FloatArray) -> FloatArray:
        """Return [V] total variation from the differences of all states."""
        ptr = self.graph.structure.state_ptr
        return 0.5 * np.add.reduceat(np.abs(gap), ptr[:-1]) if len(gap) else np.zeros(0)

    def _entropy(self, p: FloatArray) -> FloatArray:
        """Return [V] the entropy of each variable in bits."""
        ptr = self.graph.structure.state_ptr
        terms = -p * np.log2(np.maximum(p, 1e-300))
        return np.add.reduceat(terms, ptr[:-1]) if len(ptr) > 1 else np.zeros(0)


def _mean(splittings: list[Splitting]) -> FloatArray:
    """Return [X] the mean belief."""
    return np.asarray(np.mean([one.found.p for one in splittings], axis=0))
