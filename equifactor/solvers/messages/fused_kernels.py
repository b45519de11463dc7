# mypy: ignore-errors
"""Triton kernels of one iteration of belief propagation over pair tables; `fused_engine.py` calls them.

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
