"""The engine of decoding on the CPU: shots go through the lanes of compiled loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.decoding.ordered_statistics import OrderedStatistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.decoding.methods import DecodingMethod
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore

_LINE = 64  # bytes of a line of cache
_TILT = 1e-2  # how far first messages are moved so that none are equal
_FAILED = 256  # shots that wait for ordered statistics at a time
_WORK = 2 * 10**9  # steps between two looks at the clock, about a fifth of a second


class LaneEngine:
    """Decodes by belief propagation, 16 shots at a time; what a shot is answered does not depend on the others."""

    def __init__(self, problem: DecodingProblem, method: DecodingMethod) -> None:
        from equifactor.decoding.check_rules import LANES, ROWS
        from equifactor.decoding.lane_kernels import Checks, LaneState, Strategy

        self.problem, self.method = problem, method
        self.checks = Checks(
            problem.check_ptr, problem.bit_of_edge, problem.observable_ptr, problem.observable_bits,
            tilts(problem.num_bits), problem.degrees,
        )  # fmt: skip
        # Every number of one type: an integer where a float was would compile everything again.
        self.strategy = Strategy(
            method.rule == "sum-product", method.schedule == "serial", float(method.scale),
            method.iterations, method.leg_iterations, method.legs, method.solutions, method.restart, method.trust_first,
            float(method.memory), float(method.low), float(method.high), method.seed,
        )  # fmt: skip
        bits, longest = problem.num_bits, int(np.diff(problem.check_ptr).max(initial=0))
        self.state = LaneState(
            _aligned(bits * LANES), _aligned(bits * LANES), _aligned(2 * bits * LANES).reshape(2, -1),
            _aligned(len(problem.bit_of_edge) * LANES),
            np.zeros(problem.num_checks, np.uint32), np.zeros(bits, np.uint32), np.zeros(bits, np.uint32),
            np.zeros(LANES), np.full((5, LANES), -1), _aligned(LANES), _aligned(LANES),
            _aligned(longest * LANES), _aligned(longest * ROWS * LANES),
            np.zeros(bits, np.float32), method.weights_of_networks(),
        )  # fmt: skip
        self.statistics = OrderedStatistics(problem, method) if method.osd != "none" else None
        self.sweeps = max(1, _WORK // max(1, LANES * len(problem.bit_of_edge) * 8))

    def use_networks(self, weights: NDArray[np.float32]) -> None:
        """Let other networks [P, H+1, F+2] choose memories, that of shot n is n % P."""
        self.state = self.state._replace(weights=weights)

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Answer all shots of the store, or as many as the clock allows; `report` is told how many are done."""
        from equifactor.decoding.lane_kernels import CURSOR, FAILED, LIVE, ShotAnswers, ShotQueue, run_lanes
        from equifactor.kernels.jit import plain

        held = _FAILED if self.statistics is not None else 0
        answers = ShotAnswers(
            store.correction, store.flips, store.converged, store.iterations, store.weight,
            np.zeros(held, np.int64), np.zeros((held, self.problem.num_bits), np.float32),
            np.zeros((held, self.problem.num_checks), np.uint8),
        )  # fmt: skip
        checks, strategy, state = plain(self.checks), plain(self.strategy), plain(self.state)
        self.state.counter[:] = -1
        place = np.zeros(4, np.int64)
        for first, packed, ratio, more in store.chunks():
            queue = plain(ShotQueue(first, more, packed, ratio))
            place[CURSOR] = 0
            while not clock.stopped:
                run_lanes(checks, strategy, state, queue, plain(answers), place, self.sweeps)
                if self.statistics is not None and (failed := int(place[FAILED])):
                    shots, posteriors = answers.failed_shot[:failed], answers.failed_posterior[:failed]
                    self.statistics.decode(store, shots, posteriors, answers.failed_syndrome[:failed])
                    place[FAILED] = 0
                report(first + int(place[CURSOR] - place[LIVE]))
                if place[CURSOR] == len(packed) and (more or place[LIVE] == 0):
                    break
            if clock.stopped:
                store.decoded[first + int(place[CURSOR]) :] = False
                waiting = self.state.counter[0]
                store.decoded[waiting[waiting >= 0]] = False
                return


def tilts(num_bits: int) -> NDArray[np.float32]:
    """[V] factors near 1 of the first messages.

    Where errors are equally likely, messages of min-sum tie for ever: of 1000 words over a binary symmetric channel 998
    were lost so, and 92 are with this.
    """
    return np.random.default_rng(0).uniform(1.0 - _TILT, 1.0 + _TILT, num_bits).astype(np.float32)


def _aligned(count: int) -> NDArray[np.float32]:
    """Zeros [count] that begin with a line of cache."""
    room = np.zeros(count + _LINE // 4, np.float32)
    begin = -room.ctypes.data % _LINE // 4
    return room[begin : begin + count]
