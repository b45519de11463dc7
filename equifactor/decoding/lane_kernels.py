# mypy: ignore-errors
"""Decoding of many shots by belief propagation on the CPU: every number of a vector is a lane, which holds one shot.

The value of lane f is at `v LANES + f` for bit v and at `e LANES + f` for edge e. All lanes take the same steps, and no
arithmetic crosses lanes. So the answer to a shot does not depend on its neighbours. A lane whose shot has met its
syndrome, or has spent its iterations, takes the next shot from the queue.

In one sweep, the message of a bit to a check is the posterior of the bit without the last answer of that check. The
check answers, and the answers add up to the next posterior.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.base.typing import FloatArray, IntArray
from equifactor.decoding.check_rules import LANES, OPS, answer_min_sum, answer_sum_product
from equifactor.decoding.memory_kernels import chosen_memory
from equifactor.decoding.pool_kernels import gap_of, pool_solution
from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import fast_kernel, inlined

load, store, signs = OPS.load, OPS.store, OPS.signs
add, subtract, multiply, multiply_add = OPS.add, OPS.subtract, OPS.multiply, OPS.multiply_add
# Rows of LaneState.counter: the number of the shot, the number of its leg, the iterations of the leg, the iterations of
# the shot, the number of legs that met the syndrome, and the number of legs since the last that made the best lighter.
SHOT, LEG, ITERATION, TOTAL, SOLUTIONS, STALE = range(6)
NUM_COUNTERS = 6  # The number of rows of LaneState.counter, SHOT to STALE.
# Entries of `progress`: the next shot in the queue, the number of failed shots so far, the number of lanes that hold a
# shot, and the row of LaneState.posterior that holds the present posteriors.
CURSOR, FAILED, LIVE, SIDE = range(4)
NUM_PROGRESS = 4  # The number of entries of `progress`, CURSOR to SIDE.
_ONE = np.uint32(1)
_UNIT = 1.0 / 2**53  # The distance of neighbouring numbers that `_uniform` returns.


class Checks(NamedTuple):
    """The code: the bits of every check and of every observable."""

    check_ptr: IntArray  # [M+1]
    bit_of_edge: IntArray  # [E] check by check
    observable_ptr: IntArray  # [L+1]
    observable_bits: IntArray
    tilt: NDArray[np.float32]  # [V] factors near 1 of the first messages, which break ties
    degree: NDArray[np.float32]  # [V] number of checks of every bit
    memory: NDArray[np.float32]  # [V] memories of the first leg
    low: FloatArray  # [V] the interval from which memories of further legs are drawn, like `high`
    high: FloatArray  # [V]
    bit_ptr: IntArray  # [V+1]; for pools, like the next two fields
    check_of_bit: NDArray[np.int32]  # [E] bit by bit
    flips: NDArray[np.uint64]  # [V] the observables that every bit flips, or a key of them if there are more than 64


class Strategy(NamedTuple):
    """The settings of a method, as in `equifactor.decoding.methods`."""

    is_sum: bool
    is_serial: bool
    scale: float
    first_iterations: int
    leg_iterations: int
    legs: int
    solutions: int
    restart: bool
    trust_first: bool
    seed: int
    pools: bool
    patience: int
    least: int
    budget: int
    penalty: float


class LaneState(NamedTuple):
    """The state of all lanes."""

    ratio: NDArray[np.float32]  # [V LANES] channel log ratios
    channel: NDArray[np.float32]  # [V LANES] the same, with the penalties of this leg
    memory: NDArray[np.float32]  # [V LANES] share of the last posterior in the effective prior
    posterior: NDArray[np.float32]  # [2, V LANES] before and after a sweep
    message: NDArray[np.float32]  # [E LANES] from checks to bits
    syndrome: NDArray[np.uint32]  # [M] bit f belongs to lane f, here and in the next two fields
    decided: NDArray[np.uint32]  # [V] set for a negative posterior
    best: NDArray[np.uint32]  # [V] the lightest errors found so far that meet the syndrome
    best_weight: FloatArray  # [LANES]
    counter: IntArray  # [NUM_COUNTERS, LANES] SHOT to STALE; SHOT is -1 for an empty lane
    scale: NDArray[np.float32]  # [LANES] factor of the answers of checks
    keep: NDArray[np.float32]  # [LANES] 0 in the first sweep of a leg without old messages, otherwise 1
    work: NDArray[np.float32]  # [longest check LANES] the messages of one check
    scratch: NDArray[np.float32]  # [longest check 4 LANES]
    unmet: NDArray[np.float32]  # [V] share of the checks of a bit that are not met in one lane; for networks
    # [P, H+1, F+2] weights of the networks that choose memories; network n % P serves shot n. P is 0 without networks.
    weights: NDArray[np.float32]
    # Scratch of `pool_kernels`, and the clusters that it keeps for every lane.
    changed: NDArray[np.int32]  # [V]
    cluster: NDArray[np.int32]  # [V]
    change: FloatArray  # [V]
    flipped: NDArray[np.uint64]  # [V]
    parent: NDArray[np.int32]  # [M]
    kept_size: NDArray[np.int32]  # [LANES, KEPT] 0 for an empty place
    kept_key: NDArray[np.uint64]  # [LANES, KEPT]
    kept_bits: NDArray[np.int32]  # [LANES, KEPT, LONGEST]


class ShotQueue(NamedTuple):
    """The shots that wait for a lane."""

    first: int  # number of the first shot
    more: bool  # whether more shots will follow
    syndrome: NDArray[np.uint8]  # [C, ceil(M/8)] little bit order
    ratio: NDArray[np.float32]  # [C, V], or [1, V] if all shots share them


class ShotAnswers(NamedTuple):
    """The answers to all shots."""

    correction: NDArray[np.uint8]  # [N, ceil(V/8)], or [0, 0] if corrections are not wanted
    flips: NDArray[np.uint8]  # [N, L]
    converged: NDArray[np.bool_]  # [N]
    iterations: NDArray[np.int32]  # [N]
    weight: FloatArray  # [N]
    gap: FloatArray  # [N], or [0] without pools
    # [B] shots that have failed since the last call; B is at least LANES, or 0 if failed shots are not wanted
    failed_shot: IntArray
    failed_posterior: NDArray[np.float32]  # [B, V]
    failed_syndrome: NDArray[np.uint8]  # [B, M]


@fast_kernel
def run_lanes(checks, strategy, state, queue, answers, progress, sweeps):
    """Decode until no shot is left, the queue is empty and more shots will follow, or the list of failed shots is full.

    Args:
        checks: the code.
        strategy: the method.
        state: the lanes, which continue where the last call left them.
        queue: the shots that wait.
        answers: filled, shot by shot.
        progress: [NUM_PROGRESS] CURSOR, FAILED, LIVE and SIDE.
        sweeps: the largest number of sweeps; afterwards the caller looks at the clock.
    """
    checks, strategy, state = Checks(*checks), Strategy(*strategy), LaneState(*state)
    queue, answers = ShotQueue(*queue), ShotAnswers(*answers)
    counter = state.counter
    wants_failed = len(answers.failed_shot) > 0
    for lane in range(LANES):
        if counter[SHOT, lane] < 0:
            _begin_shot(checks, strategy, state, queue, answers, progress, lane)
    for _ in range(sweeps):
        live = _live(counter, progress)
        if live == 0 or (queue.more and progress[LIVE] < LANES):
            break
        if wants_failed and progress[FAILED] + LANES > len(answers.failed_shot):
            break
        for lane in range(LANES):
            counter[ITERATION, lane] += 1
            counter[TOTAL, lane] += 1
            state.scale[lane] = strategy.scale if strategy.scale > 0.0 else 1.0 - 0.5 ** counter[ITERATION, lane]
        _sweep(checks, strategy, state, progress)
        state.keep[:] = 1.0
        met = _met(checks, state, live)
        for lane in range(LANES):
            if (live >> np.uint32(lane)) & _ONE:
                has_met = ((met >> np.uint32(lane)) & _ONE) > 0
                limit = strategy.first_iterations if counter[LEG, lane] == 0 else strategy.leg_iterations
                over = has_met or counter[ITERATION, lane] >= limit or counter[TOTAL, lane] >= strategy.budget
                if over and not _next_leg(checks, strategy, state, progress, lane, has_met):
                    _give(checks, state, answers, progress, lane)
                    _begin_shot(checks, strategy, state, queue, answers, progress, lane)
    _live(counter, progress)


@inlined
def _live(counter, progress):
    """Return a word in which bit f is set if lane f holds a shot, and write their number to progress[LIVE]."""
    live = np.uint32(0)
    progress[LIVE] = 0
    for lane in range(LANES):
        if counter[SHOT, lane] >= 0:
            live = np.uint32(live | (_ONE << np.uint32(lane)))
            progress[LIVE] += 1
    return live


@fast_kernel
def _sweep(checks, strategy, state, progress):
    """Make one iteration of all lanes, and set `decided` by the signs of the posteriors."""
    side = progress[SIDE]
    before, after = state.posterior[side], state.posterior[1 - side]
    work, message = state.work, state.message
    keep, scale = load(state.keep, 0), load(state.scale, 0)
    check_ptr, bit_of_edge = checks.check_ptr, checks.bit_of_edge
    for c in range(len(check_ptr) - 1):
        begin = check_ptr[c]
        arity = check_ptr[c + 1] - begin
        for s in range(arity):
            v, e = get(bit_of_edge, begin + s) * LANES, (begin + s) * LANES
            store(work, s * LANES, subtract(load(before, v), multiply(load(message, e), keep)))
        if strategy.is_sum:
            answer_sum_product(work, state.scratch, arity, state.syndrome[c])
        else:
            answer_min_sum(work, arity, state.syndrome[c], scale)
        if strategy.is_serial:
            for s in range(arity):
                v, e = get(bit_of_edge, begin + s) * LANES, (begin + s) * LANES
                answer = load(work, s * LANES)
                change = subtract(answer, multiply(load(message, e), keep))
                store(message, e, answer)
                store(before, v, add(load(before, v), change))
        else:
            for s in range(arity):
                v, e = get(bit_of_edge, begin + s) * LANES, (begin + s) * LANES
                answer = load(work, s * LANES)
                store(message, e, answer)
                store(after, v, add(load(after, v), answer))
    channels, memory, decided = state.channel, state.memory, state.decided
    for v in range(len(decided)):
        n = v * LANES
        channel = load(channels, n)
        posterior = load(before, n) if strategy.is_serial else load(after, n)
        put(decided, v, signs(posterior))
        prior = multiply_add(load(memory, n), subtract(posterior, channel), channel)
        if strategy.is_serial:  # The effective prior changes, and the posterior with it.
            store(before, n, add(posterior, subtract(prior, load(after, n))))
            store(after, n, prior)
        else:
            store(before, n, prior)
    if not strategy.is_serial:
        progress[SIDE] = 1 - side


@inlined
def _met(checks, state, asked):
    """Return a word in which bit f is set if lane f is in `asked` and its decisions meet its syndrome.

    A call would pass all records by value, in every iteration: `relay` on bb72 then takes 1.5 times as long.
    """
    check_ptr, bit_of_edge, decided = checks.check_ptr, checks.bit_of_edge, state.decided
    met = asked
    for c in range(len(check_ptr) - 1):
        parity = state.syndrome[c]
        for e in range(check_ptr[c], check_ptr[c + 1]):
            parity ^= get(decided, get(bit_of_edge, e))
        met = np.uint32(met & ~parity)
        if met == 0:
            break
    return met


@fast_kernel
def _next_leg(checks, strategy, state, progress, lane, has_met):
    """Keep the errors that a leg has found if they are the best, and start another leg; False if the shot is done."""
    counter, ratio, memory = state.counter, state.ratio, state.memory
    bit = np.uint32(_ONE << np.uint32(lane))
    counter[STALE, lane] += counter[SOLUTIONS, lane] > 0 or has_met
    if has_met and strategy.pools and counter[SOLUTIONS, lane] > 0:
        if pool_solution(checks, state, lane):
            counter[STALE, lane] = 0
    elif has_met or counter[SOLUTIONS, lane] == 0:
        weight = 0.0
        for v in range(len(state.decided)):
            if get(state.decided, v) & bit:
                weight += get(ratio, v * LANES + lane)
        if weight < state.best_weight[lane] or not has_met or counter[SOLUTIONS, lane] == 0:
            state.best_weight[lane] = weight
            for v in range(len(state.decided)):
                put(state.best, v, (get(state.best, v) & ~bit) | (get(state.decided, v) & bit))
    counter[SOLUTIONS, lane] += has_met
    enough = 1 if strategy.trust_first and counter[LEG, lane] == 0 else strategy.solutions
    is_spent = counter[LEG, lane] >= strategy.legs or counter[TOTAL, lane] >= strategy.budget
    is_stale = counter[STALE, lane] > strategy.patience and counter[SOLUTIONS, lane] >= strategy.least
    if is_spent or counter[SOLUTIONS, lane] >= enough or is_stale:
        return False
    counter[LEG, lane] += 1
    # A penalty makes solutions rarer. Where they are rare already, every leg searches for the lightest errors.
    is_penalised = counter[LEG, lane] & 1 and 2 * counter[SOLUTIONS, lane] > counter[LEG, lane]
    counter[ITERATION, lane] = 0
    before, after = state.posterior[progress[SIDE]], state.posterior[1 - progress[SIDE]]
    is_learned = len(state.weights) > 0
    restart = strategy.restart or has_met  # Continuing from a solution would only find it again.
    weights = (
        state.weights[counter[SHOT, lane] % max(len(state.weights), 1)] if is_learned else state.unmet.reshape(1, -1)
    )
    if is_learned:
        _count_unmet(checks, state, bit)
    key = np.uint64(strategy.seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(counter[LEG, lane] << 32)
    for v in range(len(state.decided)):
        n = v * LANES + lane
        uniform = _uniform(key + np.uint64(v))
        channel, posterior, last = get(ratio, n), get(before, n), get(after, n)
        if strategy.pools:
            if is_penalised and get(state.best, v) & bit:
                channel *= np.float32(1.0 + strategy.penalty)
            put(state.channel, n, channel)
        if is_learned:
            seen = (channel, posterior, last, get(state.unmet, v))
            gamma = chosen_memory(weights, seen, np.float32(2.0 * uniform - 1.0), counter[LEG, lane])
        else:
            gamma = np.float32(get(checks.low, v) + (get(checks.high, v) - get(checks.low, v)) * uniform)
        put(memory, n, gamma)
        prior = channel + gamma * (posterior - channel)
        put(after, n, prior)
        if strategy.is_serial:  # In this schedule the posterior includes the effective prior.
            put(before, n, prior if restart else posterior + (prior - last))
        elif restart:
            put(before, n, channel * get(checks.tilt, v))
    if restart:
        state.keep[lane] = 0.0
    return True


@fast_kernel
def _count_unmet(checks, state, bit):
    """Compute for every bit the share of its checks that one lane does not meet."""
    check_ptr, bit_of_edge, unmet = checks.check_ptr, checks.bit_of_edge, state.unmet
    unmet[:] = 0.0
    for c in range(len(check_ptr) - 1):
        parity = state.syndrome[c]
        for e in range(check_ptr[c], check_ptr[c + 1]):
            parity ^= get(state.decided, get(bit_of_edge, e))
        if parity & bit:
            for e in range(check_ptr[c], check_ptr[c + 1]):
                v = get(bit_of_edge, e)
                put(unmet, v, get(unmet, v) + np.float32(1.0) / get(checks.degree, v))


@inlined
def _uniform(key):
    """Return a number from [0, 1) that is a function of the key, by the finaliser of SplitMix64."""
    z = key * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(np.int64(z >> np.uint64(11))) * _UNIT


@fast_kernel
def _begin_shot(checks, strategy, state, queue, answers, progress, lane):
    """Put the next shot of the queue into a lane, if one is left. Answer shots that the channel alone explains."""
    counter = state.counter
    bit = np.uint32(_ONE << np.uint32(lane))
    num_bits = len(state.decided)
    counter[SHOT, lane] = -1
    while progress[CURSOR] < len(queue.syndrome):
        own = progress[CURSOR]
        progress[CURSOR] += 1
        ratio = queue.ratio[own if len(queue.ratio) > 1 else 0]
        for v in range(num_bits):
            negative = bit if get(ratio, v) < 0.0 else np.uint32(0)
            put(state.decided, v, (get(state.decided, v) & ~bit) | negative)
        for c in range(len(state.syndrome)):
            fired = bit if (queue.syndrome[own, c >> 3] >> (c & 7)) & 1 else np.uint32(0)
            state.syndrome[c] = (state.syndrome[c] & ~bit) | fired
        for k in range(len(counter)):
            counter[k, lane] = 0
        counter[SHOT, lane] = queue.first + own
        state.kept_size[lane, :] = 0
        before, after = state.posterior[progress[SIDE]], state.posterior[1 - progress[SIDE]]
        for v in range(num_bits):
            n = v * LANES + lane
            put(state.ratio, n, get(ratio, v))
            put(state.channel, n, get(ratio, v))
            put(before, n, get(ratio, v) * get(checks.tilt, v))
            put(after, n, get(ratio, v))
            put(state.memory, n, get(checks.memory, v))
        if _met(checks, state, bit) == 0:
            state.keep[lane] = 0.0
            return
        for v in range(num_bits):
            put(state.best, v, (get(state.best, v) & ~bit) | (get(state.decided, v) & bit))
        counter[SOLUTIONS, lane] = 1
        weight = 0.0
        for v in range(num_bits):
            weight += min(get(ratio, v), 0.0)
        state.best_weight[lane] = weight
        _give(checks, state, answers, progress, lane)
        counter[SHOT, lane] = -1


@fast_kernel
def _give(checks, state, answers, progress, lane):
    """Write the answer to the shot of a lane."""
    counter = state.counter
    shot = counter[SHOT, lane]
    place_of_bit = np.uint32(lane)
    for n in range(len(checks.observable_ptr) - 1):
        parity = np.uint32(0)
        for k in range(checks.observable_ptr[n], checks.observable_ptr[n + 1]):
            parity ^= state.best[checks.observable_bits[k]]
        answers.flips[shot, n] = (parity >> place_of_bit) & _ONE
    if len(answers.correction):
        for v in range(len(state.best)):
            answers.correction[shot, v >> 3] |= np.uint8(((state.best[v] >> place_of_bit) & _ONE) << np.uint32(v & 7))
    answers.converged[shot] = counter[SOLUTIONS, lane] > 0
    answers.iterations[shot] = counter[TOTAL, lane]
    answers.weight[shot] = state.best_weight[lane]
    if len(answers.gap):
        answers.gap[shot] = gap_of(state, lane, counter[SOLUTIONS, lane], counter[LEG, lane])
    if counter[SOLUTIONS, lane] == 0 and len(answers.failed_shot):
        posterior = state.posterior[progress[SIDE]]
        answers.failed_shot[progress[FAILED]] = shot
        for v in range(len(state.best)):
            answers.failed_posterior[progress[FAILED], v] = posterior[v * LANES + lane]
        for c in range(len(state.syndrome)):
            answers.failed_syndrome[progress[FAILED], c] = (state.syndrome[c] >> place_of_bit) & _ONE
        progress[FAILED] += 1
