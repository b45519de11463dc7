# mypy: ignore-errors
"""The Triton kernel that updates the messages of a large model on a GPU; see `large_kernels.update_edges`."""

import triton
import triton.language as tl


@triton.jit
def _through_table(lookup, log_odds, ok, shift):
    """Return the message for these log odds, which are counted from the start of a row of `lookup`."""
    place = lookup + (log_odds >> shift)
    low = tl.load(place, mask=ok, other=0)
    rise = tl.load(place + 1, mask=ok, other=0) - low
    part = log_odds & ((1 << shift) - 1)
    return low + ((rise * part + ((1 << shift) >> 1)) >> shift)


@triton.jit
def _damped(new, old, keep):
    """Return the new message, or with damping a mean of both; 64 bits hold the product."""
    gap = old.to(tl.int64) - new.to(tl.int64)
    return new + ((gap * keep + 512) >> 10).to(tl.int32)


@triton.jit
def _join(head, total, other_head, other_total):
    """Join two parts of runs: the second part starts again where it has the head of a run."""
    return head | other_head, other_total + tl.where(other_head != 0, 0, total)


@triton.jit
def _log_sum(lookup, a, b, ok, shift, last):
    """Return ln(e^a + e^b), where a, b and the result are whole numbers of fine units."""
    high = tl.maximum(a, b)
    return high + _through_table(lookup, tl.minimum(high - tl.minimum(a, b), last), ok, shift)


@triton.jit
def _senders(x, variable, message, e, ok, count, fine, K: tl.constexpr):
    """Return the log weights of the states of a variable without one edge, a tuple of K numbers for each edge."""
    weights = (tl.load(x + variable * K, mask=ok, other=0) << fine,)
    for t in tl.static_range(1, K):
        old = tl.load(message + (t - 1) * count + e, mask=ok, other=0).to(tl.int32)
        weights = weights + ((tl.load(x + variable * K + t, mask=ok, other=0) - old) << fine,)  # noqa: RUF005
    return weights


@triton.jit
def _write(message, sums, place, at, new, ok, keep, e, first, end, lane, STEP: tl.constexpr, DAMPED: tl.constexpr,
           JOINED: tl.constexpr, B: tl.constexpr):  # fmt: skip
    """Write one number of a message, and add it to `sums` at a place; if JOINED, together with those of neighbours."""
    if DAMPED:
        new = _damped(new, tl.load(message + at, mask=ok, other=0).to(tl.int32), keep)
    tl.store(message + at, new.to(message.dtype.element_ty), mask=ok)
    total, adds = new.to(tl.int64), ok
    if JOINED:
        own = tl.load(first + e * STEP, mask=ok, other=0)
        before = tl.load(first + (e - 1) * STEP, mask=ok & (lane > 0), other=-1)
        after = tl.load(first + (e + 1) * STEP, mask=(e + 1 < end) & (lane < B - 1), other=-1)
        _, total = tl.associative_scan(((before != own).to(tl.int32), total), 0, _join)
        adds = ok & (after != own)
    tl.atomic_add(sums + place, total, mask=adds, sem="relaxed")


@triton.jit(do_not_specialize=["begin", "end"])
def update_edges(
    first, second, table, to_first, to_second, x, sums, lookup, logs, begin, end, count, shift, half, fine, keep,
    SIZE: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr, MANY: tl.constexpr, DAMPED: tl.constexpr,
    JOINED: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Update the messages of the edges from begin to end - 1 and add them to `sums`, whole numbers in any order.

    If JOINED, the messages to equal first ends of neighbouring edges are added up before they reach memory, where
    additions to one place wait for each other. A message has K - 1 numbers, each of them in an array of all edges.
    """
    lane = tl.arange(0, B)
    e = tl.cast(begin, tl.int64) + tl.program_id(0).to(tl.int64) * B + lane
    ok = e < end
    i = tl.load(first + e * STEP, mask=ok, other=0)
    j = tl.load(second + e * STEP, mask=ok, other=0)
    last = 2 * half - 1
    if K == 2:
        old_first = tl.load(to_first + e, mask=ok, other=0).to(tl.int32)
        old_second = tl.load(to_second + e, mask=ok, other=0).to(tl.int32)
        u = tl.load(x + i, mask=ok, other=0) - old_first + half
        v = tl.load(x + j, mask=ok, other=0) - old_second + half
        u = tl.minimum(tl.maximum(u, 0), last)
        v = tl.minimum(tl.maximum(v, 0), last)
        row = lookup
        if MANY:
            row = lookup + tl.load(table + e, mask=ok, other=0).to(tl.int32) * (2 * SIZE)
        new_second = _through_table(row, u, ok, shift)
        new_first = _through_table(row + SIZE, v, ok, shift)
        _write(to_second, sums, j, e, new_second, ok, keep, e, first, end, lane, STEP, DAMPED, False, B)
        _write(to_first, sums, i, e, new_first, ok, keep, e, first, end, lane, STEP, DAMPED, JOINED, B)
    else:
        wide = tl.cast(count, tl.int64)  # Places exceed 2^31.
        i, j = i.to(tl.int64), j.to(tl.int64)
        sender, other = _senders(x, i, to_first, e, ok, wide, fine, K), _senders(x, j, to_second, e, ok, wide, fine, K)
        row = tl.zeros([B], tl.int32)
        if MANY:
            row = tl.load(table + e, mask=ok, other=0).to(tl.int32) * (2 * K * K)
        base_second, base_first = row, row
        half_unit = (1 << fine) >> 1
        for s in range(K):  # Unrolled, it would take a minute to compile for 8 states.
            to_j = tl.load(logs + row + s, mask=ok, other=0) + sender[0]
            to_i = tl.load(logs + row + K * K + s, mask=ok, other=0) + other[0]
            for t in tl.static_range(1, K):
                log = tl.load(logs + row + t * K + s, mask=ok, other=0)
                to_j = _log_sum(lookup, to_j, log + sender[t], ok, shift, last)
                log = tl.load(logs + row + K * K + t * K + s, mask=ok, other=0)
                to_i = _log_sum(lookup, to_i, log + other[t], ok, shift, last)
            base_second, base_first = tl.where(s == 0, to_j, base_second), tl.where(s == 0, to_i, base_first)
            to_j, to_i = (to_j - base_second + half_unit) >> fine, (to_i - base_first + half_unit) >> fine
            real, at = ok & (s > 0), (s - 1) * wide + e
            place_j, place_i = j * (K - 1) + s - 1, i * (K - 1) + s - 1
            _write(to_second, sums, place_j, at, to_j, real, keep, e, first, end, lane, STEP, DAMPED, False, B)
            _write(to_first, sums, place_i, at, to_i, real, keep, e, first, end, lane, STEP, DAMPED, JOINED, B)
