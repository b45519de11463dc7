# mypy: ignore-errors
"""Kernels of v = MLP1[h, mean of h], of its sum at each variable state, and of the sum of messages there."""

from __future__ import annotations

import triton
import triton.language as tl

from equifactor.solvers.learned.fused.triton_math import (
    dot,
    edge_sums,
    leaky,
    leaky_slope,
    matrix,
    put_matrix,
    put_vector,
    vector,
)


@triton.jit(do_not_specialize=["edges", "blocks"])
def node_forward(
    msg, h, state, w, v, total, belief, edges, blocks,
    D: tl.constexpr, P: tl.constexpr, G: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, H: tl.constexpr,
    PREC: tl.constexpr,
):  # fmt: skip
    """Write v [S2, C]; add v to total [X, C] and msg to belief [X]. Weights: W_h, W_mean [CP, H], W_out, biases."""
    R: tl.constexpr = G * P
    rows, cols = tl.arange(0, R), tl.arange(0, CP)
    x = rows % P
    w_h, w_mean = matrix(w, 0, CP, H), matrix(w, CP * H, CP, H)
    w_out = matrix(w, 2 * CP * H, H, CP)
    b_in, b_out = vector(w, 3 * CP * H, H), vector(w, 3 * CP * H + H, CP)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        edge = (block * G + rows // P).to(tl.int64)
        at, ok = edge * D + x, (edge < edges) & (x < D)
        wide = ok[:, None] & (cols < C)[None, :]
        s = tl.load(state + at, mask=ok, other=0)
        tl.atomic_add(belief + s, tl.load(msg + at, mask=ok, other=0.0), mask=ok, sem="relaxed")
        own = tl.load(h + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        mean = edge_sums(own, G, P, CP) * (1.0 / D)
        inner = dot(own, w_h, PREC) + dot(mean, w_mean, PREC) + b_in[None, :]
        out = dot(leaky(inner), w_out, PREC) + b_out[None, :]
        tl.store(v + at[:, None] * C + cols[None, :], out, mask=wide)
        tl.atomic_add(total + s[:, None] * C + cols[None, :], out, mask=wide, sem="relaxed")


@triton.jit(do_not_specialize=["edges", "blocks"])
def node_backward(
    h, state, w, g_v, g_total, g_belief, g_msg, g_h, g_w, edges, blocks,
    D: tl.constexpr, P: tl.constexpr, G: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, H: tl.constexpr,
    PREC: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Write the gradients of `node_forward`; each program writes its share of those of the weights, [SIZE]."""
    R: tl.constexpr = G * P
    rows, cols = tl.arange(0, R), tl.arange(0, CP)
    x = rows % P
    w_h, w_mean = matrix(w, 0, CP, H), matrix(w, CP * H, CP, H)
    w_out = matrix(w, 2 * CP * H, H, CP)
    b_in = vector(w, 3 * CP * H, H)
    d_h, d_mean = tl.zeros((CP, H), tl.float32), tl.zeros((CP, H), tl.float32)
    d_out = tl.zeros((H, CP), tl.float32)
    d_b_in, d_b_out = tl.zeros((H,), tl.float32), tl.zeros((CP,), tl.float32)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        edge = (block * G + rows // P).to(tl.int64)
        at, ok = edge * D + x, (edge < edges) & (x < D)
        wide = ok[:, None] & (cols < C)[None, :]
        s = tl.load(state + at, mask=ok, other=0)
        tl.store(g_msg + at, tl.load(g_belief + s, mask=ok, other=0.0), mask=ok)
        own = tl.load(h + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        mean = edge_sums(own, G, P, CP) * (1.0 / D)
        inner = dot(own, w_h, PREC) + dot(mean, w_mean, PREC) + b_in[None, :]
        g_out = tl.load(g_v + at[:, None] * C + cols[None, :], mask=wide, other=0.0)
        g_out += tl.load(g_total + s[:, None] * C + cols[None, :], mask=wide, other=0.0)
        g_in = dot(g_out, tl.trans(w_out), PREC) * leaky_slope(inner)
        g_mean = dot(g_in, tl.trans(w_mean), PREC)
        g_own = dot(g_in, tl.trans(w_h), PREC) + edge_sums(g_mean, G, P, CP) * (1.0 / D)
        tl.store(g_h + at[:, None] * C + cols[None, :], g_own, mask=wide)
        d_out += dot(tl.trans(leaky(inner)), g_out, PREC)
        d_h += dot(tl.trans(own), g_in, PREC)
        d_mean += dot(tl.trans(mean), g_in, PREC)
        d_b_in += tl.sum(g_in, 0)
        d_b_out += tl.sum(g_out, 0)
    own_w = g_w + tl.program_id(0).to(tl.int64) * SIZE
    put_matrix(own_w, 0, d_h, CP, H)
    put_matrix(own_w, CP * H, d_mean, CP, H)
    put_matrix(own_w, 2 * CP * H, d_out, H, CP)
    put_vector(own_w, 3 * CP * H, d_b_in, H)
    put_vector(own_w, 3 * CP * H + H, d_b_out, CP)
