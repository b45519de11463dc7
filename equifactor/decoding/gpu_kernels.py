# mypy: ignore-errors
"""Kernels for decoding on a GPU, in Triton. Lanes lie side by side, so that a row of lanes is one memory access.

With B lanes, the value of lane f is at `v B + f` for bit v and at `e B + f` for edge e. An iteration is a fixed
sequence of launches, which is captured once as a CUDA graph:

answer_checks, add_up_bits, compare_syndromes  run belief propagation in all lanes
count_iteration                                finds the lanes whose leg is over
weigh, judge                                   weigh the errors that these lanes have found, and choose their next step
keep_best                                      keeps the lightest errors, and lets networks choose memories

A leg that begins is a number in `begins`: the kernels then use the channel in place of old numbers. The host only takes
finished shots out and puts new ones in.
"""

import triton
import triton.language as tl

# Values of `event`, which `count_iteration` sets: the leg goes on, is over, or is over with its syndrome met.
GOES_ON, OVER, MET = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
# Bits of `action`, which `judge` sets: keep the errors, and begin another leg.
BETTER, AGAIN = tl.constexpr(1), tl.constexpr(2)
# Values of `begins`: the leg goes on, begins without old messages, or is the first leg of a shot that has just arrived.
LEG, ARRIVED = tl.constexpr(1), tl.constexpr(2)
# Weights are summed as whole numbers with this many units per nat, so that the order of a sum does not matter.
FIXED = 2**20


@triton.jit
def _posterior(before, start, ratio, tilt, begins, v, lanes, wide, SHARED: tl.constexpr):
    """Return the posterior of a bit, which is the tilted channel log ratio where a leg begins without old messages."""
    fresh = begins != 0
    if SHARED:
        first = tl.load(start + v) + tl.zeros(begins.shape, tl.float32)
    else:
        first = tl.load(ratio + v * wide + lanes, mask=fresh, other=0.0) * tl.load(tilt + v)
    return tl.where(fresh, first, tl.load(before + v * wide + lanes))


