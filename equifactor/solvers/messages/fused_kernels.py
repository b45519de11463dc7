# mypy: ignore-errors
"""Triton kernels of one iteration of belief propagation over small tables; `fused_engine.py` calls them.

Messages have the order of `FlatGraph`, indices are int32, and any float type of torch works. With ZEROS, messages may
be -inf: a sum over other factors then counts the infinite terms instead of subtracting them. Everything is written by
one program alone, so that the same call gives the same numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["states"])
def sum_messages(
    msg, constant, var_of_state, var_ptr, edge_ptr, first, belief, zeros, states,
    D: tl.constexpr, B: tl.constexpr, ZEROS: tl.constexpr,
):  # fmt: skip
    """Write belief [X]: constant [X] plus the messages at each variable state; with ZEROS also how many are -inf.

    Variable i has the places edge_ptr[i] to edge_ptr[i+1] of `first`, the first edge states of its messages. If D > 0,
    all variables have D states.
    """
    s = tl.program_id(0) * B + tl.arange(0, B)
    ok = s < states
    if D > 0:
        var, x = s // D, s % D
    else:
        var = tl.load(var_of_state + s, mask=ok, other=0)
        x = s - tl.load(var_ptr + var, mask=ok, other=0)
    start = tl.load(edge_ptr + var, mask=ok, other=0)
    count = tl.load(edge_ptr + var + 1, mask=ok, other=0) - start
    total = tl.load(constant + s, mask=ok, other=0.0)
    if ZEROS:
        gone = (total == float("-inf")).to(tl.int32)
        total = tl.where(gone > 0, 0.0, total)
    for k in range(0, tl.max(count, 0)):
        here = ok & (k < count)
        at = tl.load(first + start + k, mask=here, other=0) + x
        m = tl.load(msg + at, mask=here, other=0.0)
        if ZEROS:
            zero = m == float("-inf")
            gone += zero.to(tl.int32)
            m = tl.where(zero, 0.0, m)
        total += m
    tl.store(belief + s, total, mask=ok)
    if ZEROS:
        tl.store(zeros + s, gone, mask=ok)


@triton.jit
def _reduced(values, AXIS: tl.constexpr, MAX: tl.constexpr):
    """Return the maximum or ln sum exp along an axis, which goes; -inf if all values are."""
    top = tl.max(values, AXIS, keep_dims=True)
    if MAX:
        return tl.sum(top, AXIS)
    top = tl.where(top == float("-inf"), 0.0, top)
    return tl.sum(top, AXIS) + tl.log(tl.sum(tl.exp(values - top), AXIS))


@triton.jit
def _normalized(m, ok, floor, MAX: tl.constexpr, ZEROS: tl.constexpr):
    """Return messages [B, P] with total (or maximum) 1, not below the floor unless they are true zeros."""
    m = tl.where(ok, m, float("-inf"))
    scale = _reduced(m, 1, MAX)
    m = m - tl.where(scale == float("-inf"), 0.0, scale)[:, None]
    if ZEROS:
        m = tl.where(m == float("-inf"), m, tl.maximum(m, floor))
    return m


@triton.jit
def _to_factor(msg, belief, zeros, at, state, ok, ZEROS: tl.constexpr):
    """Return the old messages [B, P] to the variables, and those from them: the sums over the other factors."""
    old = tl.load(msg + at, mask=ok, other=0.0)
    total = tl.load(belief + state, mask=ok, other=0.0)
    if ZEROS:
        zero = old == float("-inf")
        others = tl.load(zeros + state, mask=ok, other=0) - zero.to(tl.int32)
        sent = tl.where(others > 0, float("-inf"), total - tl.where(zero, 0.0, old))
    else:
        sent = total - old
    return old, tl.where(ok, sent, float("-inf"))


@triton.jit
def _change(new, old, ok):
    """Return [B] the largest change of a probability, NaN if there is one."""
    change = tl.where(ok, tl.abs(tl.exp(new) - tl.exp(old)), 0.0)
    lost = tl.max((change != change).to(tl.int32), 1)
    return tl.where(lost > 0, float("nan"), tl.max(change, 1))


@triton.jit(do_not_specialize=["factors"])
def pair_messages(
    msg_0, msg_1, belief, zeros, table, base_0, base_1, change, numbers, factors,
    D0: tl.constexpr, D1: tl.constexpr, P0: tl.constexpr, P1: tl.constexpr, B: tl.constexpr,
    MAX: tl.constexpr, ZEROS: tl.constexpr, DAMP: tl.constexpr, CHECK: tl.constexpr,
):  # fmt: skip
    """Update the messages [F, D0] and [F, D1] of log tables [F, D0, D1]; with CHECK write change [F] before damping.

    base_0 and base_1 [F] are the first states of the two variables of each factor. Numbers: damping and floor. P0 and
    P1 are powers of two; rows and columns beyond the table hold -inf.
    """
    damping, floor = tl.load(numbers), tl.load(numbers + 1)
    f = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    x, y = tl.arange(0, P0), tl.arange(0, P1)
    real = f < factors
    ok_0, ok_1 = real[:, None] & (x < D0)[None, :], real[:, None] & (y < D1)[None, :]
    at_0, at_1 = f[:, None] * D0 + x[None, :], f[:, None] * D1 + y[None, :]
    state_0 = tl.load(base_0 + f, mask=real, other=0)[:, None] + x[None, :]
    state_1 = tl.load(base_1 + f, mask=real, other=0)[:, None] + y[None, :]
    old_0, sent_0 = _to_factor(msg_0, belief, zeros, at_0, state_0, ok_0, ZEROS)
    old_1, sent_1 = _to_factor(msg_1, belief, zeros, at_1, state_1, ok_1, ZEROS)
    entry = f[:, None, None] * (D0 * D1) + (x * D1)[None, :, None] + y[None, None, :]
    inside = real[:, None, None] & (x < D0)[None, :, None] & (y < D1)[None, None, :]
    log_phi = tl.load(table + entry, mask=inside, other=float("-inf"))
    new_0 = _normalized(_reduced(log_phi + sent_1[:, None, :], 2, MAX), ok_0, floor, MAX, ZEROS)
    new_1 = _normalized(_reduced(log_phi + sent_0[:, :, None], 1, MAX), ok_1, floor, MAX, ZEROS)
    if CHECK:
        moved_0, moved_1 = _change(new_0, old_0, ok_0), _change(new_1, old_1, ok_1)
        tl.store(change + f, tl.where(moved_1 != moved_1, moved_1, tl.maximum(moved_0, moved_1)), mask=real)
    if DAMP:
        new_0, new_1 = (1.0 - damping) * new_0 + damping * old_0, (1.0 - damping) * new_1 + damping * old_1
    tl.store(msg_0 + at_0, new_0, mask=ok_0)
    tl.store(msg_1 + at_1, new_1, mask=ok_1)


@triton.jit
def _spread(sent, AXIS: tl.constexpr):
    """Return messages [B, P] as a block of five axes, of which the first and AXIS are those of the messages."""
    for axis in tl.static_range(1, 5):
        if axis != AXIS:
            sent = tl.expand_dims(sent, axis)
    return sent


@triton.jit
def _others_reduced(values, AXIS: tl.constexpr, MAX: tl.constexpr):
    """Return [B, P], the values [B, P0, P1, P2, P3] reduced along all axes but the first and AXIS."""
    for step in tl.static_range(4):
        if 4 - step != AXIS:
            values = _reduced(values, 4 - step, MAX)
    return values


@triton.jit
def _write_message(
    msg, at, ok, values, old, moved, damping, floor, AXIS: tl.constexpr,
    MAX: tl.constexpr, ZEROS: tl.constexpr, DAMP: tl.constexpr, CHECK: tl.constexpr,
):  # fmt: skip
    """Write the message along one axis of a table; with CHECK return the larger of `moved` and its change."""
    new = _normalized(_others_reduced(values, AXIS, MAX), ok, floor, MAX, ZEROS)
    if CHECK:
        own = _change(new, old, ok)
        moved = tl.where(moved != moved, moved, tl.where(own != own, own, tl.maximum(moved, own)))
    if DAMP:
        new = (1.0 - damping) * new + damping * old
    tl.store(msg + at, new, mask=ok)
    return moved


@triton.jit(do_not_specialize=["factors"])
def table_messages(
    msg_0, msg_1, msg_2, msg_3, belief, zeros, table, base_0, base_1, base_2, base_3, change, numbers, factors,
    D0: tl.constexpr, D1: tl.constexpr, D2: tl.constexpr, D3: tl.constexpr,
    P0: tl.constexpr, P1: tl.constexpr, P2: tl.constexpr, P3: tl.constexpr, B: tl.constexpr,
    MAX: tl.constexpr, ZEROS: tl.constexpr, DAMP: tl.constexpr, CHECK: tl.constexpr,
):  # fmt: skip
    """Update the messages of log tables of three or four axes, as `pair_messages`; with three, D3 is 0 and P3 is 1."""
    damping, floor = tl.load(numbers), tl.load(numbers + 1)
    f = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    real = f < factors
    x, y, z, w = tl.arange(0, P0), tl.arange(0, P1), tl.arange(0, P2), tl.arange(0, P3)
    ok_0, ok_1 = real[:, None] & (x < D0)[None, :], real[:, None] & (y < D1)[None, :]
    ok_2, ok_3 = real[:, None] & (z < D2)[None, :], real[:, None] & (w < D3)[None, :]
    at_0, at_1 = f[:, None] * D0 + x[None, :], f[:, None] * D1 + y[None, :]
    at_2, at_3 = f[:, None] * D2 + z[None, :], f[:, None] * D3 + w[None, :]
    state_0 = tl.load(base_0 + f, mask=real, other=0)[:, None] + x[None, :]
    state_1 = tl.load(base_1 + f, mask=real, other=0)[:, None] + y[None, :]
    state_2 = tl.load(base_2 + f, mask=real, other=0)[:, None] + z[None, :]
    old_0, sent_0 = _to_factor(msg_0, belief, zeros, at_0, state_0, ok_0, ZEROS)
    old_1, sent_1 = _to_factor(msg_1, belief, zeros, at_1, state_1, ok_1, ZEROS)
    old_2, sent_2 = _to_factor(msg_2, belief, zeros, at_2, state_2, ok_2, ZEROS)
    WIDTH: tl.constexpr = D3 if D3 > 0 else 1
    inside = _spread(real[:, None] & (x < D0)[None, :], 1) & _spread(real[:, None] & (y < D1)[None, :], 2)
    inside = inside & _spread(ok_2, 3) & _spread(real[:, None] & (w < WIDTH)[None, :], 4)
    entry = _spread(f[:, None] * (D0 * D1 * D2 * WIDTH) + (x * (D1 * D2 * WIDTH))[None, :], 1)
    entry = entry + (y * (D2 * WIDTH))[None, None, :, None, None] + (z * WIDTH)[None, None, None, :, None]
    entry = entry + w[None, None, None, None, :]
    joint = tl.load(table + entry, mask=inside, other=float("-inf"))
    if D3 > 0:
        state_3 = tl.load(base_3 + f, mask=real, other=0)[:, None] + w[None, :]
        old_3, sent_3 = _to_factor(msg_3, belief, zeros, at_3, state_3, ok_3, ZEROS)
        all_but_3 = joint + _spread(sent_0, 1) + _spread(sent_1, 2) + _spread(sent_2, 3)
        joint = joint + _spread(sent_3, 4)
    first, last = joint + _spread(sent_0, 1), joint + _spread(sent_2, 3)
    moved = tl.zeros([B], joint.dtype)
    moved = _write_message(msg_0, at_0, ok_0, last + _spread(sent_1, 2), old_0, moved, damping, floor, 1,
                   MAX, ZEROS, DAMP, CHECK)  # fmt: skip
    moved = _write_message(msg_1, at_1, ok_1, last + _spread(sent_0, 1), old_1, moved, damping, floor, 2,
                   MAX, ZEROS, DAMP, CHECK)  # fmt: skip
    moved = _write_message(msg_2, at_2, ok_2, first + _spread(sent_1, 2), old_2, moved, damping, floor, 3,
                   MAX, ZEROS, DAMP, CHECK)  # fmt: skip
    if D3 > 0:
        moved = _write_message(msg_3, at_3, ok_3, all_but_3, old_3, moved, damping, floor, 4,
                       MAX, ZEROS, DAMP, CHECK)  # fmt: skip
    if CHECK:
        tl.store(change + f, moved, mask=real)
