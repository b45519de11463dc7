# mypy: ignore-errors
"""The kernel of the gradients of `update_kernels.py`. It computes the forward pass again instead of storing it."""

from __future__ import annotations

import triton
import triton.language as tl

from equifactor.solvers.learned.fused.triton_math import (
    dot,
    edge_sum,
    log_softmax_grad,
    matrix,
    put_matrix,
    put_vector,
    squash_slope,
    vector,
)
from equifactor.solvers.learned.fused.update_kernels import centred, features, gates, message


@triton.jit
def _seen_grad(g_f, columns, n, x, ok):
    """Return the gradient [R] with respect to x, of which column n shows the squashed value."""
    return tl.where(ok, tl.sum(tl.where((columns == n)[None, :], g_f, 0.0), 1) * squash_slope(x), 0.0)


@triton.jit
def _back(g, w, at, K: tl.constexpr, N: tl.constexpr, PREC: tl.constexpr):
    """Return g W^T for the [K, N] matrix W that is stored from position `at`."""
    return dot(g, tl.trans(matrix(w, at, K, N)), PREC)


@triton.jit(do_not_specialize=["edges", "blocks"])
def update_backward(
    msg, belief, new, unary, delta, u, q, h, state, w, settle, g_msg_out, g_h_out,
    g_msg, g_belief, g_new, g_delta, g_u, g_q, g_h, g_w, edges, blocks, first_alpha,
    D: tl.constexpr, P: tl.constexpr, G: tl.constexpr, C: tl.constexpr, CP: tl.constexpr,
    Q: tl.constexpr, FP: tl.constexpr, PREC: tl.constexpr, TEMPER: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Write all gradients of `update_forward`, but add to g_belief [X]; each program writes its share of g_w [SIZE]."""
    U: tl.constexpr = 3 * FP * CP
    HID: tl.constexpr = U + 3 * CP * CP
    BIAS: tl.constexpr = HID + 3 * CP * CP
    OUT: tl.constexpr = BIAS + 6 * CP
    rows, cols, channels = tl.arange(0, G * P), tl.arange(0, CP), tl.arange(0, FP)
    x = rows % P
    ok = x < D
    stay = tl.load(settle)
    d_f_r, d_u_r, d_h_r = tl.zeros((FP, CP), tl.float32), tl.zeros((CP, CP), tl.float32), tl.zeros((CP, CP), tl.float32)
    d_f_z, d_u_z, d_h_z = tl.zeros((FP, CP), tl.float32), tl.zeros((CP, CP), tl.float32), tl.zeros((CP, CP), tl.float32)
    d_f_n, d_u_n, d_h_n = tl.zeros((FP, CP), tl.float32), tl.zeros((CP, CP), tl.float32), tl.zeros((CP, CP), tl.float32)
    d_r, d_z = tl.zeros((CP,), tl.float32), tl.zeros((CP,), tl.float32)
    d_n, d_hidden = tl.zeros((CP,), tl.float32), tl.zeros((CP,), tl.float32)
    d_alpha, d_epsilon = tl.zeros((CP,), tl.float32), tl.zeros((CP,), tl.float32)
    d_kappa, d_tau = tl.zeros((CP,), tl.float32), tl.zeros((CP,), tl.float32)
    four = tl.arange(0, 4)
    d_bias = tl.zeros((4,), tl.float32)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        edge = (block * G + rows // P).to(tl.int64)
        at, real = edge * D + x, (edge < edges) & ok
        wide, narrow = real[:, None] & (cols < C)[None, :], real[:, None] & (channels < Q)[None, :]
        s = tl.load(state + at, mask=real, other=0)
        own_old, own_new = tl.load(msg + at, mask=real, other=0.0), tl.load(new + at, mask=real, other=0.0)
        d = centred(tl.load(delta + at, mask=real, other=0.0), ok, D, G, P)
        own_u = tl.load(u + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        own_h = tl.load(h + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        f, p_old, p_sent, p_belief, p_factor = features(
            tl.load(q + at[:, None] * Q + channels[None, :], mask=narrow, other=0.0),
            own_old, tl.load(belief + s, mask=real, other=0.0), own_new,
            tl.load(unary + at, mask=real, other=0.0), d, channels, ok, Q, G, P,
        )  # fmt: skip
        r, z, n, hidden = gates(f, own_u, own_h, w, FP, CP, PREC)
        after = (1.0 - z) * n + z * own_h
        _, keep, factor, corrected, power = message(
            after, w, own_old, own_new, d, first_alpha, ok, D, G, P, OUT, CP, TEMPER
        )
        # The message and the linear layer.
        g_end = tl.load(g_msg_out + at, mask=real, other=0.0)
        g_moved = g_end * (1.0 - stay)
        g_old = g_end * stay + g_moved * keep
        moved = power * corrected
        g_alpha = g_moved * (own_old - moved) * keep * (1.0 - keep)
        g_epsilon = centred(g_moved, ok, D, G, P)
        g_moved = g_moved * (1.0 - keep)
        g_tau = tl.zeros(keep.shape, tl.float32)
        if TEMPER:
            g_tau = edge_sum(g_moved * corrected, G, P) * power * (1.0 - 0.5 * power) * (1.0 / D)
            g_tau = tl.where(real, g_tau, 0.0)
            g_moved = g_moved * power
        g_kappa = g_moved * d
        g_d = g_moved * factor
        g_n_new = g_moved
        d_alpha += tl.sum(after * g_alpha[:, None], 0)
        d_epsilon += tl.sum(after * g_epsilon[:, None], 0)
        d_kappa += tl.sum(after * g_kappa[:, None], 0)
        d_bias += tl.where(four == 0, tl.sum(g_alpha, 0), 0.0) + tl.where(four == 1, tl.sum(g_epsilon, 0), 0.0)
        d_bias += tl.where(four == 2, tl.sum(g_kappa, 0), 0.0)
        g_stop = tl.load(g_h_out + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        g_after = g_stop * (1.0 - stay) + g_alpha[:, None] * vector(w, OUT, CP)[None, :]
        g_after += g_epsilon[:, None] * vector(w, OUT + CP, CP)[None, :]
        g_after += g_kappa[:, None] * vector(w, OUT + 2 * CP, CP)[None, :]
        if TEMPER:
            d_tau += tl.sum(after * g_tau[:, None], 0)
            d_bias += tl.where(four == 3, tl.sum(g_tau, 0), 0.0)
            g_after += g_tau[:, None] * vector(w, OUT + 3 * CP, CP)[None, :]
        # The GRU.
        g_z = g_after * (own_h - n) * z * (1.0 - z)
        g_n = g_after * (1.0 - z) * (1.0 - n * n)
        g_r = g_n * hidden * r * (1.0 - r)
        g_hidden = g_n * r
        g_own_h = g_stop * stay + g_after * z
        g_own_h += _back(g_r, w, HID, CP, CP, PREC) + _back(g_z, w, HID + CP * CP, CP, CP, PREC)
        g_own_h += _back(g_hidden, w, HID + 2 * CP * CP, CP, CP, PREC)
        tl.store(g_h + at[:, None] * C + cols[None, :], g_own_h, mask=wide)
        g_own_u = _back(g_r, w, U, CP, CP, PREC) + _back(g_z, w, U + CP * CP, CP, CP, PREC)
        g_own_u += _back(g_n, w, U + 2 * CP * CP, CP, CP, PREC)
        tl.store(g_u + at[:, None] * C + cols[None, :], g_own_u, mask=wide)
        g_f = _back(g_r, w, 0, FP, CP, PREC) + _back(g_z, w, FP * CP, FP, CP, PREC)
        g_f += _back(g_n, w, 2 * FP * CP, FP, CP, PREC)
        tl.store(g_q + at[:, None] * Q + channels[None, :], g_f, mask=narrow)
        d_f_r += dot(tl.trans(f), g_r, PREC)
        d_f_z += dot(tl.trans(f), g_z, PREC)
        d_f_n += dot(tl.trans(f), g_n, PREC)
        d_u_r += dot(tl.trans(own_u), g_r, PREC)
        d_u_z += dot(tl.trans(own_u), g_z, PREC)
        d_u_n += dot(tl.trans(own_u), g_n, PREC)
        d_h_r += dot(tl.trans(own_h), g_r, PREC)
        d_h_z += dot(tl.trans(own_h), g_z, PREC)
        d_h_n += dot(tl.trans(own_h), g_hidden, PREC)
        d_r += tl.sum(g_r, 0)
        d_z += tl.sum(g_z, 0)
        d_n += tl.sum(g_n, 0)
        d_hidden += tl.sum(g_hidden, 0)
        # What the GRU sees of the messages.
        g_belief_row = log_softmax_grad(_seen_grad(g_f, channels, Q + 3, p_belief, ok), p_belief, ok, G, P)
        g_sent = log_softmax_grad(_seen_grad(g_f, channels, Q + 2, p_sent, ok), p_sent, ok, G, P)
        g_factor = log_softmax_grad(_seen_grad(g_f, channels, Q + 4, p_factor, ok), p_factor, ok, G, P)
        g_old += log_softmax_grad(_seen_grad(g_f, channels, Q, p_old, ok), p_old, ok, G, P) - g_sent - g_factor
        g_n_new += _seen_grad(g_f, channels, Q + 1, own_new, ok) + g_factor
        g_d += _seen_grad(g_f, channels, Q + 6, d, ok)
        tl.store(g_msg + at, g_old, mask=real)
        tl.store(g_new + at, g_n_new, mask=real)
        tl.store(g_delta + at, centred(g_d, ok, D, G, P), mask=real)
        tl.atomic_add(g_belief + s, g_belief_row + g_sent + g_factor, mask=real, sem="relaxed")
    own_w = g_w + tl.program_id(0).to(tl.int64) * SIZE
    put_matrix(own_w, 0, d_f_r, FP, CP)
    put_matrix(own_w, FP * CP, d_f_z, FP, CP)
    put_matrix(own_w, 2 * FP * CP, d_f_n, FP, CP)
    put_matrix(own_w, U, d_u_r, CP, CP)
    put_matrix(own_w, U + CP * CP, d_u_z, CP, CP)
    put_matrix(own_w, U + 2 * CP * CP, d_u_n, CP, CP)
    put_matrix(own_w, HID, d_h_r, CP, CP)
    put_matrix(own_w, HID + CP * CP, d_h_z, CP, CP)
    put_matrix(own_w, HID + 2 * CP * CP, d_h_n, CP, CP)
    put_vector(own_w, BIAS, d_r, CP)
    put_vector(own_w, BIAS + CP, d_z, CP)
    put_vector(own_w, BIAS + 2 * CP, d_n, CP)
    put_vector(own_w, BIAS + 3 * CP, d_r, CP)
    put_vector(own_w, BIAS + 4 * CP, d_z, CP)
    put_vector(own_w, BIAS + 5 * CP, d_hidden, CP)
    put_vector(own_w, OUT, d_alpha, CP)
    put_vector(own_w, OUT + CP, d_epsilon, CP)
    put_vector(own_w, OUT + 2 * CP, d_kappa, CP)
    put_vector(own_w, OUT + 3 * CP, d_tau, CP)
    put_vector(own_w, OUT + 4 * CP, d_bias, 4)
