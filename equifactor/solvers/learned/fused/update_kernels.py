# mypy: ignore-errors
"""Kernels of the end of a step: the GRU, the gates that are linear in its output, and the new message."""

from __future__ import annotations

import triton
import triton.language as tl

from equifactor.solvers.learned.fused.triton_math import (
    dot,
    edge_sum,
    log_softmax,
    matrix,
    squash,
    tanh,
    vector,
)


@triton.jit
def _column(columns, n, x):
    """Return [R, FP] zeros with x in column n."""
    return tl.where((columns == n)[None, :], x[:, None], 0.0)


@triton.jit
def features(
    q, old, belief, new, unary, delta, columns, ok, Q: tl.constexpr, G: tl.constexpr, P: tl.constexpr
):  # fmt: skip
    """Return [R, FP] what the GRU sees besides u, and the log probabilities behind five of the columns."""
    p_old, p_sent = log_softmax(old, ok, G, P), log_softmax(belief - old, ok, G, P)
    p_belief, p_factor = log_softmax(belief, ok, G, P), log_softmax(new + belief - old, ok, G, P)
    out = q + _column(columns, Q, squash(p_old)) + _column(columns, Q + 1, squash(new))
    out += _column(columns, Q + 2, squash(p_sent)) + _column(columns, Q + 3, squash(p_belief))
    out += _column(columns, Q + 4, squash(p_factor))
    out += _column(columns, Q + 5, squash(log_softmax(unary, ok, G, P))) + _column(columns, Q + 6, squash(delta))
    return out, p_old, p_sent, p_belief, p_factor


@triton.jit
def gates(f, u, h, w, FP: tl.constexpr, CP: tl.constexpr, PREC: tl.constexpr):
    """Return the gates r and z, the candidate n and its hidden part [R, CP]. Weights: 3 each of f, u, h; biases."""
    U: tl.constexpr = 3 * FP * CP
    HID: tl.constexpr = U + 3 * CP * CP
    BIAS: tl.constexpr = HID + 3 * CP * CP
    r = dot(f, matrix(w, 0, FP, CP), PREC) + dot(u, matrix(w, U, CP, CP), PREC)
    r += dot(h, matrix(w, HID, CP, CP), PREC) + (vector(w, BIAS, CP) + vector(w, BIAS + 3 * CP, CP))[None, :]
    z = dot(f, matrix(w, FP * CP, FP, CP), PREC) + dot(u, matrix(w, U + CP * CP, CP, CP), PREC)
    z += dot(h, matrix(w, HID + CP * CP, CP, CP), PREC)
    z += (vector(w, BIAS + CP, CP) + vector(w, BIAS + 4 * CP, CP))[None, :]
    n = dot(f, matrix(w, 2 * FP * CP, FP, CP), PREC) + dot(u, matrix(w, U + 2 * CP * CP, CP, CP), PREC)
    n += vector(w, BIAS + 2 * CP, CP)[None, :]
    hidden = dot(h, matrix(w, HID + 2 * CP * CP, CP, CP), PREC) + vector(w, BIAS + 5 * CP, CP)[None, :]
    r, z = tl.sigmoid(r), tl.sigmoid(z)
    return r, z, tanh(n + r * hidden), hidden


@triton.jit
def _linear(h, w, n, OUT: tl.constexpr, CP: tl.constexpr):
    """Return [R] output n of the linear layer: alpha, epsilon, kappa or tau."""
    return tl.sum(h * vector(w, OUT + n * CP, CP)[None, :], 1) + tl.load(w + OUT + 4 * CP + n)


@triton.jit
def message(
    h, w, old, new, delta, first_alpha, ok,
    D: tl.constexpr, G: tl.constexpr, P: tl.constexpr, OUT: tl.constexpr, CP: tl.constexpr, TEMPER: tl.constexpr,
):  # fmt: skip
    """Return the new message, the share that is kept of the old one, 1 + kappa, the corrected m~ and its power."""
    keep = tl.sigmoid(_linear(h, w, 0, OUT, CP) + first_alpha)
    epsilon = tl.where(ok, _linear(h, w, 1, OUT, CP), 0.0)
    factor = 1.0 + _linear(h, w, 2, OUT, CP)
    corrected = new + delta * factor
    power = tl.full(keep.shape, 1.0, tl.float32)
    if TEMPER:
        tau = tl.where(ok, _linear(h, w, 3, OUT, CP), 0.0)
        power = 2.0 * tl.sigmoid(edge_sum(tau, G, P) * (1.0 / D))
    moved = power * corrected
    out = moved + keep * (old - moved) + epsilon - edge_sum(epsilon, G, P) * (1.0 / D)
    return out, keep, factor, corrected, power


@triton.jit
def centred(x, ok, D: tl.constexpr, G: tl.constexpr, P: tl.constexpr):
    """Return [R] values minus their mean over the states of each edge, 0 in rows without a state."""
    x = tl.where(ok, x, 0.0)
    return tl.where(ok, x - edge_sum(x, G, P) * (1.0 / D), 0.0)


@triton.jit(do_not_specialize=["edges", "blocks"])
def update_forward(
    msg, belief, new, unary, delta, u, q, h, state, w, settle, msg_out, h_out, edges, blocks, first_alpha,
    D: tl.constexpr, P: tl.constexpr, G: tl.constexpr, C: tl.constexpr, CP: tl.constexpr,
    Q: tl.constexpr, FP: tl.constexpr, PREC: tl.constexpr, TEMPER: tl.constexpr,
):  # fmt: skip
    """Write the message [S2] and the hidden vector [S2, C] after the step; `settle` is the share that stays."""
    OUT: tl.constexpr = 3 * FP * CP + 6 * CP * CP + 6 * CP
    rows, cols, channels = tl.arange(0, G * P), tl.arange(0, CP), tl.arange(0, FP)
    x = rows % P
    ok = x < D
    stay = tl.load(settle)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        edge = (block * G + rows // P).to(tl.int64)
        at, real = edge * D + x, (edge < edges) & ok
        wide = real[:, None] & (cols < C)[None, :]
        s = tl.load(state + at, mask=real, other=0)
        own_old, own_new = tl.load(msg + at, mask=real, other=0.0), tl.load(new + at, mask=real, other=0.0)
        d = centred(tl.load(delta + at, mask=real, other=0.0), ok, D, G, P)
        own_u = tl.load(u + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        own_h = tl.load(h + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        own_q = tl.load(
            q + at[:, None] * Q + channels[None, :], mask=real[:, None] & (channels < Q)[None, :], other=0.0
        )
        f, _, _, _, _ = features(
            own_q, own_old, tl.load(belief + s, mask=real, other=0.0), own_new,
            tl.load(unary + at, mask=real, other=0.0), d, channels, ok, Q, G, P,
        )  # fmt: skip
        _, z, n, _ = gates(f, own_u, own_h, w, FP, CP, PREC)
        after = (1.0 - z) * n + z * own_h
        out, _, _, _, _ = message(after, w, own_old, own_new, d, first_alpha, ok, D, G, P, OUT, CP, TEMPER)
        tl.store(msg_out + at, out + stay * (own_old - out), mask=real)
        tl.store(h_out + at[:, None] * C + cols[None, :], after + stay * (own_h - after), mask=wide)
