# mypy: ignore-errors
"""Kernels of decoding on a GPU, in Triton: shots lie side by side, so that a row of them is read and written in one go.

What shot f says of bit v is at `v B + f`, of edge e at `e B + f`, for B lanes. An iteration is a fixed sequence of
launches and is captured once as a CUDA graph: `answer_checks`, `add_up_bits` and `compare_syndromes` work on all lanes,
`count_iteration` finds the lanes whose leg is over, `weigh` and `judge` what these have found, and `apply` keeps the
lightest errors and starts the next legs. The host looks in only to take finished shots out and to put new ones in.
"""

import triton
import triton.language as tl

NOTHING, OVER, MET = 0, 1, 2  # what `count_iteration` says of a lane
BETTER, AGAIN, AFRESH = 1, 2, 4  # bits of what `judge` asks for
FIXED = 2**20  # weights are added up as whole numbers of this many a unit: in any order, with one result


@triton.jit
def _received(before, message, bit_of_edge, e, lanes, wide, kept):
    """What a bit tells a check: its posterior without what the check said before."""
    v = tl.load(bit_of_edge + e)
    return tl.load(before + v * wide + lanes) - kept * tl.load(message + e * wide + lanes)


@triton.jit
def _phi(x):
    """-ln tanh(x/2), its own inverse, for x > 0."""
    return tl.log(1.0 + 2.0 / (tl.exp(x) - 1.0))


@triton.jit
def answer_checks(
    before, message, keep, syndrome, iteration, check_ptr, bit_of_edge, scale, width,
    IS_SUM: tl.constexpr, LARGEST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The answers of one check to its bits: the smallest of the others, or the exact rule."""
    c = tl.program_id(0)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = tl.load(check_ptr + c), tl.load(check_ptr + c + 1)
    wide = tl.cast(width, tl.int64)  # places are beyond 2^31 in large codes
    kept = tl.load(keep + lanes)
    negative = tl.load(syndrome + c.to(tl.int64) * width + lanes) != 0
    if IS_SUM:
        # In double precision the difference of sums keeps what the least sure bit would drown otherwise.
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
    """The posterior of one bit, what it stands for, and what takes the place of the channel's word next."""
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
    """Mark the checks that are not met, and the lanes in which one is not."""
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
    """Count, and say which lanes have met their syndrome or spent the iterations of their leg."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = tl.load(finished + lanes) == 0
    done = tl.load(iteration + lanes) + 1
    met = tl.load(unmet + lanes) == 0
    limit = tl.where(tl.load(leg + lanes) == 0, first_iterations, leg_iterations)
    over = live & (met | (done >= limit))
    tl.store(event + lanes, tl.where(over, tl.where(met, 2, 1), 0))
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
    """Add up the weights of the errors that some bits stand for, in lanes whose leg is over."""
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    asked = tl.load(event + lanes) > 0
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
    """Whether what a leg has found is kept, and whether the shot begins another leg or is finished."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    said = tl.load(event + lanes)
    over, met = said > 0, said == 2
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
    afresh = again if RESTART else again & met  # going on from a solution would only find it again
    tl.store(keep + lanes, tl.zeros([BLOCK], tl.float32), mask=afresh)
    tl.store(action + lanes, better.to(tl.int32) + 2 * again.to(tl.int32) + 4 * afresh.to(tl.int32))


@triton.jit
def _line(weights, at, a, b, c, d, e, f, g):
    """w . x + b, of the row of weights at a place."""
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
    """The network of `learned_memory`, for the bits of a tile."""
    side = tl.where(channel < 0, -1.0, 1.0)
    a = tl.abs(channel) / (SOFT + tl.abs(channel))
    b = side * posterior / (SOFT + tl.abs(posterior))
    c = side * prior / (SOFT + tl.abs(prior))
    g = 1.0 / leg
    e = draw * g
    gamma = _line(weights, hidden * WIDE, a, b, c, unmet, e, draw, g)
    for h in range(hidden):
        heard = _line(weights, h * WIDE, a, b, c, unmet, e, draw, g)
        gamma += tl.load(weights + h * WIDE + WIDE - 1) * tl.where(heard > 0, heard, SLOPE * heard)
    return tl.minimum(tl.maximum(gamma, LOW), HIGH)


@triton.jit
def apply(
    action, decided, best, before, prior, ratio, tilt, gamma, draw, leg, shot, odd_checks, bit_ptr, check_of_bit,
    weights, networks, num_bits, legs, width, hidden, most,
    SHARED: tl.constexpr, OWN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    SOFT: tl.constexpr, SLOPE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Keep the errors of some bits where they are the best, and begin a leg with its own memories where asked for."""
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    asked = tl.load(action + lanes)
    if tl.max(asked, 0) > 0:
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        real = rows < num_bits
        inside = real[:, None]
        place = rows.to(tl.int64)[:, None] * width + lanes[None, :]
        better, again = inside & ((asked & 1) > 0)[None, :], inside & ((asked & 2) > 0)[None, :]
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
        afresh = inside & ((asked & 4) > 0)[None, :]
        factor = tl.load(tilt + rows, mask=real, other=1.0)[:, None]
        tl.store(before + place, channel * factor, mask=afresh)
