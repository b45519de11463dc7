"""The time and memory that a solver may use, and the speed of this machine, which decide what is worth starting.

Costs of work are stated in *reference seconds*: estimates for one core at 2.8 GHz. `machine_speed` measures once per
process how many reference seconds of work this machine does in a second. Without a deadline a budget is counted in
reference seconds alone, so that the same call does the same work on every machine.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from equifactor.base.clock import Clock, WorkClock

GIB: Final = 2.0**30  # Bytes.
FLOAT_BYTES: Final = 8  # Bytes of a float64.
EPS: Final = 2.0**-52  # Twice the relative rounding error of one addition in float64: room for exp and log.
# Operations of a log-sum-exp, a powered sum or a cluster beside those on its terms, each with an error of `EPS`.
OTHER_STEPS: Final = 8.0
LARGEST_LOG: Final = 1e200  # Nats: sums of log entries of this size cannot overflow, however many there are.
LEAST_LOG: Final = -745.0  # The log of the smallest positive float64.
# Seconds that one call of a kernel aims for: Ctrl-C and deadlines wait for its end. People notice 0.1 s.
CALL_SECONDS: Final = 0.02

# Seconds after a deadline at which the first answer may be ready: half of what every call may be late.
GRACE: Final = 0.5

# Sums and eliminations start if their estimate is at most this many times the time left: eliminations of square grids
# take 0.25 to 0.8 of theirs, and zeros make sums faster. Of 32 sums over cutsets with 0.1 s, 21 have an answer if this
# is halved, 30 as it is and 32 if it is doubled; the largest errors are then 3e-8, 3e-5 and 6e-3.
ACCEPTED_OVERRUN: Final = 4.0

_PROBE_ENTRIES = 2**13  # Entries of the probe that measures the machine: 64 KiB, which fit into every cache.
_PROBE_REPEATS = 8  # Runs of the probe, of which the fastest counts: others may have been interrupted.
# Seconds of one probe at speed 1: the fastest of 160 runs on an AMD EPYC, where elimination of square grids of 17 to 19
# spins takes 0.25 to 0.8 of its estimate.
_PROBE_SECONDS = 3.6e-5
_SLOWEST, _FASTEST = 0.25, 4.0  # The range of measured speeds that is believed: slower ones come from a busy machine.


class Seconds:
    """Reference seconds that one unit of work takes.

    Elimination, sums over cutsets, draws of blocks, regions and plain NumPy were measured on one core at 2.8 GHz; the
    others are estimates by hand.
    """

    PLANNING: Final = 2e-8  # For a list operation of the planner of elimination orders; it makes at least 5e7 a second.
    UP_AND_DOWN: Final = 8e-9  # For a table entry of an elimination that gives marginals.
    UP: Final = 3e-9  # For a table entry of an elimination that gives ln Z alone.
    UP_MAX: Final = 4e-9  # For a table entry of an elimination that maximises.
    CUTSET_UP: Final = 2e-9  # For a table entry of the elimination at one state of a cutset.
    CUTSET_STATE: Final = 2e-5  # For a state of a cutset, in addition to its table entries.
    CUTSET_ORDER: Final = 5e-5  # For a variable, to make one elimination order while a cutset is chosen.
    CUTSET_TRIANGLE: Final = 5e-9  # For an edge and a neighbour of its variable with fewer, in the same.
    GIBBS_START: Final = 6e-7  # For an edge, to start Gibbs sampling and sweep once: a chain of 10^6 variables.
    GIBBS_EDGE: Final = 1e-7  # For an edge, in one sweep of a chain of Gibbs sampling.
    GIBBS_STATE: Final = 3e-9  # For an edge state of a table, in the same: six models take 2 to 4 ns.
    BLOCK_DRAW: Final = 1.2e-8  # For a table entry, to draw a block of variables.
    BLOCK_VARIABLE: Final = 1e-6  # For a variable in a draw of a block, beside its entries: grids of 9 to 900 spins.
    BLOCK_COVER: Final = 5e-4  # For a variable, to choose the first blocks that together hold every variable, at most.
    PLAN_START: Final = 1.2e-6  # For an edge, before planning looks at its limit: a formula of 656,000 clauses.
    LOWERING: Final = 4e-7  # For an edge, to write structured factors as dense tables: codes and formulas take half.
    SPLITTING: Final = 3e-6  # For an edge, to draw one splitting of variables into clones.
    # For an edge, to eliminate cheap variables: a chain of 10^6 variables takes 4e-7, dense graphs of pairs 1e-7.
    SHRINK_EDGE: Final = 4e-7
    SHRINK_WIDE: Final = 8e-7  # In addition for an edge of a factor of three variables or more: 656,000 clauses.
    SHRINK_ENTRY: Final = 5e-9  # For a table entry, in the same: tables of 32 million entries.
    JOINING: Final = 1e-7  # For an edge, to try to join two clones.
    LOOP_CLONE: Final = 6e-7  # For a variable of a cavity, in a round of loop-corrected messages.
    LOOP_VISIT: Final = 6e-8  # For a visit of a factor from a variable, to grow balls: a formula of 656,000 clauses.
    LOOP_ORDER: Final = 1.5e-6  # For an edge of a ball or a cavity, to plan its elimination.
    LAYER_BUILD: Final = 5e-6  # For an edge of the model, to build the layers of an upper bound.
    LAYER_ENTRY: Final = 1e-8  # For a cluster entry, in an iteration of an upper bound.
    MESSAGE_SWEEP: Final = 2e-8  # For a table entry or edge state, in a sweep of `trw` or `meanfield`.
    SEARCH_ENTRY: Final = 1e-9  # For a table entry that a phase of local search reads.
    FIELD_BUILD: Final = 3e-6  # For a table entry of the factors around a block, to prepare a block of a lower bound.
    FIELD_ENTRY: Final = 1e-8  # For a cluster entry, in a sweep over the blocks of a lower bound.
    # To start `fe-net` on a CPU. It and the next four fit 18 models within a factor of 2.
    NETWORK_START: Final = 6e-3
    NETWORK_STATE: Final = 3e-6  # For an edge state, in all steps of `fe-net` and its runs of BP.
    NETWORK_ENTRY: Final = 3e-6  # For a table entry, in the same.
    NETWORK_SLOT: Final = 3e-3  # For each slot of a shape of tables, in the same.
    NETWORK_SQUARE: Final = 8e-6  # For a square of pair factors, to find it and to correct messages around it.
    NETWORK_LOOPS: Final = 1e-7  # For the cube of the degree of a variable, to find the short loops of a model.
    PLAIN_CLUSTER_BOTH: Final = 5e-5  # In plain NumPy: for a cluster of an elimination that gives marginals.
    PLAIN_CLUSTER_UP: Final = 3e-5  # In plain NumPy: for a cluster of an elimination that gives ln Z or MAP.
    PLAIN_BOTH: Final = 1.8e-8  # In plain NumPy: for a table entry, with marginals; on the slowest of ten models.
    PLAIN_UP: Final = 8e-9  # In plain NumPy: for a table entry, without marginals; on the slowest of ten models.
    PLAIN_DRAW: Final = 1e-6  # In plain NumPy: for the state of one variable in one exact sample.
    PLAIN_ITERATION: Final = 2e-5  # In plain NumPy: for an iteration of belief propagation by itself.
    PLAIN_SLOT: Final = 1.5e-5  # In plain NumPy: for each slot of a block of factors, in an iteration.
    PLAIN_MESSAGE: Final = 4e-9  # In plain NumPy: for each table entry and edge state, in an iteration.


@dataclass(frozen=True)
class Refusal:
    """Why something was not run, or has no answer: a clause or a sentence that a message can contain."""

    reason: str

    def __str__(self) -> str:
        return self.reason


_speed: float | None = None  # The speed of this machine, once it has been measured or set.


def machine_speed() -> float:
    """Return the reference seconds of work that this machine does in a second, measured once per process.

    The speed is rounded to a power of two, so that noise of the measurement hardly ever changes a plan.
    """
    if _speed is None:
        set_machine_speed(_measured_speed())
    assert _speed is not None
    return _speed


def set_machine_speed(speed: float | None) -> None:
    """Set what `machine_speed` returns; None to measure it again when it is next needed."""
    global _speed
    _speed = speed


def _measured_speed() -> float:
    """Measure the machine in less than a millisecond: exponentials and a running sum, as in an elimination."""
    x = np.linspace(-1.0, 0.0, _PROBE_ENTRIES)
    least = math.inf
    for _ in range(_PROBE_REPEATS):
        start = time.perf_counter()
        np.cumsum(np.exp(x))
        least = min(least, time.perf_counter() - start)
    within = min(max(_PROBE_SECONDS / max(least, 1e-9), _SLOWEST), _FASTEST)
    return 2.0 ** round(math.log2(within))


def speed_now() -> float:
    """Return the reference seconds of work that this machine does in a second beside its other work.

    It is the speed of the machine over the crowding since the start of the call, rounded to a power of two.
    """
    return machine_speed() / 2.0 ** round(math.log2(Clock.crowding_of_call()))


def planning_work(seconds: float, speed: float | None = None) -> float:
    """Return the least number of list operations that the planner of elimination orders makes in this many seconds.

    Args:
        seconds: the time.
        speed: reference seconds of work per second; `speed_now` if None.
    """
    if seconds == math.inf:
        return math.inf
    return seconds / Seconds.PLANNING * (speed_now() if speed is None else speed)


class Budget:
    """The time and the memory that a piece of work may use.

    Args:
        clock: the clock of the call.
        seconds: reference seconds of work if the clock has no deadline; otherwise the deadline alone counts.
        memory: bytes.
    """

    def __init__(self, clock: Clock, seconds: float = math.inf, memory: float = math.inf) -> None:
        self.clock = clock
        self.seconds = seconds if clock.left == math.inf else math.inf
        self.memory = memory
        self.spent = 0.0  # Reference seconds of the work that was reported.
        self._begun = clock.seconds
        self._speed: float | None = None  # Reference seconds per second, by `measure`.
        self._follows_pace = False

    @property
    def left(self) -> float:
        """Reference seconds left. Without a deadline the clock is not read: the same call does the same work."""
        if self.clock.left == math.inf:
            return self.seconds - self.spent
        return self.clock.left * self.speed

    @property
    def speed(self) -> float:
        """Reference seconds of work per second: as this work has shown, otherwise `speed_now`.

        Without a deadline it is 1, and by a clock that counts work as well.
        """
        if self.clock.left == math.inf or isinstance(self.clock, WorkClock):
            return 1.0
        if self._speed is not None:
            return self._speed
        used = self.clock.seconds - self._begun
        if self._follows_pace and used > 0.0:
            return min(speed_now(), self.spent / used)
        return speed_now()

    def worth_starting(self, work: float, share: float = 1.0, memory: float = 0.0) -> bool:
        """Return whether work fits this share of the time left, and the memory.

        Args:
            work: reference seconds that the work should take.
            share: the share of the time left that it may take.
            memory: bytes that the work needs.
        """
        return work <= share * self.left and memory <= self.memory

    def ends_in_time(self, work: float) -> bool:
        """Return whether work without which there is no answer ends before the deadline, or at most `GRACE` later.

        Such work is bound by memory, so a processor that is faster than the reference does not make it faster.
        """
        least = work if self._speed is None else 0.0
        return max(least, self.time_for(work)) <= self.clock.left + GRACE - self.clock.late

    def time_for(self, work: float) -> float:
        """Return the seconds that this many reference seconds of work should take here."""
        return work / self.speed if work else 0.0  # Models without tables are measured at speed 0.

    def spend(self, work: float) -> None:
        """Report that work of this many reference seconds was done."""
        self.spent += work

    def measure(self, work: float, seconds: float) -> None:
        """Learn the speed from work that took this many seconds. The fastest measurement counts."""
        speed = work / max(seconds, 1e-9)
        self._speed = speed if self._speed is None else max(self._speed, speed)

    def follow_pace(self) -> None:
        """From now on, learn the speed from all work reported so far, if that took longer than expected."""
        self._follows_pace = True
