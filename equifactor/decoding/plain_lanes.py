"""Decoding in plain NumPy, for a first call on a machine where the kernels of `lane_engine` are not compiled yet.

The rules are those of `lane_kernels`, for min-sum in the parallel schedule: a column of an array is a lane, which holds
one shot. Every number is rounded as the kernels round it on a processor that multiplies and adds in one step. So the
answers are the same, and kernels can take over in the middle of a call.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.clock import NotCompiledError
from equifactor.decoding.lane_crew import FEWEST_SHOTS, LaneCrew
from equifactor.decoding.lane_engine import LaneEngine, memory_ranges, tilts
from equifactor.decoding.methods import DecodingMethod, PooledDecoding
from equifactor.decoding.plain_pools import SolutionPools
from equifactor.decoding.shot_store import no_time_to_finish
from equifactor.kernels import readiness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore

    Numbers = NDArray[np.float32]

_LARGEST = np.float32(1e20)  # The largest message, as in `check_rules`, which cannot be imported without Numba.
_SIGN = np.int32(-(2**31))  # The bit of the sign of a number in single precision.
_ALIKE = 0.7  # Checks with at least this share of the slots of a larger check are grouped with it. Chosen by hand.
# After this share of the time until kernels are ready, they take over if all shots would take this many times as long.
# Chosen by hand.
_TRIAL, _HOPELESS = 0.1, 4.0
_MESSAGES = 2**20  # The number of messages that are held side by side, 4 MB. Chosen by hand.
_FEWEST, _MOST = 16, 1024  # The number of lanes. Chosen by hand.
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, as in SplitMix64.
_WORD = 2**64 - 1


def applies_to(method: DecodingMethod) -> bool:
    """Return whether these are settings that plain NumPy follows."""
    is_random = type(method).weights_of_networks is DecodingMethod.weights_of_networks
    return method.rule == "min-sum" and method.schedule == "parallel" and method.osd == "none" and is_random


class PlainLanes:
    """An engine that decodes in NumPy until kernels would have been ready, and by `LaneEngine` from then on."""

    def __init__(self, problem: DecodingProblem, method: DecodingMethod) -> None:
        self.problem, self.method = problem, method
        self.code = SlotOrder(problem)
        self.kernels: LaneEngine | None = None
        self.threads = 1  # of the next call, after kernels have taken over

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled loops if this run uses them."""
        if self.kernels is not None:
            self.kernels.prepare(store)
        elif readiness.plain_seconds_left("decoding") <= 0.0:
            with contextlib.suppress(NotCompiledError):  # then plain NumPy goes on
                self._load(store)

    def _load(self, store: ShotStore) -> None:
        kernels = LaneEngine(self.problem, self.method)
        kernels.prepare(store)
        self.kernels = kernels

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store, by the rules of `DecodingEngine`."""
        done = 0 if self.kernels is not None else self._decode_plainly(store, clock, report)
        if self.kernels is not None and done < store.count:
            rest = store.part(done, store.count)
            rest.correction[:] = 0
            crew = min(self.threads, rest.count // FEWEST_SHOTS)
            engine = LaneCrew(self.kernels, crew) if crew > 1 else self.kernels
            engine.decode(rest, clock, lambda count: report(done + count))

    def _decode_plainly(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> int:
        """Return the number of the first shot that is left for kernels, which are loaded then."""
        left, start = readiness.plain_seconds_left("decoding"), time.process_time()  # other work may slow both down
        lanes = ShotLanes(self.code, self.method, store)
        for finished in lanes.run(clock):
            report(finished)
            spent = time.process_time() - start
            hopeless = spent > _TRIAL * left and spent * store.count > _HOPELESS * left * finished
            if (hopeless or spent > left) and not clock.stopped:
                try:
                    self._load(store)
                except NotCompiledError:
                    left = np.inf
                else:
                    return int(np.argmin(lanes.finished))
        readiness.spend("decoding", time.process_time() - start)
        return store.count


class SlotOrder:
    """The edges of a code, ordered so that the same slots of checks of similar sizes are neighbours.

    Smaller checks of a group get more slots, which lead to a certain bit behind the others. Bits are numbered by
    falling degree, so that the bits with a check number j are the first ones.
    """

    def __init__(self, problem: DecodingProblem) -> None:
        self.problem = problem
        degree = np.bincount(problem.bit_of_edge, minlength=problem.num_bits)
        self.bits = np.argsort(-degree, kind="stable")
        self.place = np.argsort(self.bits)  # [V] the new number of every bit
        size = np.diff(problem.check_ptr)
        self.checks = np.argsort(-size, kind="stable")
        size = size[self.checks]
        self.groups: list[tuple[int, int]] = []  # the number of slots of some checks, and of these checks
        edges, begin = [np.zeros(0, np.int64)], 0
        while begin < len(size):
            slots, count = int(size[begin]), int((size[begin:] >= _ALIKE * size[begin]).sum())
            group, slot = slice(begin, begin + count), np.arange(slots)[:, None]
            edges.append(np.where(slot < size[group], problem.check_ptr[self.checks[group]] + slot, -1).ravel())
            self.groups.append((slots, count))
            begin += count
        edge = np.concatenate(edges)  # of the model, -1 for the slots added
        self.added = np.flatnonzero(edge < 0)
        self.bit_of_edge = np.full(len(edge), problem.num_bits)
        self.bit_of_edge[edge >= 0] = self.place[problem.bit_of_edge[edge[edge >= 0]]]
        # The kernels add the answers of checks to a bit in the order of the checks: edge number j of every bit in turn.
        new_edge = np.flatnonzero(edge >= 0)[np.argsort(edge[edge >= 0])]
        by_bit = new_edge[np.argsort(problem.bit_of_edge, kind="stable")]
        first = (np.cumsum(degree) - degree)[self.bits]
        self.rounds = [by_bit[first[: int((degree > j).sum())] + j] for j in range(int(degree.max(initial=0)))]
        self.tilt = np.append(tilts(problem.num_bits)[self.bits], np.float32(1.0))[:, None]

    def parities(self, decided: BoolArray) -> BoolArray:
        """Return [M, n] whether an odd number of the bits of each check is set, with checks in the order `checks`."""
        found, begin = [], 0
        for size, count in self.groups:
            edges = self.bit_of_edge[begin : begin + size * count]
            found.append(np.logical_xor.reduce(decided[edges].reshape(size, count, -1), axis=0))
            begin += size * count
        return np.concatenate(found) if found else np.zeros((0, decided.shape[1]), bool)


class ShotLanes:
    """The lanes of one call: columns of arrays. The fields are those of `lane_kernels.LaneState`, column by column."""

    def __init__(self, code: SlotOrder, method: DecodingMethod, store: ShotStore) -> None:
        self.code, self.method, self.store = code, method, store
        self.width = int(np.clip(_MESSAGES // max(1, len(code.bit_of_edge)), _FEWEST, _MOST))
        self.finished = np.zeros(store.count, bool)
        bits, edges, checks = code.problem.num_bits + 1, len(code.bit_of_edge), code.problem.num_checks
        none = np.zeros(0, np.int64)
        self.shot, self.leg, self.iteration, self.total, self.solutions = none, none, none, none, none
        self.best_weight = np.zeros(0)
        numbers = (np.zeros((bits, 0), np.float32) for _ in range(5))
        self.ratio, self.channel, self.memory, self.before, self.prior = numbers
        self.message = np.zeros((edges, 0), np.float32)
        self.syndrome = np.zeros((checks, 0), bool)
        self.best = np.zeros((bits, 0), bool)
        self.stale = none
        self.pools = SolutionPools(code.problem) if isinstance(method, PooledDecoding) else None
        # The last row is that of the slots that are added.
        self.ranges: list[np.ndarray] = [
            np.append(one[code.bits], one.dtype.type(0.0))[:, None] for one in memory_ranges(code.problem, method)
        ]
        self.penalty = method.penalty if isinstance(method, PooledDecoding) else 0.0
        self.patience, self.least, self.budget = method.limits_of_shots()

    def run(self, clock: Clock) -> Iterator[int]:
        """Decode all shots, and yield the number of finished shots after every sweep."""
        for first, packed, ratio, _ in self.store.chunks():
            bits = np.unpackbits(packed, axis=1, bitorder="little", count=self.code.problem.num_checks)
            syndromes = bits.T[self.code.checks].astype(bool)
            begun, over = 0, False
            while begun < syndromes.shape[1] or len(self.shot):
                if not over and clock.stopped:  # The shots that have begun are finished.
                    over, syndromes = True, syndromes[:, :begun]
                    self.store.decoded[first + begun :] = False
                if over and no_time_to_finish(clock):
                    self.store.abandon(self.shot)
                    return
                if begun < syndromes.shape[1] and len(self.shot) <= self.width // 2:
                    end = min(syndromes.shape[1], begun + self.width - len(self.shot))
                    own = ratio[begun:end] if len(ratio) > 1 else np.repeat(ratio, end - begun, axis=0)
                    self._begin(np.arange(first + begun, first + end), syndromes[:, begun:end], own)
                    begun = end
                if len(self.shot):
                    self._sweep()
                    self._end_legs()
                yield int(self.finished.sum())
            if over:
                return

    def _begin(self, shots: IntArray, syndrome: BoolArray, own: Numbers) -> None:
        """Put shots into new lanes. Answer shots that the channel alone explains."""
        ratio = np.concatenate((own.T[self.code.bits], np.full((1, len(own)), _LARGEST)))
        decided = ratio < 0.0
        count = len(shots)
        weight = self._added(np.minimum(ratio, np.float32(0.0)))
        zero = np.zeros(count, np.int64)
        trivial = (self.code.parities(decided) == syndrome).all(axis=0)
        self._answer(shots[trivial], decided[:, trivial], weight[trivial], zero[trivial], trivial[trivial])
        new: dict[str, np.ndarray] = {
            "shot": shots, "leg": zero, "iteration": zero, "total": zero, "solutions": zero, "stale": zero,
            "best_weight": weight, "ratio": ratio, "channel": ratio, "before": ratio * self.code.tilt, "prior": ratio,
            "best": decided, "syndrome": syndrome,
            "memory": np.repeat(self.ranges[0], count, axis=1),
            "message": np.zeros((len(self.code.bit_of_edge), count), np.float32),
        }  # fmt: skip
        for name, columns in new.items():
            setattr(self, name, np.concatenate((getattr(self, name), columns[..., ~trivial]), axis=-1))

    def _sweep(self) -> None:
        """Make one iteration of all lanes; `before` becomes the posterior, and `prior` the next effective prior."""
        self.iteration += 1
        self.total += 1
        scale = np.float32(self.method.scale) if self.method.scale > 0.0 else _growing(self.iteration)
        self.message = answers = self.before[self.code.bit_of_edge] - self.message
        edge = check = 0
        for size, count in self.code.groups:
            own = answers[edge : edge + size * count].reshape(size, count, -1)
            _answer_min_sum(own, self.syndrome[check : check + count], scale)
            edge, check = edge + size * count, check + count
        answers[self.code.added] = 0.0
        posterior = self.prior
        for edges in self.code.rounds:
            posterior[: len(edges)] += answers[edges]
        self.before = posterior
        self.prior = _mixed(self.memory, posterior, self.channel)

    def _end_legs(self) -> None:
        """Keep the best errors of the lanes whose leg is over; answer their shots, or begin another leg."""
        m = self.method
        decided = np.signbit(self.before)
        met = (self.code.parities(decided) == self.syndrome).all(axis=0)
        limit = np.where(self.leg == 0, m.iterations, m.leg_iterations)
        over = np.flatnonzero(met | (self.iteration >= limit) | (self.total >= self.budget))
        if not len(over):
            return
        met, decided = met[over], decided[:, over]
        weight = self._added(np.where(decided, self.ratio[:, over], np.float32(0.0)))
        first = self.solutions[over] == 0
        better = first | (met & (weight < self.best_weight[over]) & (self.pools is None))
        self.stale[over] += ~first | met
        for n in np.flatnonzero(met & ~first) if self.pools is not None else ():
            self._pool(over[n], decided[:, n])
        self.best_weight[over[better]] = weight[better]
        self.best[:, over[better]] = decided[:, better]
        self.solutions[over] += met
        enough = np.where(m.trust_first & (self.leg[over] == 0), 1, m.solutions)
        done = (self.solutions[over] >= enough) | (self.leg[over] >= m.legs)
        stale = (self.stale[over] > self.patience) & (self.solutions[over] >= self.least)
        done |= (self.total[over] >= self.budget) | stale
        self._next_leg(over[~done], met[~done])
        over = over[done]
        if len(over):
            for n in over if self.pools is not None else ():
                best, ratio = self.best[self.code.place, n], self.ratio[self.code.place, n]
                shot, legs = int(self.shot[n]), (int(self.solutions[n]), int(self.leg[n]))
                self.store.gap[shot] = self.pools.gap(shot, best, ratio, *legs)  # type: ignore[union-attr]
            self._answer(
                self.shot[over], self.best[:, over], self.best_weight[over], self.total[over], self.solutions[over] > 0
            )
            for name in _COLUMNS:
                setattr(self, name, np.delete(getattr(self, name), over, axis=-1))

    def _pool(self, lane: int, decided: BoolArray) -> None:
        """Put a solution and the best errors of a lane together."""
        assert self.pools is not None
        place = self.code.place
        best = self.best[place, lane]
        improved, changes = self.pools.pool(int(self.shot[lane]), best, decided[place], self.ratio[place, lane])
        self.best[place, lane] = best
        for change in changes:
            self.best_weight[lane] += change
        if improved:
            self.stale[lane] = 0

    def _next_leg(self, lanes: IntArray, met: BoolArray) -> None:
        """Draw new memories for some lanes."""
        m = self.method
        self.leg[lanes] += 1
        self.iteration[lanes] = 0
        key = np.uint64(m.seed * _GOLDEN & _WORD) + (self.leg[lanes].astype(np.uint64) << np.uint64(32))
        uniform = _uniform(key + np.append(self.code.bits, 0).astype(np.uint64)[:, None])
        gamma = (self.ranges[1] + (self.ranges[2] - self.ranges[1]) * uniform).astype(np.float32)
        self.memory[:, lanes] = gamma
        if self.penalty:
            found = self.best[:, lanes] & (2 * self.solutions[lanes] > self.leg[lanes]) & (self.leg[lanes] % 2 == 1)
            more = self.ratio[:, lanes] * np.float32(1.0 + self.penalty)
            self.channel[:, lanes] = np.where(found, more, self.ratio[:, lanes])
        self.prior[:, lanes] = _mixed(gamma, self.before[:, lanes], self.channel[:, lanes])
        restart = lanes if m.restart else lanes[met]  # Continuing from a solution would only find it again.
        self.before[:, restart] = self.channel[:, restart] * self.code.tilt
        self.message[:, restart] = 0.0

    def _added(self, rows: Numbers) -> FloatArray:
        """Return the sums over bits in the order of the model, so that errors of equal weight have equal sums."""
        if not len(self.code.place):
            return np.zeros(rows.shape[1])
        return np.add.accumulate(rows[self.code.place], axis=0, dtype=np.float64)[-1]

    def _answer(
        self, shots: IntArray, best: BoolArray, weight: FloatArray, iterations: IntArray, converged: BoolArray
    ) -> None:
        """Write the answers to some shots."""
        store, problem = self.store, self.code.problem
        chosen = np.zeros((problem.num_bits, len(shots)), np.uint8)
        chosen[self.code.bits] = best[:-1]
        for n, (begin, end) in enumerate(zip(problem.observable_ptr[:-1], problem.observable_ptr[1:], strict=True)):
            store.flips[shots, n] = chosen[problem.observable_bits[begin:end]].sum(axis=0) % 2
        if len(store.correction):
            store.correction[shots] = np.packbits(chosen.T, axis=1, bitorder="little")
        store.converged[shots], store.iterations[shots], store.weight[shots] = converged, iterations, weight
        self.finished[shots] = True


# The arrays of `ShotLanes` with one column per lane.
_COLUMNS = (
    "shot", "leg", "iteration", "total", "solutions", "best_weight", "ratio", "channel", "memory", "before", "prior",
    "message", "syndrome", "best", "stale",
)  # fmt: skip


def _answer_min_sum(own: Numbers, syndrome: BoolArray, scale: Numbers | np.float32) -> None:
    """Replace the messages [size, checks, n] of the bits of checks by the answers of the checks."""
    sizes = np.abs(own)
    least = second = np.full(own.shape[1:], _LARGEST)
    for one in sizes:
        second = np.minimum(second, np.maximum(least, one))
        least = np.minimum(least, one)
    words = own.view(np.int32)
    sign = np.bitwise_xor.reduce(words, axis=0) ^ np.where(syndrome, _SIGN, np.int32(0))
    words ^= sign
    words &= _SIGN
    words |= np.where(sizes == least, second * scale, least * scale).view(np.int32)


def _mixed(memory: Numbers, posterior: Numbers, channel: Numbers) -> Numbers:
    """Return channel + memory (posterior - channel), rounded once: the product is exact in double precision."""
    return (memory.astype(np.float64) * (posterior - channel) + channel).astype(np.float32)


def _growing(iteration: IntArray) -> Numbers:
    """Return the factor 1 - 2^-i of the answers in iteration i."""
    return (1.0 - 0.5**iteration).astype(np.float32)


def _uniform(key: NDArray[np.uint64]) -> FloatArray:
    """Return numbers from [0, 1) that are functions of the keys, by the finaliser of SplitMix64."""
    golden, first, second = (np.uint64(n) for n in (_GOLDEN, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
    z = key * golden + golden
    z = (z ^ (z >> np.uint64(30))) * first
    z = (z ^ (z >> np.uint64(27))) * second
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53