@triton.jit
def answer_checks(
    before, value, sign, place, begins, syndrome, iteration, ratio, start, tilt, check_ptr, word_ptr, bit_of_edge,
    scale, width, SHARED: tl.constexpr, LARGEST: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the answers of one check to its bits by min-sum.

    The answers of a check are two numbers: the least certain bit gets the second, every other bit the first. With the
    place of that bit and one sign for each bit, this takes an eighth of the memory of one number for each edge.
    """
    c = tl.program_id(0).to(tl.int64)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = tl.load(check_ptr + c), tl.load(check_ptr + c + 1)
    word = tl.load(word_ptr + c).to(tl.int64)
    wide = tl.cast(width, tl.int64)  # Places exceed 2^31 in large codes.
    fresh = tl.load(begins + lanes)
    low = tl.where(fresh == 0, tl.load(value + 2 * c * wide + lanes), 0.0)
    high = tl.where(fresh == 0, tl.load(value + (2 * c + 1) * wide + lanes), 0.0)
    last = tl.load(place + c * wide + lanes).to(tl.int32)
    odd = (tl.load(syndrome + c * wide + lanes) != 0).to(tl.int32)
    least = tl.full([BLOCK], LARGEST, tl.float32)
    second = tl.full([BLOCK], LARGEST, tl.float32)
    at = tl.zeros([BLOCK], tl.int32)
    for first in range(begin, end, 32):
        old = tl.load(sign + word * wide + lanes)
        new = tl.zeros([BLOCK], tl.int32)
        for e in tl.range(first, tl.minimum(first + 32, end), loop_unroll_factor=UNROLL):
            v = tl.load(bit_of_edge + e).to(tl.int64)
            own = tl.where(last == e - begin, high, low)
            own = tl.where(((old >> (e - first)) & 1) != 0, -own, own)
            own = _posterior(before, start, ratio, tilt, fresh, v, lanes, wide, SHARED) - own
            negative, size = (own < 0).to(tl.int32), tl.abs(own)
            new |= negative << (e - first)
            odd ^= negative
            second = tl.minimum(second, tl.maximum(least, size))
            at = tl.where(size < least, e - begin, at)
            least = tl.minimum(least, size)
        tl.store(sign + word * wide + lanes, new)
        word += 1
    growing = 1.0 - tl.exp2(-(tl.load(iteration + lanes) + 1).to(tl.float32))
    factor = tl.where(scale > 0.0, scale, growing)
    factor = tl.where(odd != 0, -factor, factor)
    tl.store(value + 2 * c * wide + lanes, least * factor)
    tl.store(value + (2 * c + 1) * wide + lanes, second * factor)
    tl.store(place + c * wide + lanes, at.to(place.dtype.element_ty))


@triton.jit
def _phi(x):
    """Return -ln tanh(x/2) for x > 0; this function is its own inverse."""
    return tl.log(1.0 + 2.0 / (tl.exp(x) - 1.0))


@triton.jit
def _received(before, message, start, ratio, tilt, begins, bit_of_edge, e, lanes, wide, SHARED: tl.constexpr):
    """Return the message of a bit to a check: its posterior without the last answer of that check."""
    v = tl.load(bit_of_edge + e).to(tl.int64)
    last = tl.where(begins == 0, tl.load(message + e * wide + lanes), 0.0)
    return _posterior(before, start, ratio, tilt, begins, v, lanes, wide, SHARED) - last


@triton.jit
def answer_checks_exactly(
    before, message, begins, syndrome, ratio, start, tilt, check_ptr, bit_of_edge, width,
    SHARED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the answers of one check to its bits by sum-product."""
    c = tl.program_id(0).to(tl.int64)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = tl.load(check_ptr + c), tl.load(check_ptr + c + 1)
    wide = tl.cast(width, tl.int64)
    fresh = tl.load(begins + lanes)
    negative = tl.load(syndrome + c * wide + lanes) != 0
    # Double precision: in single precision the least certain bit would absorb the others in the sum.
    total = tl.zeros([BLOCK], tl.float64)
    for e in range(begin, end):
        own = _received(before, message, start, ratio, tilt, fresh, bit_of_edge, e, lanes, wide, SHARED)
        negative = negative ^ (own < 0)
        total += _phi(tl.minimum(tl.maximum(tl.abs(own), 1e-12), 40.0).to(tl.float64))
    for e in range(begin, end):
        own = _received(before, message, start, ratio, tilt, fresh, bit_of_edge, e, lanes, wide, SHARED)
        rest = total - _phi(tl.minimum(tl.maximum(tl.abs(own), 1e-12), 40.0).to(tl.float64))
        answer = tl.minimum(_phi(tl.maximum(rest, 1e-17)), 40.0).to(tl.float32)
        tl.store(message + e * wide + lanes, tl.where(negative ^ (own < 0), -answer, answer))


@triton.jit
def add_up_bits(
    before, message, value, sign, place, decided, ratio, gamma, leg, begins, finished,
    bit_ptr, edge_of_bit, check_of_bit, slot_of_bit, word_of_bit, num_bits, legs, width,
    IS_SUM: tl.constexpr, SHARED: tl.constexpr, OWN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the posteriors of some bits and their decisions.

    The effective prior lies between the channel log ratio and the last posterior. Where a shot begins, it is the
    channel log ratio.
    """
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = tl.cast(width, tl.int64)
    number = tl.load(leg + lanes)
    arrived, going_on = tl.load(begins + lanes) == ARRIVED, tl.load(finished + lanes) == 0
    first = tl.program_id(0) * ROWS
    for v in range(first, tl.minimum(first + ROWS, num_bits)):
        at = tl.cast(v, tl.int64) * wide + lanes
        channel = tl.load(ratio + v) + tl.zeros([BLOCK], tl.float32) if SHARED else tl.load(ratio + at)
        share = tl.load(gamma + at) if OWN else tl.load(gamma + v * legs + number)
        total = tl.where(arrived, channel, channel + share * (tl.load(before + at) - channel))
        for k in range(tl.load(bit_ptr + v), tl.load(bit_ptr + v + 1)):
            if IS_SUM:
                total += tl.load(message + tl.load(edge_of_bit + k).to(tl.int64) * wide + lanes)
            else:
                c, slot = tl.load(check_of_bit + k).to(tl.int64), tl.load(slot_of_bit + k)
                word = tl.load(word_of_bit + k).to(tl.int64)
                least = tl.load(place + c * wide + lanes).to(tl.int32) == slot
                answer = tl.load(value + 2 * c * wide + (tl.where(least, width, 0) + lanes))
                negative = (tl.load(sign + word * wide + lanes) >> (slot & 31)) & 1
                total += tl.where(negative != 0, -answer, answer)
        tl.store(before + at, total, mask=going_on)
        tl.store(decided + at, (total < 0).to(tl.int8), mask=going_on)


@triton.jit
def compare_syndromes(
    decided, syndrome, odd_checks, unmet, check_ptr, bit_of_edge, width, OWN: tl.constexpr, BLOCK: tl.constexpr
):
    """Mark the lanes that have a check that is not met, and for networks also these checks."""
    c = tl.program_id(0)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    odd = tl.load(syndrome + c.to(tl.int64) * width + lanes)
    for e in range(tl.load(check_ptr + c), tl.load(check_ptr + c + 1)):
        v = tl.load(bit_of_edge + e).to(tl.int64)
        odd = odd ^ tl.load(decided + v * width + lanes)
    if OWN:
        tl.store(odd_checks + c.to(tl.int64) * width + lanes, odd)
    tl.store(unmet + lanes, tl.full([BLOCK], 1, tl.int32), mask=odd != 0)


@triton.jit
def count_iteration(
    unmet, finished, begins, iteration, total, leg, event, weight, first_iterations, leg_iterations, BLOCK: tl.constexpr
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
    tl.store(begins + lanes, tl.zeros([BLOCK], tl.int32))


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
    event, weight, best_weight, found, leg, iteration, begins, finished, action, legs, solutions,
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
    tl.store(begins + lanes, tl.full([BLOCK], LEG, tl.int32), mask=afresh)
    tl.store(action + lanes, BETTER * better.to(tl.int32) + AGAIN * again.to(tl.int32))


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
def keep_best(
    action, decided, best, before, ratio, gamma, draw, leg, shot, odd_checks, bit_ptr, check_of_bit,
    weights, networks, num_bits, legs, width, hidden, most,
    SHARED: tl.constexpr, OWN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    SOFT: tl.constexpr, SLOPE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Keep the errors of some bits if they are the best so far; networks choose the memories of the next leg."""
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    asked = tl.load(action + lanes)
    if tl.max(asked, 0) > 0:
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        real = rows < num_bits
        inside = real[:, None]
        place = rows.to(tl.int64)[:, None] * width + lanes[None, :]
        better, again = inside & ((asked & BETTER) > 0)[None, :], inside & ((asked & AGAIN) > 0)[None, :]
        tl.store(best + place, tl.load(decided + place, mask=better, other=0), mask=better)
        if OWN:
            if SHARED:
                channel = tl.load(ratio + rows, mask=real, other=0.0)[:, None] + tl.zeros([ROWS, BLOCK], tl.float32)
            else:
                channel = tl.load(ratio + place, mask=again, other=0.0)
            number = tl.load(leg + lanes)[None, :]
            posterior = tl.load(before + place, mask=again, other=0.0)
            prior = channel + tl.load(gamma + place, mask=again, other=0.0) * (posterior - channel)
            begin, end = tl.load(bit_ptr + rows, mask=real, other=0), tl.load(bit_ptr + rows + 1, mask=real, other=1)
            odd = tl.zeros([ROWS, BLOCK], tl.float32)
            for k in range(most):
                there = real & (begin + k < end)
                c = tl.load(check_of_bit + begin + k, mask=there, other=0).to(tl.int64)
                odd += tl.load(odd_checks + c[:, None] * width + lanes[None, :], mask=again & there[:, None], other=0)
            degree = (end - begin).to(tl.float32)[:, None]
            own_network = (tl.maximum(tl.load(shot + lanes), 0) % networks).to(tl.int32) * ((hidden + 1) * WIDE)
            share = _chosen_memory(
                weights + own_network[None, :], hidden, channel, posterior, prior, odd / degree,
                tl.load(draw + rows[:, None] * legs + number, mask=again, other=0.0),
                tl.maximum(number, 1).to(tl.float32), SOFT, SLOPE, LOW, HIGH, WIDE,
            )  # fmt: skip
            tl.store(gamma + place, share, mask=again)
