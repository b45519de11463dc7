"""The ladder of bounds: relaxations with larger and larger tables, then several of the largest that fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.status import Status
from equifactor.solvers.regions.agreement import Agreement, Rounds, agree
from equifactor.solvers.regions.relaxation import BYTES, Relaxation, SplitRule, TableLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph import FactorGraph

# Rules in turn: which is best depends on the model, and the draws of one differ as much as the rules.
_RULES = tuple(SplitRule(balance, noise) for noise in (0.05, 0.3) for balance in (1.0, 2.0, 4.0))
_CANDIDATES = 24  # At most this many splittings are drawn, of which the one that loses least is run.
_SECONDS_PER_ENTRY = 8e-9  # A round takes this long per table entry, on one core at 2.8 GHz,
_SECONDS_PER_EDGE = 3e-6  # and the choice of a splitting this long per edge.
_SECONDS_PER_ATTEMPT = 1e-7  # Trying to join two clones takes this long per edge.
_ROUNDS = 30  # Clones agree after about this many rounds.
_FIRST = 3  # A first answer takes about as long as this many draws of a splitting.
_SHARE = 0.1  # A rung of the ladder is begun if it takes at most this share of the time left, so that many follow.
_CHOICE = 0.2  # Drawing splittings takes at most this share of the time that the one chosen takes.
_EASY = 0.02  # A variable costs this many bits to split however certain it is: beliefs may be wrong.
_GROWTH = 2.0  # Clones are joined again until the tables are this many times as large.
_LOWER = 3  # Splittings of a rung are drawn with its bound and as many below it, in turn.
_ENOUGH, _UNANIMOUS = 4, 0.004  # So many splittings with a mean standard error below this agree.
_JUMP = 8  # Bits above the last bound where larger tables are looked for: a variable may have many states.
_LARGER, _HALF = 1.5, 0.5  # Tables must grow by this factor for a new rung, which may take half of the time left.
_NEARLY = 0.05  # A splitting whose messages still change by no more counts as well as a settled one.
_STEP = 2  # Bits from one rung to the next: its tables are four times as large.


class Limits(NamedTuple):
    """What the ladder may use."""

    start: int  # log2 of the entries of the largest table on the first rung
    bound: int  # and on the last
    memory: float  # bytes of tables
    seconds: float  # nominal seconds of work; where there is a deadline, infinite
    splittings: int  # most relaxations at the last bound


@dataclass
class Rung:
    """What one relaxation said."""

    bound: int
    splits: int  # clones beyond one per variable
    largest: float  # log2 of the entries of the largest table
    entries: float  # entries of all tables
    found: Agreement


@dataclass
class Climb:
    """The state of the ladder on one graph."""

    graph: FactorGraph  # reduced: no observed variables, tables only
    limits: Limits
    rounds: Rounds
    rng: NDArray[np.uint64]
    clock: Clock
    report: Callable[[int, int | None, str], None]
    rungs: list[Rung] = field(default_factory=list)  # all relaxations that were run
    at_top: list[Rung] = field(default_factory=list)  # all relaxations of the last bound
    below: FloatArray | None = None  # [X] beliefs at the bound before the last
    spent: float = 0.0  # nominal seconds
    outcome: Status | None = None  # EXACT or ZERO_PROBABILITY once that is known

    def __post_init__(self) -> None:
        s = self.graph.structure
        self.possible: BoolArray = np.ones(int(s.state_ptr[-1]), bool)
        self.worth: FloatArray = np.log2(s.card)
        self.begun = self.clock.seconds
        self.starts = np.random.default_rng(int(self.rng[0]))

    @property
    def left(self) -> float:
        """Nominal seconds left. Without a deadline no clock is looked at: the same call does the same work."""
        if self.limits.seconds < math.inf:
            return self.limits.seconds - self.spent
        used = self.clock.seconds - self.begun
        return self.clock.left * self.spent / used if self.rungs and used > self.spent else self.clock.left

    def run(self) -> None:
        """Climb to the largest bound that memory and time allow, then try other splittings there."""
        if self.clock.stopped or _FIRST * _SECONDS_PER_EDGE * self.graph.structure.num_edges > self.left:
            return
        top = self._top()
        for bound in range(top - max(0, top - self.limits.start) // _STEP * _STEP, top + 1, _STEP):
            relaxation = self._choose(bound)
            if self._over(relaxation) or (self.rungs and relaxation.entries <= self.rungs[-1].entries):
                continue
            self._run(relaxation, bound)
            if self.over:
                return
        bound = top
        while not self.over:
            many = len(self.at_top) >= self.limits.splittings
            higher = self._higher(bound) if many or self._unanimous() else None
            if many and higher is None:
                return
            bound = bound if higher is None else higher
            relaxation = self._choose(bound)
            if self._seconds(relaxation) > self.left:
                return
            self._run(relaxation, bound)

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do."""
        return self.outcome is not None or self.clock.stopped

    def _top(self) -> int:
        """The largest bound that fits, by one draw each; below the first rung where that does not."""
        limits = self.limits
        bound = limits.start
        drawn = self._draw(bound, 0)
        while bound > 0 and drawn.memory > limits.memory:
            bound -= 1
            drawn = self._draw(bound, 0)
        until = self.clock.seconds + _SHARE * self.clock.left
        while bound < limits.bound and not drawn.exact and self.clock.seconds < until:
            drawn = self._draw(bound + 1, 0)
            if drawn.memory > limits.memory or self._seconds(drawn) > _SHARE * self.left:
                break
            bound += 1
        return bound

    def _unanimous(self) -> bool:
        """Whether the splittings agree so well that more of them teach nothing: only larger tables can."""
        error = self._standard_error(self.settled(self.at_top))
        return len(self.at_top) >= _ENOUGH and error is not None and float(error.mean()) < _UNANIMOUS

    def _higher(self, bound: int) -> int | None:
        """The next bound with larger tables, if they fit memory and half of the time left."""
        for higher in range(bound + 1, min(bound + _JUMP, self.limits.bound) + 1):
            drawn = self._draw(higher, 0)
            if drawn.entries > _LARGER * self.at_top[-1].entries:
                fits = drawn.memory <= self.limits.memory and self._seconds(drawn) < _HALF * self.left
                return higher if fits else None
        return None

    def _draw(self, bound: int, number: int) -> Relaxation:
        s = self.graph.structure
        self.spent += _SECONDS_PER_EDGE * s.num_edges
        return Relaxation.make(s, bound, self.worth, _RULES[number % len(_RULES)], self.rng)

    def _choose(self, bound: int) -> Relaxation:
        """The splitting that loses least of several, those within memory before others.

        Clones are joined again until all tables together have twice the entries of the first draw, one of them has four
        times the bound, or memory is full. A smaller bound leaves more to be joined, and may end up better.
        """
        first = self._draw(bound, 0)
        kept = self.limits.memory / BYTES - 2.0 * self.graph.structure.num_entries
        most = TableLimits(_GROWTH * first.entries, kept, float(min(bound + _STEP, self.limits.bound)))
        num_edges = max(1, self.graph.structure.num_edges)
        allowed = _CHOICE * self._seconds(first)
        attempts = min(2 * int(first.num_splits.sum()), int(allowed / (_SECONDS_PER_ATTEMPT * num_edges)))
        each = num_edges * (_SECONDS_PER_EDGE + attempts * _SECONDS_PER_ATTEMPT)
        best = first.merged(self.worth, most, attempts)
        for n in range(1, min(_CANDIDATES, int(allowed / each))):
            if not self.rungs or best.exact or self.clock.stopped:
                break
            drawn = self._draw(max(0, bound - n % _LOWER), n).merged(self.worth, most, attempts)
            best = min(best, drawn, key=self._loss)
            self.spent += each - _SECONDS_PER_EDGE * num_edges
        return best

    def _loss(self, relaxation: Relaxation) -> tuple[bool, float]:
        return relaxation.memory > self.limits.memory, float(relaxation.num_splits @ self.worth)

    def _seconds(self, relaxation: Relaxation) -> float:
        """Nominal seconds until the clones agree."""
        return _SECONDS_PER_ENTRY * relaxation.entries * (1 if relaxation.exact else _ROUNDS)

    def _over(self, relaxation: Relaxation) -> bool:
        """Whether a rung is over memory or time; the first one is run all the same."""
        over = relaxation.memory > self.limits.memory or self._seconds(relaxation) > 2 * _SHARE * self.left
        return bool(self.rungs) and over

    def _run(self, relaxation: Relaxation, bound: int) -> None:
        start = self.starts if self.at_top and self.at_top[-1].bound == bound else None
        found = agree(relaxation, self.graph.log_phi, self.possible, self.rounds, self.clock, start)
        if found is None:
            return
        self.spent += _SECONDS_PER_ENTRY * relaxation.entries * found.rounds
        if found.log_z == -math.inf:
            self.outcome = Status.ZERO_PROBABILITY
            return
        if self.clock.stopped and self.rungs and found.change > self.rounds.tolerance and not relaxation.exact:
            return  # It was cut short, and what stands is better.
        rung = Rung(bound, int(relaxation.num_splits.sum()), relaxation.largest, relaxation.entries, found)
        if self.at_top and self.at_top[-1].bound != bound:
            self.below, self.at_top = _mean(self.settled(self.at_top)), []
        self.rungs.append(rung)
        self.at_top.append(rung)
        if relaxation.exact:
            self.outcome = Status.EXACT
            self.at_top = [rung]
        # What any splitting was uncertain about is dear: a single fixed point is certain of too much.
        self.worth = _EASY + self._entropy(_mean(self.rungs))
        self.report(len(self.rungs), None, f"tables of 2^{relaxation.largest:.0f}, {rung.splits} splits")

    def average(self) -> FloatArray:
        """[X] the mean belief of the splittings that count."""
        return _mean(self.kept())

    def kept(self) -> list[Rung]:
        """The splittings that count: those at the last bound where they agree, otherwise those at all bounds.

        Models with symmetries have many fixed points, each far from the mean of all. Splittings fall into them at
        random, and only their average is near the truth: more of them are worth more than larger tables.
        """
        error = self._standard_error(self.settled(self.at_top))
        agree = self.outcome is Status.EXACT or (error is not None and float(error.mean()) < _UNANIMOUS)
        return self.settled(self.at_top if agree else self.rungs)

    def settled(self, rungs: list[Rung]) -> list[Rung]:
        """Those that settled, or nearly; all where none did."""
        most = max(_NEARLY, self.rounds.tolerance)
        return [rung for rung in rungs if rung.found.change <= most] or rungs

    def error(self) -> FloatArray | None:
        """[V] how far each marginal may be off, in total variation; None where there is nothing to compare.

        That is the change between the last two bounds, or if larger the standard error of the mean of the splittings.
        """
        top = _mean(self.settled(self.at_top))
        change = None if self.below is None else self._distance(top - self.below)
        spread = self._standard_error(self.kept())
        if change is None or spread is None:
            return spread if change is None else change
        return np.maximum(change, spread)

    def _standard_error(self, rungs: list[Rung]) -> FloatArray | None:
        """[V] of the mean of splittings, in total variation; None where there is one only."""
        if len(rungs) < 2:
            return None
        return self._distance(np.std([rung.found.p for rung in rungs], axis=0, ddof=1) / np.sqrt(len(rungs)))

    def _distance(self, gap: FloatArray) -> FloatArray:
        """[V] total variation from the differences of all states."""
        ptr = self.graph.structure.state_ptr
        return 0.5 * np.add.reduceat(np.abs(gap), ptr[:-1]) if len(gap) else np.zeros(0)

    def _entropy(self, p: FloatArray) -> FloatArray:
        """[V] bits that are unknown about each variable."""
        ptr = self.graph.structure.state_ptr
        terms = -p * np.log2(np.maximum(p, 1e-300))
        return np.add.reduceat(terms, ptr[:-1]) if len(ptr) > 1 else np.zeros(0)


def _mean(rungs: list[Rung]) -> FloatArray:
    """[X] the mean belief."""
    return np.asarray(np.mean([rung.found.p for rung in rungs], axis=0))
