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


@triton.jit(do_not_specialize=["begin", "end"])
def update_edges(
    first, second, table, to_first, to_second, x, sums, lookup, begin, end, shift, half, keep,
    SIZE: tl.constexpr, STEP: tl.constexpr, MANY: tl.constexpr, DAMPED: tl.constexpr, JOINED: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """Update the messages of the edges from begin to end - 1 and add them to `sums`, whole numbers in any order.

    If JOINED, the messages to equal first ends of neighbouring edges are added up before they reach memory, where
    additions to one place wait for each other.
    """
    lane = tl.arange(0, B)
    e = tl.cast(begin, tl.int64) + tl.program_id(0).to(tl.int64) * B + lane
    ok = e < end
    i = tl.load(first + e * STEP, mask=ok, other=0)
    j = tl.load(second + e * STEP, mask=ok, other=0)
    old_first = tl.load(to_first + e, mask=ok, other=0).to(tl.int32)
    old_second = tl.load(to_second + e, mask=ok, other=0).to(tl.int32)
    u = tl.load(x + i, mask=ok, other=0) - old_first + half
    v = tl.load(x + j, mask=ok, other=0) - old_second + half
    u = tl.minimum(tl.maximum(u, 0), 2 * half - 1)
    v = tl.minimum(tl.maximum(v, 0), 2 * half - 1)
    row = lookup
    if MANY:
        row = lookup + tl.load(table + e, mask=ok, other=0).to(tl.int32) * (2 * SIZE)
    new_second = _through_table(row, u, ok, shift)
    new_first = _through_table(row + SIZE, v, ok, shift)
    if DAMPED:
        new_second = _damped(new_second, old_second, keep)
        new_first = _damped(new_first, old_first, keep)
    tl.store(to_second + e, new_second.to(to_second.dtype.element_ty), mask=ok)
    tl.store(to_first + e, new_first.to(to_first.dtype.element_ty), mask=ok)
    tl.atomic_add(sums + j, new_second.to(tl.int64), mask=ok, sem="relaxed")
    total, adds = new_first.to(tl.int64), ok
    if JOINED:
        before = tl.load(first + (e - 1) * STEP, mask=ok & (lane > 0), other=-1)
        after = tl.load(first + (e + 1) * STEP, mask=(e + 1 < end) & (lane < B - 1), other=-1)
        _, total = tl.associative_scan(((before != i).to(tl.int32), total), 0, _join)
        adds = ok & (after != i)
    tl.atomic_add(sums + i, total, mask=adds, sem="relaxed")
