"""The engine for decoding on the CPU: 16 lanes in compiled loops."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from equifactor.decoding.methods import PooledDecoding
from equifactor.decoding.ordered_statistics import OrderedStatistics
from equifactor.decoding.problem import transposed
from equifactor.decoding.shot_store import no_time_to_finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.decoding.lane_kernels import LaneState, ShotAnswers
    from equifactor.decoding.methods import DecodingMethod
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore

_LINE = 64  # The number of bytes of a line of cache.
_TILT = 1e-2  # The largest relative change of a first message, which breaks ties (see `tilts`). Chosen by hand.
_FAILED = 256  # The number of failed shots that ordered statistics decodes at a time. Chosen by hand.
_WORK = 2 * 10**9  # The number of steps between two looks at the clock, about a fifth of a second.
_FINISHING = 0.25  # The largest share of the time limit in which shots in flight are finished. Chosen by hand.
_STEPS = 8  # About the number of steps that a lane takes for an edge in a sweep, for `_WORK`. Chosen by hand.


class LaneEngine:
    """An engine that decodes 16 shots at a time by belief propagation.

    The answer to a shot does not depend on the other shots.
    """

    def __init__(self, problem: DecodingProblem, method: DecodingMethod) -> None:
        from equifactor.decoding.check_rules import LANES
        from equifactor.decoding.lane_kernels import Checks, Strategy

        self.problem, self.method = problem, method
        bit_ptr, check_of_bit = transposed(problem.check_ptr, problem.bit_of_edge, problem.num_bits)
        self.checks = Checks(
            problem.check_ptr, problem.bit_of_edge, problem.observable_ptr, problem.observable_bits,
            tilts(problem.num_bits), problem.degrees, *memory_ranges(problem, method), bit_ptr,
            check_of_bit.astype(np.int32), problem.flip_keys(),
        )  # fmt: skip
        # Every number keeps its type: an integer in place of a float would compile everything again.
        self.strategy = Strategy(
            method.rule == "sum-product", method.schedule == "serial", float(method.scale),
            method.iterations, method.leg_iterations, method.legs, method.solutions, method.restart, method.trust_first,
            method.seed, isinstance(method, PooledDecoding), *method.limits_of_shots(),
            method.penalty if isinstance(method, PooledDecoding) else 0.0,
        )  # fmt: skip
        self.state = self._empty_lanes(method.weights_of_networks())
        self.statistics = OrderedStatistics(problem, method) if method.osd != "none" else None
        self.sweeps = max(1, _WORK // max(1, LANES * len(problem.bit_of_edge) * _STEPS))

    def twin(self) -> LaneEngine:
        """Return an engine for another thread, with lanes of its own."""
        twin = copy.copy(self)
        twin.state = self._empty_lanes(self.state.weights)
        twin.statistics = OrderedStatistics(self.problem, self.method) if self.statistics is not None else None
        return twin

    def _empty_lanes(self, weights: NDArray[np.float32]) -> LaneState:
        from equifactor.decoding.check_rules import LANES, ROWS
        from equifactor.decoding.lane_kernels import NUM_COUNTERS, LaneState
        from equifactor.decoding.pool_kernels import KEPT, LONGEST

        problem = self.problem
        bits, longest = problem.num_bits, int(np.diff(problem.check_ptr).max(initial=0))
        return LaneState(
            _aligned(bits * LANES), _aligned(bits * LANES), _aligned(bits * LANES),
            _aligned(2 * bits * LANES).reshape(2, -1),
            _aligned(len(problem.bit_of_edge) * LANES),
            np.zeros(problem.num_checks, np.uint32), np.zeros(bits, np.uint32), np.zeros(bits, np.uint32),
            np.zeros(LANES), np.full((NUM_COUNTERS, LANES), -1), _aligned(LANES), _aligned(LANES),
            _aligned(longest * LANES), _aligned(longest * ROWS * LANES),
            np.zeros(bits, np.float32), weights,
            np.zeros(bits, np.int32), np.zeros(bits, np.int32), np.zeros(bits), np.zeros(bits, np.uint64),
            np.zeros(problem.num_checks, np.int32), np.zeros((LANES, KEPT), np.int32),
            np.zeros((LANES, KEPT), np.uint64), np.zeros((LANES, KEPT, LONGEST), np.int32),
        )  # fmt: skip

    def use_networks(self, weights: NDArray[np.float32]) -> None:
        """Set the networks [P, H+1, F+2] that choose memories; network n % P serves shot n."""
        self.state = self.state._replace(weights=weights)

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled loops by a run without shots."""
        from equifactor.decoding.lane_kernels import NUM_PROGRESS, ShotQueue, run_lanes
        from equifactor.kernels.jit import plain

        self.state.counter[:] = -1
        nothing = np.zeros((0, -(-self.problem.num_checks // 8)), np.uint8)
        queue = ShotQueue(0, False, nothing, np.zeros((1, self.problem.num_bits), np.float32))
        given = (plain(self.checks), plain(self.strategy), plain(self.state), plain(queue), plain(self._answers(store)))
        run_lanes(*given, np.zeros(NUM_PROGRESS, np.int64), 1)
        if self.statistics is not None:
            self.statistics.prepare(store)

    def _answers(self, store: ShotStore) -> ShotAnswers:
        from equifactor.decoding.lane_kernels import ShotAnswers

        held = _FAILED if self.statistics is not None else 0
        return ShotAnswers(
            store.correction, store.flips, store.converged, store.iterations, store.weight, store.gap,
            np.zeros(held, np.int64), np.zeros((held, self.problem.num_bits), np.float32),
            np.zeros((held, self.problem.num_checks), np.uint8),
        )  # fmt: skip

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store, by the rules of `DecodingEngine`."""
        from equifactor.decoding.lane_kernels import CURSOR, FAILED, LIVE, NUM_PROGRESS, SHOT, ShotQueue, run_lanes
        from equifactor.kernels.jit import plain

        answers = self._answers(store)
        checks, strategy, state = plain(self.checks), plain(self.strategy), plain(self.state)
        self.state.counter[:] = -1
        progress = np.zeros(NUM_PROGRESS, np.int64)
        over, each = False, 0.0  # seconds of a sweep
        for first, packed, ratio, more in store.chunks():
            progress[CURSOR] = 0
            while True:
                if not over and clock.left <= self._time_to_finish(store, clock, each):
                    over, more, packed = True, False, packed[: progress[CURSOR]]  # Only the shots that have begun.
                if over and no_time_to_finish(clock):
                    shots = self.state.counter[SHOT]
                    store.abandon(shots[shots >= 0])
                    break
                queue, start = plain(ShotQueue(first, more, packed, ratio)), clock.seconds
                run_lanes(checks, strategy, state, queue, plain(answers), progress, self.sweeps)
                each = max(each, (clock.seconds - start) / self.sweeps)
                if self.statistics is not None and (failed := int(progress[FAILED])):
                    shots, posteriors = answers.failed_shot[:failed], answers.failed_posterior[:failed]
                    self.statistics.decode(store, shots, posteriors, answers.failed_syndrome[:failed])
                    progress[FAILED] = 0
                report(first + int(progress[CURSOR] - progress[LIVE]))
                if progress[CURSOR] == len(packed) and (more or progress[LIVE] == 0):
                    break
            if over:
                store.decoded[first + len(packed) :] = False
                return

    def _time_to_finish(self, store: ShotStore, clock: Clock, each: float) -> float:
        """Return the seconds before the time limit from which no shot begins: as long as the longest shot has taken.

        It does not depend on the shots that wait, so that the shots that begin are a fair sample.
        """
        if clock.time_limit is None or not each:
            return 0.0
        return min(float(store.iterations.max(initial=0)) * each, _FINISHING * clock.time_limit)


def memory_ranges(
    problem: DecodingProblem, method: DecodingMethod
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """Return [V] the memories of the first leg, and both ends of the interval [V] of those of further legs."""
    ranges = np.tile([[method.memory], [method.low], [method.high]], problem.num_bits)
    if isinstance(method, PooledDecoding):
        is_part = slice(problem.num_bits - problem.num_links, None)
        ranges[:, is_part] = [[method.part_memory], [method.part_low], [method.part_high]]
    return ranges[0].astype(np.float32), ranges[1], ranges[2]


def tilts(num_bits: int) -> NDArray[np.float32]:
    """Return [V] factors near 1 for the first messages.

    If all errors are equally likely, messages of min-sum stay tied. Of 1000 words over a binary symmetric channel, 998
    were decoded wrongly without these factors and 92 with them.
    """
    return np.random.default_rng(0).uniform(1.0 - _TILT, 1.0 + _TILT, num_bits).astype(np.float32)


def _aligned(count: int) -> NDArray[np.float32]:
    """Return zeros [count] that begin at a line of cache."""
    room = np.zeros(count + _LINE // 4, np.float32)
    begin = -room.ctypes.data % _LINE // 4
    return room[begin : begin + count]
