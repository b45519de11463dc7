# mypy: ignore-errors
"""Kernels of the corrections around loops of one shape: L corners of D states each, N = D^L joint states.

With cavity_k the messages that reach corner k from outside, the joint log value of a loop is its table plus the
cavities of all corners. Its marginal at corner k is q + cavity in the symbols of `loop_corrections.py`.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _cavity(msg, belief, state, before, after, at, ok):
    s = tl.load(state + at, mask=ok, other=0)
    a, b = tl.load(before + at, mask=ok, other=0), tl.load(after + at, mask=ok, other=0)
    got = tl.load(belief + s, mask=ok, other=0.0)
    got -= tl.load(msg + a, mask=ok, other=0.0) + tl.load(msg + b, mask=ok, other=0.0)
    return s, a, b, got


@triton.jit
def _joint(
    msg, belief, table, state, before, after, loop, loops, start,
    D: tl.constexpr, L: tl.constexpr, N: tl.constexpr, NP: tl.constexpr,
):  # fmt: skip
    """Return [loops, NP] the joint log values of some loops, -1e30 in columns without a joint state."""
    columns = tl.arange(0, NP)
    ok = loop < loops
    full = tl.load(table + loop[:, None] * N + columns[None, :], mask=ok[:, None] & (columns < N)[None, :], other=0.0)
    stride = N
    for k in tl.static_range(L):
        stride = stride // D
        digit = (columns // stride) % D
        for x in range(D):
            at = start + k * loops * D + loop * D + x
            _, _, _, cavity = _cavity(msg, belief, state, before, after, at, ok)
            full += tl.where((digit == x)[None, :], cavity[:, None], 0.0)
    return tl.where((columns < N)[None, :], full, -1e30)


@triton.jit
def _marginal(full, digit, x):
    """Return the log marginal [loops] of one state of one corner."""
    rows = tl.where((digit == x)[None, :], full, -1e30)
    top = tl.max(rows, 1)
    return top + tl.log(tl.sum(tl.exp(rows - top[:, None]), 1))


@triton.jit(do_not_specialize=["loops", "start"])
def loop_forward(
    msg, belief, new, table, state, before, after, share, mean, delta, at_states, loops, start,
    D: tl.constexpr, L: tl.constexpr, N: tl.constexpr, NP: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Add half of the corrections to delta [S2], and their mean over the loops of a state to at_states [X]."""
    loop = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    ok = loop < loops
    full = _joint(msg, belief, table, state, before, after, loop, loops, start, D, L, N, NP)
    columns = tl.arange(0, NP)
    stride = N
    for k in tl.static_range(L):
        stride = stride // D
        digit = (columns // stride) % D
        top = tl.full((B,), -1e30, tl.float32)
        top_pairs = tl.full((B,), -1e30, tl.float32)
        for x in range(D):
            at = start + k * loops * D + loop * D + x
            _, a, b, by_pairs = _cavity(msg, belief, state, before, after, at, ok)
            by_pairs += tl.load(new + a, mask=ok, other=0.0) + tl.load(new + b, mask=ok, other=0.0)
            top, top_pairs = tl.maximum(top, _marginal(full, digit, x)), tl.maximum(top_pairs, by_pairs)
        for x in range(D):
            at = start + k * loops * D + loop * D + x
            s, a, b, by_pairs = _cavity(msg, belief, state, before, after, at, ok)
            by_pairs += tl.load(new + a, mask=ok, other=0.0) + tl.load(new + b, mask=ok, other=0.0)
            got = (_marginal(full, digit, x) - top) - (by_pairs - top_pairs)
            tl.atomic_add(delta + a, 0.5 * got * tl.load(share + a, mask=ok, other=0.0), mask=ok, sem="relaxed")
            tl.atomic_add(delta + b, 0.5 * got * tl.load(share + b, mask=ok, other=0.0), mask=ok, sem="relaxed")
            tl.atomic_add(at_states + s, got * tl.load(mean + s, mask=ok, other=0.0), mask=ok, sem="relaxed")


@triton.jit
def _incoming(share, mean, g_delta, g_at_states, s, a, b, ok):
    """Return the gradient with respect to one correction of a corner."""
    got = tl.load(share + a, mask=ok, other=0.0) * tl.load(g_delta + a, mask=ok, other=0.0)
    got += tl.load(share + b, mask=ok, other=0.0) * tl.load(g_delta + b, mask=ok, other=0.0)
    return 0.5 * got + tl.load(mean + s, mask=ok, other=0.0) * tl.load(g_at_states + s, mask=ok, other=0.0)


@triton.jit(do_not_specialize=["loops", "start"])
def loop_backward(
    msg, belief, table, state, before, after, share, mean, g_delta, g_at_states, g_msg, g_belief, g_new, loops, start,
    D: tl.constexpr, L: tl.constexpr, N: tl.constexpr, NP: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Add the gradients of `loop_forward` to g_msg, g_new [S2] and g_belief [X]. The largest values are constants."""
    loop = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    ok = loop < loops
    full = _joint(msg, belief, table, state, before, after, loop, loops, start, D, L, N, NP)
    columns = tl.arange(0, NP)
    g_full = tl.zeros((B, NP), tl.float32)
    stride = N
    for k in tl.static_range(L):
        stride = stride // D
        digit = (columns // stride) % D
        for x in range(D):
            at = start + k * loops * D + loop * D + x
            s, a, b, _ = _cavity(msg, belief, state, before, after, at, ok)
            got = _incoming(share, mean, g_delta, g_at_states, s, a, b, ok)
            weight = tl.exp(full - _marginal(full, digit, x)[:, None])
            g_full += tl.where((digit == x)[None, :], weight * got[:, None], 0.0)
    stride = N
    for k in tl.static_range(L):
        stride = stride // D
        digit = (columns // stride) % D
        for x in range(D):
            at = start + k * loops * D + loop * D + x
            s, a, b, _ = _cavity(msg, belief, state, before, after, at, ok)
            got = _incoming(share, mean, g_delta, g_at_states, s, a, b, ok)
            g_cavity = tl.sum(tl.where((digit == x)[None, :], g_full, 0.0), 1) - got
            tl.atomic_add(g_belief + s, g_cavity, mask=ok, sem="relaxed")
            tl.atomic_add(g_msg + a, -g_cavity, mask=ok, sem="relaxed")
            tl.atomic_add(g_msg + b, -g_cavity, mask=ok, sem="relaxed")
            tl.atomic_add(g_new + a, -got, mask=ok, sem="relaxed")
            tl.atomic_add(g_new + b, -got, mask=ok, sem="relaxed")
