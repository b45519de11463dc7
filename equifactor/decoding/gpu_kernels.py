# mypy: ignore-errors
"""Kernels for decoding on a GPU, in Triton. Lanes lie side by side, so that a row of lanes is one memory access.

With B lanes, the value of lane f is at `v B + f` for bit v and at `e B + f` for edge e. An iteration is a fixed
sequence of launches, which is captured once as a CUDA graph:

answer_checks, add_up_bits, compare_syndromes  run belief propagation in all lanes
count_iteration                                finds the lanes whose leg is over
weigh, judge                                   weigh the errors that these lanes have found, and choose their next step
apply                                          keeps the lightest errors, and starts the next legs

The host only takes finished shots out and puts new ones in.
"""

import triton
import triton.language as tl

# Values of `event`, which `count_iteration` sets: the leg goes on, is over, or is over with its syndrome met.
GOES_ON, OVER, MET = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
# Bits of `action`, which `judge` sets: keep the errors, begin another leg, and begin it without the old messages.
BETTER, AGAIN, AFRESH = tl.constexpr(1), tl.constexpr(2), tl.constexpr(4)
# Weights are summed as whole numbers with this many units per nat, so that the order of a sum does not matter.
FIXED = 2**20


@triton.jit
def _received(before, message, bit_of_edge, e, lanes, wide, kept):
    """Return the message of a bit to a check: its posterior without the last answer of that check."""
    v = tl.load(bit_of_edge + e)
    return tl.load(before + v * wide + lanes) - kept * tl.load(message + e * wide + lanes)


@triton.jit
def _phi(x):
    """Return -ln tanh(x/2) for x > 0; this function is its own inverse."""
    return tl.log(1.0 + 2.0 / (tl.exp(x) - 1.0))


