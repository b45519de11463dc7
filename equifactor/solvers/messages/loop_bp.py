"""Belief propagation corrected around loops, up to a length that grows while time is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.messages.loop_balls import (
    Balls,
    LoopBeliefs,
    LoopMessages,
    LoopyPart,
    PartLimits,
    run_rounds,
)
from equifactor.solvers.regions.agreement import Rounds, last_move
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import parse_solver, register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph

_SECONDS_PER_ENTRY = 8e-9  # A round takes this long per table entry, on one core at 2.8 GHz,
_SECONDS_PER_CLONE = 6e-7  # and this long per variable of each cavity;
_SECONDS_OF_PLANNING = 1.5e-6  # their orders take this long per edge.
_ROUNDS = 20  # Messages settle after about this many rounds.
_GROWTH = 1.25  # A length is run if its balls have this many times the factors of the last ones, or if it is the last.
_SHARE = 0.5  # A rung is begun if it takes at most this share of the time left.
_LONGEST = 0.8  # It is ended after this share of it, whether it has settled or not.
_BP_SHARE = 0.3  # Belief propagation may take this share of the time before the first rung.
_BYTES = 8.0  # A float64 takes this many.
_BYTES_PER_FACTOR = 256.0  # The lists of a part take about this much for each of its factors.
_NEARLY = 0.05  # A rung whose messages still change by no more counts as well as a settled one.
_SMALLEST = 8  # Balls are not made smaller than this many variables to fit a longer length.


@register("loop-bp")
@dataclass(frozen=True, kw_only=True)
class LoopCorrectedBp(GraphSolver):
    """Belief propagation between balls that hold all loops up to a length, each eliminated exactly.

    The ball of a variable holds the loops of at most `length` factors through it or its factors. What lies beyond an
    outer variable j of ball i is a message: the sum over the part of ball j that is outside of ball i, with its own
    messages from beyond (the equations of [Kirkley21], for factors of any size). With balls of single factors this is
    belief propagation; where no loop is longer than the length its fixed point is exact. ln Z is Bethe's, of plain
    belief propagation, unless the answer is exact. Cost per round: messages x 2^width of a ball.
    """

    tasks = (Task.MAR,)
    exact_on = "trees"

    length: int = option(12, "most factors of a loop that is summed exactly", low=1, high=1000)
    size: int = option(128, "most variables of a ball; larger ones keep a smaller length", low=1)
    memory_limit: float = option(1.0, "GiB of tables", low=0.0)
    seconds: float = option(10.0, "nominal seconds of work where there is no time limit", low=0.0)
    iterations: int = option(500, "most rounds of messages for each length", low=1)
    tolerance: float = option(1e-4, "settled when no message changes by more, in probability", low=0.0)
    damping: float = option(0.3, "share of the old log message that is kept", low=0.0, below=1.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Belief propagation, then longer and longer loops."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        clock = context.clock
        part = LoopyPart.of(reduced.graph)
        if part.is_forest() and not clock.stopped:
            return parse_solver("exact").run([graph], task, context)[0]
        plain = parse_solver("bp(damping=0.5, iterations=500)")
        bp = plain.run([graph], task, replace(context, clock=clock.part(_BP_SHARE)))[0]
        if bp.status is Status.ZERO_PROBABILITY:
            return bp
        start = None if bp.marginals is None else reduced.values_of_kept(bp.marginals.values)
        seconds = self.seconds if clock.time_limit is None else math.inf
        limits = LoopLimits(self.length, self.size, self.memory_limit * 2**30, seconds)
        climb = LoopClimb(part, limits, Rounds(self.iterations, self.tolerance, self.damping), clock, start)
        climb.run()
        if climb.outcome is Status.ZERO_PROBABILITY:
            return zero_by_exclusion(graph)
        if climb.outcome is Status.EXACT:
            exact = parse_solver(f"exact(memory_limit={self.memory_limit})").run([graph], task, context)[0]
            if exact.status in (Status.EXACT, Status.ZERO_PROBABILITY):
                return replace(exact, stats={**exact.stats, **climb.stats()})
        if not climb.rungs:
            said = "No longer loops fitted: this is the answer of belief propagation."
            status = clock.status or bp.status
            return replace(bp, status=status, message=f"{said} {bp.message}".strip())
        return _estimate(reduced, climb, bp, clock)


class LoopLimits(NamedTuple):
    """What the ladder of lengths may use."""

    length: int  # the last one
    size: int  # most variables of a ball
    memory: float  # bytes of tables
    seconds: float  # nominal seconds of work; where there is a deadline, infinite


class LoopRung(NamedTuple):
    """What one length said."""

    length: int
    largest_ball: int  # variables
    cut_balls: int  # balls that keep a smaller length
    messages: int
    largest: float  # log2 of the entries of the largest table
    found: LoopBeliefs


@dataclass
class LoopClimb:
    """The lengths that were run, one after the other."""

    part: LoopyPart
    limits: LoopLimits
    rounds: Rounds
    clock: Clock
    start: FloatArray | None  # [x] beliefs of belief propagation
    rungs: list[LoopRung] = field(default_factory=list)
    spent: float = 0.0  # nominal seconds
    outcome: Status | None = None  # EXACT or ZERO_PROBABILITY once that is known

    @property
    def left(self) -> float:
        """Nominal seconds left. Without a deadline no clock is looked at: the same call does the same work."""
        return self.limits.seconds - self.spent if self.limits.seconds < math.inf else self.clock.left

    def run(self) -> None:
        """Go through the lengths until one does not fit, or all balls hold everything."""
        lengths = np.ones(len(self.part.card), np.int64)
        size, total, stuck = self.limits.size, 0, np.zeros(len(lengths), bool)
        length = 2
        while length <= self.limits.length and not self.clock.stopped and self.outcome is None and not stuck.all():
            most = int(min(_SHARE * self.left / (2.0 * _SECONDS_OF_PLANNING), self.limits.memory / _BYTES_PER_FACTOR))
            balls = Balls.grow(self.part, np.where(stuck, lengths, length), size, most)
            ran = False
            if balls is not None:
                if balls.whole.all():
                    self.outcome = Status.EXACT
                    return
                needed = _GROWTH * total if length < self.limits.length else total + 1
                if len(balls.ball) < needed:
                    stuck, length = balls.length < length, length + 1
                    continue
                ran = self._run(balls, length, most)
            if ran and balls is not None:
                total, lengths, stuck = len(balls.ball), balls.length, balls.length < length
                length += 1
            elif size > _SMALLEST:
                size //= 2
            else:
                return

    def _run(self, balls: Balls, length: int, most: int) -> bool:
        """Run one length; whether it fitted."""
        memory = self.limits.memory / _BYTES / 2.0
        entries = min(memory, _SHARE * self.left / (_ROUNDS * _SECONDS_PER_ENTRY))
        messages = LoopMessages.make(self.part, balls, PartLimits(entries, most))
        if messages is None:
            return False
        cavities = messages.cavities
        self.spent += _SECONDS_OF_PLANNING * (cavities.edges + messages.balls.edges)
        each = _SECONDS_PER_CLONE * cavities.clones + _SECONDS_PER_ENTRY * cavities.entries
        if _ROUNDS * each > _SHARE * self.left:
            return False
        iterations = int(min(self.rounds.iterations, 1 + _LONGEST * self.left / max(each, 1e-9)))
        found = run_rounds(messages, self.rounds._replace(iterations=iterations), self.clock)
        if found is None:
            return False
        self.spent += each * found.rounds
        if not len(found.p) and len(self.part.card):
            self.outcome = Status.ZERO_PROBABILITY
            return True
        largest_ball = int(np.diff(balls.member_ptr).max(initial=0))
        cut = int(np.count_nonzero(balls.length < length))
        self.rungs.append(LoopRung(length, largest_ball, cut, len(messages.dim), messages.largest, found))
        return True

    def best(self) -> LoopRung:
        """The longest length that settled, or nearly; the longest where none did."""
        most = max(_NEARLY, self.rounds.tolerance)
        return ([rung for rung in self.rungs if rung.found.change <= most] or self.rungs)[-1]

    def error(self, ptr: IntArray) -> FloatArray | None:
        """[v] how far the last length moved each marginal, in total variation; None with nothing to compare."""
        best = self.best()
        before = [rung.found.p for rung in self.rungs if rung.length < best.length]
        other = before[-1] if before else self.start
        if other is None:
            return None
        return 0.5 * np.add.reduceat(np.abs(best.found.p - other), ptr[:-1]) if len(other) else np.zeros(0)

    def stats(self) -> dict[str, Any]:
        """What the Result tells about the rungs."""
        if not self.rungs:
            return {"lengths": []}
        best = self.best()
        return {
            "length": best.length, "lengths": [rung.length for rung in self.rungs],
            "largest_ball": best.largest_ball, "cut_balls": best.cut_balls, "messages": best.messages,
            "log2_largest_table": round(best.largest, 2), "change": best.found.change,
        }  # fmt: skip


def _estimate(reduced: ReducedGraph, climb: LoopClimb, bp: Estimate, clock: Clock) -> Estimate:
    best, stats, said = climb.best(), climb.stats(), ""
    error = climb.error(reduced.graph.structure.state_ptr)
    if error is not None:
        moves, moved = last_move(reduced, error)
        stats |= moves
        said = f"Loops up to {best.length}; the last change of length {moved} ln Z is Bethe's."
    settled = best.found.change <= climb.rounds.tolerance
    return Estimate(
        status=clock.status or (Status.CONVERGED if settled else Status.ITERATION_LIMIT),
        message=said,
        marginals=reduced.marginals(best.found.p),
        log_z=bp.log_z,
        iterations=sum(rung.found.rounds for rung in climb.rungs),
        stats=stats,
    )
