"""The solver `loop-bp`: belief propagation corrected around loops, up to a length that grows while time is left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, GIB, Budget, Refusal, Seconds
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.regions.agreement import NEARLY_SETTLED, Rounds, last_move
from equifactor.solvers.regions.loop_balls import (
    Balls,
    LoopBeliefs,
    LoopMessages,
    LoopyPart,
    PartLimits,
    run_rounds,
)
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.ladder import Ladder, Step, Steps
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph

# A length starts if the time left is enough for this many rounds. Halved: error within 15 %, CPU +40 %; doubled: error
# +16 %, CPU -36 %.
_ROUNDS = 40
# A length is skipped unless its balls have this many times the factors of the last one run. Halved or doubled: error
# within 30 %.
_GROWTH = 1.25
# The share of the time left after which a length is cut short. Halved or doubled: error within 50 %.
_ROUNDS_SHARE = 0.8
# The share of the time for belief propagation, before the first length. Halved or doubled: error within 20 %.
_BP_SHARE = 0.3
_BYTES_PER_FACTOR = 256.0  # Bytes that the lists of a ball or cavity take for each of its factors.
# Variables below which balls are not cut to fit a longer length. Halved or doubled: error within 30 %.
_SMALLEST_BALL = 8


@register("loop-bp")
@dataclass(frozen=True, kw_only=True)
class LoopCorrectedBp(GraphSolver):
    """Belief propagation between balls that hold all loops up to a length, each eliminated exactly.

    The ball of a variable holds the loops of at most `length` factors through it or its factors. The rest of the model
    beyond an outer variable j of ball i is one message. It is the sum over the part of ball j outside ball i, with its
    own messages from beyond (the equations of [Kirkley21], for factors of any size). With balls of single factors this
    is belief propagation. If no loop is longer than `length`, its fixed point is exact. ln Z is the Bethe estimate of
    plain belief propagation, unless the answer is exact. Cost per round: messages x 2^width of a ball.
    """

    tasks = (Task.MAR,)
    exact_on = "trees"

    length: int = option(12, "most factors of a loop that is summed over exactly", low=1, high=1000)
    size: int = option(128, "most variables of a ball; larger ones keep a smaller length", low=1)
    memory_limit: float = option(1.0, "GiB of tables", low=0.0)
    seconds: float = option(10.0, "estimated seconds of work if there is no time limit", low=0.0)
    iterations: int = option(500, "most rounds of messages for each length", low=1)
    tolerance: float = option(1e-4, "settled when no message changes by more, in probability", low=0.0)
    damping: float = option(0.3, "share of the old log message that is kept", low=0.0, below=1.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Run belief propagation, then longer and longer loops."""
        from equifactor.solvers.elimination.exact import Exact
        from equifactor.solvers.messages.bp import BeliefPropagation

        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        clock = context.clock
        part = LoopyPart.of(reduced.graph)
        if part.is_forest() and not clock.stopped:
            return Exact().run([graph], task, context)[0]
        plain = BeliefPropagation(damping=0.5, iterations=500)
        bp = plain.run([graph], task, replace(context, clock=clock.part(_BP_SHARE)))[0]
        if bp.status is Status.ZERO_PROBABILITY:
            return bp
        start = None if bp.marginals is None else reduced.values_of_kept(bp.marginals.values)
        budget = Budget(clock, self.seconds, self.memory_limit * GIB)
        rounds = Rounds(self.iterations, self.tolerance, self.damping)
        loops = GrowingLoops(part, LoopLimits(self.length, self.size), rounds, budget, start)
        loops.run()
        if loops.outcome is Status.ZERO_PROBABILITY:
            return zero_by_exclusion(graph)
        if loops.outcome is Status.EXACT:
            exact = Exact(memory_limit=self.memory_limit).run([graph], task, context)[0]
            if exact.status in (Status.EXACT, Status.ZERO_PROBABILITY):
                return replace(exact, stats={**exact.stats, **loops.stats()})
        if not loops.answers:
            said = "Balls of longer loops did not fit the limits. This is the answer of belief propagation."
            status = clock.status or bp.status
            return replace(bp, status=status, message=f"{said} {bp.message}".strip())
        return _estimate(reduced, loops, bp, clock)


class LoopLimits(NamedTuple):
    """How long loops and how large balls may become."""

    length: int  # most factors of a loop
    size: int  # most variables of a ball


class LengthAnswer(NamedTuple):
    """The answer for one length."""

    length: int
    largest_ball: int  # variables
    cut_balls: int  # balls that keep a smaller length
    messages: int
    largest: float  # log2 of the entries of the largest table
    found: LoopBeliefs