@triton.jit
def answer_checks(
    before, message, keep, syndrome, iteration, check_ptr, bit_of_edge, scale, width,
    IS_SUM: tl.constexpr, LARGEST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the answers of one check to its bits, by min-sum or by the exact rule."""
    c = tl.program_id(0)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = tl.load(check_ptr + c), tl.load(check_ptr + c + 1)
    wide = tl.cast(width, tl.int64)  # Places exceed 2^31 in large codes.
    kept = tl.load(keep + lanes)
    negative = tl.load(syndrome + c.to(tl.int64) * width + lanes) != 0
    if IS_SUM:
        # Double precision: in single precision the least certain bit would absorb the others in the sum.
        total = tl.zeros([BLOCK], tl.float64)
        for e in range(begin, end):
            ratio = _received(before, message, bit_of_edge, e, lanes, wide, kept)
            negative = negative ^ (ratio < 0)
            total += _phi(tl.minimum(tl.maximum(tl.abs(ratio), 1e-12), 40.0).to(tl.float64))
        for e in range(begin, end):
            ratio = _received(before, message, bit_of_edge, e, lanes, wide, kept)
            rest = total - _phi(tl.minimum(tl.maximum(tl.abs(ratio), 1e-12), 40.0).to(tl.float64))
            answer = tl.minimum(_phi(tl.maximum(rest, 1e-17)), 40.0).to(tl.float32)
            tl.store(message + e * wide + lanes, tl.where(negative ^ (ratio < 0), -answer, answer))
    else:
        least = tl.full([BLOCK], LARGEST, tl.float32)
        second = tl.full([BLOCK], LARGEST, tl.float32)
        for e in range(begin, end):
            ratio = _received(before, message, bit_of_edge, e, lanes, wide, kept)
            own = tl.abs(ratio)
            negative = negative ^ (ratio < 0)
            second = tl.minimum(second, tl.maximum(least, own))
            least = tl.minimum(least, own)
        growing = 1.0 - tl.exp2(-(tl.load(iteration + lanes) + 1).to(tl.float32))
        factor = tl.where(scale > 0.0, scale, growing)
        for e in range(begin, end):
            ratio = _received(before, message, bit_of_edge, e, lanes, wide, kept)
            answer = tl.where(tl.abs(ratio) == least, second, least) * factor
            tl.store(message + e * wide + lanes, tl.where(negative ^ (ratio < 0), -answer, answer))


@triton.jit
def add_up_bits(
    before, prior, message, decided, ratio, gamma, leg, finished, bit_ptr, edge_of_bit, legs, width,
    SHARED: tl.constexpr, OWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the posterior of one bit, its decision, and its next effective prior."""
    v = tl.program_id(0)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = v.to(tl.int64) * width + lanes
    total = tl.load(prior + place)
    for k in range(tl.load(bit_ptr + v), tl.load(bit_ptr + v + 1)):
        e = tl.load(edge_of_bit + k).to(tl.int64)
        total += tl.load(message + e * width + lanes)
    channel = tl.load(ratio + v) if SHARED else tl.load(ratio + place)
    share = tl.load(gamma + place) if OWN else tl.load(gamma + v * legs + tl.load(leg + lanes))
    going_on = tl.load(finished + lanes) == 0
    tl.store(before + place, total, mask=going_on)
    tl.store(prior + place, channel + share * (total - channel))
    tl.store(decided + place, (total < 0).to(tl.int8), mask=going_on)


@triton.jit
def compare_syndromes(decided, syndrome, odd_checks, unmet, check_ptr, bit_of_edge, width, BLOCK: tl.constexpr):
    """Mark the checks that are not met, and the lanes that have such a check."""
    c = tl.program_id(0)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    odd = tl.load(syndrome + c.to(tl.int64) * width + lanes)
    for e in range(tl.load(check_ptr + c), tl.load(check_ptr + c + 1)):
        v = tl.load(bit_of_edge + e).to(tl.int64)
        odd = odd ^ tl.load(decided + v * width + lanes)
    tl.store(odd_checks + c.to(tl.int64) * width + lanes, odd)
    tl.store(unmet + lanes, tl.full([BLOCK], 1, tl.int32), mask=odd != 0)


@triton.jit
def count_iteration(
    unmet, finished, keep, iteration, total, leg, event, weight, first_iterations, leg_iterations, BLOCK: tl.constexpr
):
    """Count the iteration, and find the lanes that have met their syndrome or spent the iterations of their leg."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = tl.load(finished + lanes) == 0
    done = tl.load(iteration + lanes) + 1
    met = tl.load(unmet + lanes) == 0
    limit = tl.where(tl.load(leg + lanes) == 0, first_iterations, leg_iterations)
    over = live & (met | (done >= limit))
    tl.store(event + lanes, tl.where(over, tl.where(met, MET, OVER), GOES_ON))
    tl.store(iteration + lanes, done)
    tl.store(total + lanes, tl.load(total + lanes) + live.to(tl.int32))
    tl.store(weight + lanes, tl.zeros([BLOCK], tl.int64))
    tl.store(unmet + lanes, tl.zeros([BLOCK], tl.int32))
    tl.store(keep + lanes, tl.full([BLOCK], 1.0, tl.float32))


@triton.jit
def weigh(
    event, decided, ratio, weight, num_bits, width, UNIT: tl.constexpr, SHARED: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum the weights of the errors decided for some bits, in lanes whose leg is over."""
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    asked = tl.load(event + lanes) != GOES_ON
    if tl.max(asked.to(tl.int32), 0) > 0:
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        inside = rows < num_bits
        place = rows.to(tl.int64)[:, None] * width + lanes[None, :]
        wanted = inside[:, None] & asked[None, :]
        chosen = tl.load(decided + place, mask=wanted, other=0) != 0
        if SHARED:
            own = tl.load(ratio + rows, mask=inside, other=0.0)[:, None] + tl.zeros([ROWS, BLOCK], tl.float32)
        else:
            own = tl.load(ratio + place, mask=wanted, other=0.0)
        fixed = (own.to(tl.float64) * UNIT).to(tl.int64)
        tl.atomic_add(weight + lanes, tl.sum(tl.where(chosen, fixed, 0), 0), mask=asked)


@triton.jit
def judge(
    event, weight, best_weight, found, leg, iteration, keep, finished, action, legs, solutions,
    RESTART: tl.constexpr, TRUST_FIRST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Decide whether the errors of a leg are kept, and whether the shot begins another leg or is finished."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ending = tl.load(event + lanes)
    over, met = ending != GOES_ON, ending == MET
    before, own = tl.load(found + lanes), tl.load(leg + lanes)
    weighed = tl.load(weight + lanes)
    better = over & ((before == 0) | (met & (weighed < tl.load(best_weight + lanes))))
    now = before + met.to(tl.int32)
    done = over & ((now >= solutions) | (own >= legs))
    if TRUST_FIRST:
        done = done | (met & (own == 0))
    again = over & (done == 0)
    tl.store(best_weight + lanes, weighed, mask=better)
    tl.store(found + lanes, now)
    tl.store(finished + lanes, tl.full([BLOCK], 1, tl.int32), mask=done)
    tl.store(leg + lanes, own + 1, mask=again)
    tl.store(iteration + lanes, tl.zeros([BLOCK], tl.int32), mask=again)
    afresh = again if RESTART else again & met  # Continuing from a solution would only find it again.
    tl.store(keep + lanes, tl.zeros([BLOCK], tl.float32), mask=afresh)
    tl.store(action + lanes, BETTER * better.to(tl.int32) + AGAIN * again.to(tl.int32) + AFRESH * afresh.to(tl.int32))


@triton.jit
def _line(weights, at, a, b, c, d, e, f, g):
    """Return w . x + b for the row of weights at a place."""
    return (
        tl.load(weights + at) * a + tl.load(weights + at + 1) * b + tl.load(weights + at + 2) * c
        + tl.load(weights + at + 3) * d + tl.load(weights + at + 4) * e + tl.load(weights + at + 5) * f
        + tl.load(weights + at + 6) * g + tl.load(weights + at + 7)
    )  # fmt: skip


@triton.jit
def _chosen_memory(
    weights, hidden, channel, posterior, prior, unmet, draw, leg,
    SOFT: tl.constexpr, SLOPE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Evaluate the network of `learned_memory` for the bits of a tile."""
    side = tl.where(channel < 0, -1.0, 1.0)
    a = tl.abs(channel) / (SOFT + tl.abs(channel))
    b = side * posterior / (SOFT + tl.abs(posterior))
    c = side * prior / (SOFT + tl.abs(prior))
    g = 1.0 / leg
    e = draw * g
    gamma = _line(weights, hidden * WIDE, a, b, c, unmet, e, draw, g)
    for h in range(hidden):
        unit = _line(weights, h * WIDE, a, b, c, unmet, e, draw, g)
        gamma += tl.load(weights + h * WIDE + WIDE - 1) * tl.where(unit > 0, unit, SLOPE * unit)
    return tl.minimum(tl.maximum(gamma, LOW), HIGH)


@triton.jit
def apply(
    action, decided, best, before, prior, ratio, tilt, gamma, draw, leg, shot, odd_checks, bit_ptr, check_of_bit,
    weights, networks, num_bits, legs, width, hidden, most,
    SHARED: tl.constexpr, OWN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    SOFT: tl.constexpr, SLOPE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Keep the errors of some bits if they are the best so far, and begin another leg with its own memories."""
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    asked = tl.load(action + lanes)
    if tl.max(asked, 0) > 0:
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        real = rows < num_bits
        inside = real[:, None]
        place = rows.to(tl.int64)[:, None] * width + lanes[None, :]
        better, again = inside & ((asked & BETTER) > 0)[None, :], inside & ((asked & AGAIN) > 0)[None, :]
        tl.store(best + place, tl.load(decided + place, mask=better, other=0), mask=better)
        if SHARED:
            own = tl.load(ratio + rows, mask=real, other=0.0)[:, None]
            channel = own + tl.zeros([ROWS, BLOCK], tl.float32)
        else:
            channel = tl.load(ratio + place, mask=again, other=0.0)
        number = tl.load(leg + lanes)[None, :]
        posterior = tl.load(before + place, mask=again, other=0.0)
        if OWN:
            begin, end = tl.load(bit_ptr + rows, mask=real, other=0), tl.load(bit_ptr + rows + 1, mask=real, other=1)
            odd = tl.zeros([ROWS, BLOCK], tl.float32)
            for k in range(most):
                there = real & (begin + k < end)
                c = tl.load(check_of_bit + begin + k, mask=there, other=0).to(tl.int64)
                odd += tl.load(odd_checks + c[:, None] * width + lanes[None, :], mask=again & there[:, None], other=0)
            degree = (end - begin).to(tl.float32)[:, None]
            own_network = (tl.maximum(tl.load(shot + lanes), 0) % networks).to(tl.int32) * ((hidden + 1) * WIDE)
            last = tl.load(prior + place, mask=again, other=0.0)
            share = _chosen_memory(
                weights + own_network[None, :], hidden, channel, posterior, last, odd / degree,
                tl.load(draw + rows[:, None] * legs + number, mask=again, other=0.0),
                tl.maximum(number, 1).to(tl.float32), SOFT, SLOPE, LOW, HIGH, WIDE,
            )  # fmt: skip
            tl.store(gamma + place, share, mask=again)
        else:
            share = tl.load(gamma + rows[:, None] * legs + number, mask=again, other=0.0)
        tl.store(prior + place, channel + share * (posterior - channel), mask=again)
        afresh = inside & ((asked & AFRESH) > 0)[None, :]
        factor = tl.load(tilt + rows, mask=real, other=1.0)[:, None]
        tl.store(before + place, channel * factor, mask=afresh)
