# mypy: ignore-errors
"""Kernels of everything that passes through the tables of pair factors: the BP message and Q learned channels.

A tile has B factors; its rows are [B, 2, P], first the states of the first variable. FP columns hold the Q channels.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equifactor.solvers.learned.fused.triton_math import (
    dot,
    edge_sums,
    leaky,
    leaky_slope,
    log_softmax,
    log_softmax_grad,
    matrix,
    put_matrix,
    put_vector,
    squash,
    squash_slope,
    vector,
)


@triton.jit
def _side(x, j, B: tl.constexpr, P: tl.constexpr):
    """Return [B, P] the rows of the first (0) or second (1) variable."""
    rows = tl.reshape(x, (B, 2, P))
    return tl.sum(tl.where(tl.arange(0, 2)[None, :, None] == j, rows, 0.0), 1)


@triton.jit
def _sides(x, j, B: tl.constexpr, P: tl.constexpr, N: tl.constexpr):
    """Return [B, P, N] the rows of the first (0) or second (1) variable."""
    rows = tl.reshape(x, (B, 2, P, N))
    return tl.sum(tl.where(tl.arange(0, 2)[None, :, None, None] == j, rows, 0.0), 1)


@triton.jit
def _both(first, second, B: tl.constexpr, P: tl.constexpr):
    """Return [B 2 P] rows from those of the two variables."""
    rows = tl.where(tl.arange(0, 2)[None, :, None] == 0, first[:, None, :], second[:, None, :])
    return tl.reshape(rows, (B * 2 * P,))


@triton.jit
def _boths(first, second, B: tl.constexpr, P: tl.constexpr, N: tl.constexpr):
    """Return [B 2 P, N] rows from those of the two variables."""
    rows = tl.where(tl.arange(0, 2)[None, :, None, None] == 0, first[:, None, :, :], second[:, None, :, :])
    return tl.reshape(rows, (B * 2 * P, N))


@triton.jit
def _lse(x, AXIS: tl.constexpr):
    top = tl.max(x, AXIS, keep_dims=True)
    return tl.sum(top, AXIS) + tl.log(tl.sum(tl.exp(x - top), AXIS))


@triton.jit
def _pair_forward(
    old, belief, own_total, own_v, table, inside, beta, gamma, w_u, w_mean, w_out, w_seen, b_in, b_out, ok,
    D: tl.constexpr, P: tl.constexpr, B: tl.constexpr, CP: tl.constexpr, FP: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """Return everything that is computed on a tile, for both passes."""
    G: tl.constexpr = 2 * B
    msg_vf = tl.where(ok, belief - old, 0.0)
    through_0 = tl.where(inside, table + _side(msg_vf, 1, B, P)[:, None, :], -1e30)
    through_1 = tl.where(inside, table + _side(msg_vf, 0, B, P)[:, :, None], -1e30)
    raw_0, raw_1 = _lse(through_0, 2), _lse(through_1, 1)
    new = log_softmax(_both(raw_0, raw_1, B, P), ok, G, P)
    sent = log_softmax(msg_vf, ok, G, P)
    seen = squash(sent)
    u = own_total - own_v
    mean = edge_sums(u, G, P, CP) * (1.0 / D)
    inner = dot(u, w_u, PREC) + dot(mean, w_mean, PREC) + seen[:, None] * w_seen[None, :] + b_in[None, :]
    y = dot(leaky(inner), w_out, PREC) + b_out[None, :] + sent[:, None] * gamma[None, :]
    sharp = table[:, :, :, None] * beta[None, None, None, :]
    learned_0 = tl.where(inside[:, :, :, None], sharp + _sides(y, 1, B, P, FP)[:, None, :, :], -1e30)
    learned_1 = tl.where(inside[:, :, :, None], sharp + _sides(y, 0, B, P, FP)[:, :, None, :], -1e30)
    q_0, q_1 = _lse(learned_0, 2), _lse(learned_1, 1)
    q = tl.where(ok[:, None], _boths(q_0, q_1, B, P, FP), 0.0)
    q = tl.where(ok[:, None], q - edge_sums(q, G, P, FP) * (1.0 / D), 0.0)
    return through_0, through_1, raw_0, raw_1, new, sent, seen, u, mean, inner, learned_0, learned_1, q_0, q_1, q


@triton.jit
def _places(block, factors, first_0, first_1, entries, D: tl.constexpr, P: tl.constexpr, B: tl.constexpr):
    """Return the edge states of the rows and the table entries of a tile, and which of them exist."""
    rows = tl.arange(0, 2 * B * P)
    factor = (block * B + rows // (2 * P)).to(tl.int64)
    x = rows % P
    at = tl.where((rows // P) % 2 == 0, first_0, first_1) + factor * D + x
    n = (block * B + tl.arange(0, B)).to(tl.int64)
    y = tl.arange(0, P)
    entry = entries + n[:, None, None] * (D * D) + y[None, :, None] * D + y[None, None, :]
    inside = (n < n + 1)[:, None, None] & (y < D)[None, :, None] & (y < D)[None, None, :]
    return at, x < D, (factor < factors) & (x < D), entry, inside, inside & (n < factors)[:, None, None]


@triton.jit(do_not_specialize=["factors", "first_0", "first_1", "entries", "blocks"])
def pair_forward(
    msg, belief, total, v, state, phi, w, new, u, q, factors, first_0, first_1, entries, blocks,
    D: tl.constexpr, P: tl.constexpr, B: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, H: tl.constexpr,
    Q: tl.constexpr, FP: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """Write the normalised BP messages new [S2], u [S2, C], and what u sends through the tables, q [S2, Q]."""
    cols, channels = tl.arange(0, CP), tl.arange(0, FP)
    w_u, w_mean, w_out = matrix(w, 0, CP, H), matrix(w, CP * H, CP, H), matrix(w, 2 * CP * H, H, FP)
    rest: tl.constexpr = 2 * CP * H + H * FP
    w_seen, b_in, b_out = vector(w, rest, H), vector(w, rest + H, H), vector(w, rest + 2 * H, FP)
    beta, gamma = vector(w, rest + 2 * H + FP, FP), vector(w, rest + 2 * H + 2 * FP, FP)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        at, ok, real, entry, inside, there = _places(block, factors, first_0, first_1, entries, D, P, B)
        wide = real[:, None] & (cols < C)[None, :]
        s = tl.load(state + at, mask=real, other=0)
        results = _pair_forward(
            tl.load(msg + at, mask=real, other=0.0),
            tl.load(belief + s, mask=real, other=0.0),
            tl.load(total + s[:, None] * C + cols[None, :], mask=wide, other=0.0),
            tl.load(v + at[:, None] * C + cols[None, :], mask=wide, other=0.0),
            tl.load(phi + entry, mask=there, other=0.0),
            inside, beta, gamma, w_u, w_mean, w_out, w_seen, b_in, b_out, ok, D, P, B, CP, FP, PREC,
        )  # fmt: skip
        tl.store(new + at, results[4], mask=real)
        tl.store(u + at[:, None] * C + cols[None, :], results[7], mask=wide)
        tl.store(
            q + at[:, None] * Q + channels[None, :], squash(results[14]), mask=real[:, None] & (channels < Q)[None, :]
        )


@triton.jit(do_not_specialize=["factors", "first_0", "first_1", "entries", "blocks"])
def pair_backward(
    msg, belief, total, v, state, phi, w, g_new, g_u, g_q, g_msg, g_belief, g_total, g_v, g_w,
    factors, first_0, first_1, entries, blocks,
    D: tl.constexpr, P: tl.constexpr, B: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, H: tl.constexpr,
    Q: tl.constexpr, FP: tl.constexpr, PREC: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Write the gradients g_msg [S2] and g_v [S2, C]; add to g_belief [X] and g_total [X, C]; g_w by program."""
    G: tl.constexpr = 2 * B
    cols, channels = tl.arange(0, CP), tl.arange(0, FP)
    w_u, w_mean, w_out = matrix(w, 0, CP, H), matrix(w, CP * H, CP, H), matrix(w, 2 * CP * H, H, FP)
    rest: tl.constexpr = 2 * CP * H + H * FP
    w_seen, b_in, b_out = vector(w, rest, H), vector(w, rest + H, H), vector(w, rest + 2 * H, FP)
    beta, gamma = vector(w, rest + 2 * H + FP, FP), vector(w, rest + 2 * H + 2 * FP, FP)
    d_u, d_mean = tl.zeros((CP, H), tl.float32), tl.zeros((CP, H), tl.float32)
    d_out = tl.zeros((H, FP), tl.float32)
    d_seen, d_b_in = tl.zeros((H,), tl.float32), tl.zeros((H,), tl.float32)
    d_b_out = tl.zeros((FP,), tl.float32)
    d_beta, d_gamma = tl.zeros((FP,), tl.float32), tl.zeros((FP,), tl.float32)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        at, ok, real, entry, inside, there = _places(block, factors, first_0, first_1, entries, D, P, B)
        wide = real[:, None] & (cols < C)[None, :]
        s = tl.load(state + at, mask=real, other=0)
        table = tl.load(phi + entry, mask=there, other=0.0)
        through_0, through_1, raw_0, raw_1, new, sent, seen, u, mean, inner, learned_0, learned_1, q_0, q_1, q = (
            _pair_forward(
                tl.load(msg + at, mask=real, other=0.0),
                tl.load(belief + s, mask=real, other=0.0),
                tl.load(total + s[:, None] * C + cols[None, :], mask=wide, other=0.0),
                tl.load(v + at[:, None] * C + cols[None, :], mask=wide, other=0.0),
                table, inside, beta, gamma, w_u, w_mean, w_out, w_seen, b_in, b_out, ok, D, P, B, CP, FP, PREC,
            )
        )  # fmt: skip
        # The learned channels.
        got = tl.load(
            g_q + at[:, None] * Q + channels[None, :], mask=real[:, None] & (channels < Q)[None, :], other=0.0
        )
        got = got * squash_slope(q)
        got = tl.where(ok[:, None], got - edge_sums(got, G, P, FP) * (1.0 / D), 0.0)
        g_0 = tl.exp(learned_0 - q_0[:, :, None, :]) * _sides(got, 0, B, P, FP)[:, :, None, :]
        g_1 = tl.exp(learned_1 - q_1[:, None, :, :]) * _sides(got, 1, B, P, FP)[:, None, :, :]
        d_beta += tl.sum(tl.sum(tl.sum((g_0 + g_1) * table[:, :, :, None], 2), 1), 0)
        g_y = _boths(tl.sum(g_1, 2), tl.sum(g_0, 1), B, P, FP)
        d_gamma += tl.sum(g_y * sent[:, None], 0)
        d_b_out += tl.sum(g_y, 0)
        d_out += dot(tl.trans(leaky(inner)), g_y, PREC)
        g_in = dot(g_y, tl.trans(w_out), PREC) * leaky_slope(inner)
        d_u += dot(tl.trans(u), g_in, PREC)
        d_mean += dot(tl.trans(mean), g_in, PREC)
        d_seen += tl.sum(g_in * seen[:, None], 0)
        d_b_in += tl.sum(g_in, 0)
        g_all = tl.load(g_u + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        g_all += dot(g_in, tl.trans(w_u), PREC)
        g_all += edge_sums(dot(g_in, tl.trans(w_mean), PREC), G, P, CP) * (1.0 / D)
        tl.store(g_v + at[:, None] * C + cols[None, :], -g_all, mask=wide)
        tl.atomic_add(g_total + s[:, None] * C + cols[None, :], g_all, mask=wide, sem="relaxed")
        # The messages of BP.
        g_sent = tl.sum(g_y * gamma[None, :], 1) + tl.sum(g_in * w_seen[None, :], 1) * squash_slope(sent)
        g_raw = log_softmax_grad(tl.load(g_new + at, mask=real, other=0.0), new, ok, G, P)
        p_0 = tl.exp(through_0 - raw_0[:, :, None]) * _side(g_raw, 0, B, P)[:, :, None]
        p_1 = tl.exp(through_1 - raw_1[:, None, :]) * _side(g_raw, 1, B, P)[:, None, :]
        g_vf = log_softmax_grad(tl.where(ok, g_sent, 0.0), sent, ok, G, P)
        g_vf += _both(tl.sum(p_1, 2), tl.sum(p_0, 1), B, P)
        tl.store(g_msg + at, -g_vf, mask=real)
        tl.atomic_add(g_belief + s, g_vf, mask=real, sem="relaxed")
    own_w = g_w + tl.program_id(0).to(tl.int64) * SIZE
    put_matrix(own_w, 0, d_u, CP, H)
    put_matrix(own_w, CP * H, d_mean, CP, H)
    put_matrix(own_w, 2 * CP * H, d_out, H, FP)
    put_vector(own_w, rest, d_seen, H)
    put_vector(own_w, rest + H, d_b_in, H)
    put_vector(own_w, rest + 2 * H, d_b_out, FP)
    put_vector(own_w, rest + 2 * H + FP, d_beta, FP)
    put_vector(own_w, rest + 2 * H + 2 * FP, d_gamma, FP)