@dataclass
class GrowingLoops:
    """The lengths that were run so far, and the choice of the next one."""

    part: LoopyPart
    limits: LoopLimits
    rounds: Rounds
    budget: Budget
    start: FloatArray | None  # [x] beliefs of belief propagation
    answers: list[LengthAnswer] = field(default_factory=list)
    outcome: Status | None = None  # EXACT or ZERO_PROBABILITY once that is known

    def run(self) -> None:
        """Run lengths until the next one is not worth starting."""
        self.answers = Ladder(self._steps(), self.budget).run()

    def _steps(self) -> Steps[LengthAnswer]:
        """Go through the lengths until one does not fit, or every ball holds all that can be reached.

        If a length does not fit, it is tried again with smaller balls.
        """
        lengths = np.ones(len(self.part.card), np.int64)
        size, total, stuck = self.limits.size, 0, np.zeros(len(lengths), bool)
        length = 2
        clock = self.budget.clock
        while length <= self.limits.length and not clock.stopped and self.outcome is None and not stuck.all():
            by_time = self.budget.left / (4.0 * Seconds.LOOP_ORDER)
            most = int(min(by_time, self.budget.memory / _BYTES_PER_FACTOR))
            balls = Balls.grow(self.part, np.where(stuck, lengths, length), size, most, self.budget.left)
            ran = False
            if balls is not None:
                if balls.whole.all():
                    self.outcome = Status.EXACT
                    return
                needed = _GROWTH * total if length < self.limits.length else total + 1
                if len(balls.ball) < needed:
                    stuck, length = balls.length < length, length + 1
                    continue
                step = self._step(balls, length, most)
                ran = step is not None and not isinstance((yield step), Refusal)
            if ran and balls is not None:
                total, lengths, stuck = len(balls.ball), balls.length, balls.length < length
                length += 1
            elif size > _SMALLEST_BALL:
                size //= 2
            else:
                return

    def _step(self, balls: Balls, length: int, most: int) -> Step[LengthAnswer] | None:
        """Return the step that runs one length; None if its tables are over the limits."""
        by_time = self.budget.left / (_ROUNDS * Seconds.UP_AND_DOWN)
        entries = min(self.budget.memory / FLOAT_BYTES / 2.0, by_time)
        messages = LoopMessages.make(self.part, balls, PartLimits(entries, most))
        if messages is None:
            return None
        cavities = messages.cavities
        self.budget.spend(Seconds.LOOP_ORDER * (cavities.edges + messages.balls.edges))
        each = Seconds.LOOP_CLONE * cavities.clones + Seconds.UP_AND_DOWN * cavities.entries
        return Step(run=lambda: self._run(messages, balls, length, each), work=_ROUNDS * each)

    def _run(self, messages: LoopMessages, balls: Balls, length: int, each: float) -> LengthAnswer | Refusal:
        """Run one length, whose rounds should take `each` reference seconds."""
        iterations = int(min(self.rounds.iterations, 1 + _ROUNDS_SHARE * self.budget.left / max(each, 1e-9)))
        found = run_rounds(messages, self.rounds._replace(iterations=iterations), self.budget.clock)
        if found is None:
            return Refusal("the clock stopped it before it finished")
        self.budget.spend(each * found.rounds)
        if not len(found.p) and len(self.part.card):
            self.outcome = Status.ZERO_PROBABILITY
            return Refusal("no assignment has a positive probability")
        largest_ball = int(np.diff(balls.member_ptr).max(initial=0))
        cut = int(np.count_nonzero(balls.length < length))
        return LengthAnswer(length, largest_ball, cut, len(messages.dim), messages.largest, found)

    def best(self) -> LengthAnswer:
        """Return the answer for the longest length that settled, or nearly; for the longest one if none did."""
        most = max(NEARLY_SETTLED, self.rounds.tolerance)
        return ([answer for answer in self.answers if answer.found.change <= most] or self.answers)[-1]

    def error(self, ptr: IntArray) -> FloatArray | None:
        """Return [v] how far the last length moved each marginal, in total variation; None without another answer."""
        best = self.best()
        before = [answer.found.p for answer in self.answers if answer.length < best.length]
        other = before[-1] if before else self.start
        if other is None:
            return None
        return 0.5 * np.add.reduceat(np.abs(best.found.p - other), ptr[:-1]) if len(other) else np.zeros(0)

    def stats(self) -> dict[str, Any]:
        """Return the numbers about the lengths that the result reports."""
        if not self.answers:
            return {"lengths": []}
        best = self.best()
        return {
            "length": best.length, "lengths": [answer.length for answer in self.answers],
            "largest_ball": best.largest_ball, "cut_balls": best.cut_balls, "messages": best.messages,
            "log2_largest_table": round(best.largest, 2), "change": best.found.change,
        }  # fmt: skip


def _estimate(reduced: ReducedGraph, loops: GrowingLoops, bp: Estimate, clock: Clock) -> Estimate:
    best, stats, said = loops.best(), loops.stats(), ""
    error = loops.error(reduced.graph.structure.state_ptr)
    if error is not None:
        moves, moved = last_move(reduced, error)
        stats |= moves
        said = (
            f"Loops of up to {best.length} factors were summed over. The last change of length {moved} ln Z is the "
            "Bethe estimate."
        )
    settled = best.found.change <= loops.rounds.tolerance
    return Estimate(
        status=clock.status or (Status.CONVERGED if settled else Status.ITERATION_LIMIT),
        message=said,
        marginals=reduced.marginals(best.found.p),
        log_z=bp.log_z,
        iterations=sum(answer.found.rounds for answer in loops.answers),
        stats=stats,
    )
