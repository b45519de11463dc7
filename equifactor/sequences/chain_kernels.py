# mypy: ignore-errors
"""Compiled passes over the slices of a factorial model: a small matrix for each group of chains, several in one go.

A state is an array [H, K, L] of groups of chains: those in front, and two groups behind whose tables K L fill half of
the first cache. Each row of a state goes through the matrices of K, is transposed, and goes through those of L. Strips
of columns then go through the matrices of H and are multiplied by e. So a slice takes two passes over memory, and all
products run along contiguous rows.

Symbols: B slices, G groups of weights; see chain_steps.py for `FactorialMoves`, and slice_sums.py for alpha and e.
"""

import numpy as np

from equifactor.kernels.jit import fast_kernel, inlined, reordering_kernel

STRIP = 128  # Columns of a strip: 64 took 1.15 times as long, 32 1.3 times.


@fast_kernel
def move(source, target, A, X, W, m):
    """Multiply the axis X of [A, X, W] by the matrix m [X, X]."""
    if X % 4:
        for a in range(A):
            for y in range(X):
                q = target[(a * X + y) * W : (a * X + y + 1) * W]
                q[:] = 0.0
                for x in range(X):
                    p = source[(a * X + x) * W : (a * X + x + 1) * W]
                    for w in range(W):
                        q[w] += m[x * X + y] * p[w]
        return
    for y in range(0, X, 4):
        for x in range(0, X, 4):
            c = m[x * X + y :]
            a0, a1, a2, a3 = c[0], c[1], c[2], c[3]
            b0, b1, b2, b3 = c[X], c[X + 1], c[X + 2], c[X + 3]
            c0, c1, c2, c3 = c[2 * X], c[2 * X + 1], c[2 * X + 2], c[2 * X + 3]
            d0, d1, d2, d3 = c[3 * X], c[3 * X + 1], c[3 * X + 2], c[3 * X + 3]
            for a in range(A):
                i, j = (a * X + x) * W, (a * X + y) * W
                p0, p1 = source[i : i + W], source[i + W : i + 2 * W]
                p2, p3 = source[i + 2 * W : i + 3 * W], source[i + 3 * W : i + 4 * W]
                q0, q1 = target[j : j + W], target[j + W : j + 2 * W]
                q2, q3 = target[j + 2 * W : j + 3 * W], target[j + 3 * W : j + 4 * W]
                if x == 0:
                    for w in range(W):
                        f, g, h, k = p0[w], p1[w], p2[w], p3[w]  # once, because q might be p
                        q0[w] = f * a0 + g * b0 + h * c0 + k * d0
                        q1[w] = f * a1 + g * b1 + h * c1 + k * d1
                        q2[w] = f * a2 + g * b2 + h * c2 + k * d2
                        q3[w] = f * a3 + g * b3 + h * c3 + k * d3
                else:
                    for w in range(W):
                        f, g, h, k = p0[w], p1[w], p2[w], p3[w]
                        q0[w] += f * a0 + g * b0 + h * c0 + k * d0
                        q1[w] += f * a1 + g * b1 + h * c1 + k * d1
                        q2[w] += f * a2 + g * b2 + h * c2 + k * d2
                        q3[w] += f * a3 + g * b3 + h * c3 + k * d3


@reordering_kernel
def moved(moves, matrices, first, last, now, spare, width):
    """Apply the moves first to last to rows of a width; return the array with the result, and the other one."""
    for n in range(first, last):
        move(now, spare, moves[n, 0], moves[n, 1], moves[n, 2] * width, matrices[moves[n, 3] :])
        now, spare = spare, now
    return now, spare


@inlined
def transposed(source, target, rows, columns):
    """Fill target [columns, rows] from source [rows, columns]."""
    for c in range(columns):
        q = target[c * rows : (c + 1) * rows]
        for r in range(rows):
            q[r] = source[r * columns + c]


@reordering_kernel
def pass_chains(state, moves, ends, matrices, sizes, seen, starts, alpha, result, p, high, low, totals):
    """Go through a block of slices: forward if alpha is empty, otherwise back.

    Forward, `state` [S] is that of the slice before. Each slice of `result` [R, S] is alpha up to its sum in `totals`
    [B]; fewer slices than B hold the last ones. Back, `state` is e beta of the slice after, or ones if `starts`, where
    no step comes. alpha [B, S] is given, `result` is e beta, and p [B, S] is p(state | all) up to `totals`.

    The sums of alpha or p over the groups behind and in front go to `high` [B, H] and `low` [B, K L]. The moves of H, K
    and L end at `ends`; see `moved`. `seen` has the values of weights, the place [G, B] of each table among them, the
    offsets [G, H] and [G, K L] in a table, the number of tables that only H has, and for each row of H one with the
    same other weights.
    """
    H, K, L = sizes
    values, places, high_offsets, low_offsets, only_high, same = seen
    B, KL = len(totals), K * L
    back = len(alpha) > 0
    u, v = np.empty(KL), np.empty(KL)
    tile, other = np.empty(H * STRIP), np.empty(H * STRIP)
    weights, scales = np.empty((H, KL)), np.empty(H)
    scale = 1.0
    for k in range(B):
        t = B - 1 - k if back else k
        for h in range(H):
            scales[h] = scale
            for g in range(only_high):
                scales[h] *= values[places[g, t] + high_offsets[g, h]]
            if same[h] == h:
                row = weights[h]
                row[:] = 1.0
                for g in range(only_high, len(places)):
                    own = values[places[g, t] + high_offsets[g, h] :]
                    offsets = low_offsets[g]
                    for j in range(KL):
                        row[j] *= own[offsets[j]]
        out = result[t % len(result)]
        for h in range(H):
            now, target = state[h * KL : (h + 1) * KL], out[h * KL : (h + 1) * KL]
            if not (starts and k == 0):
                for j in range(KL):
                    u[j] = now[j]
                now, spare = moved(moves, matrices, ends[0], ends[1], u, v, L)
                transposed(now, spare, K, L)
                now, spare = moved(moves, matrices, ends[1], ends[2], spare, now, K)
                transposed(now, spare, L, K)
                now = spare
            for j in range(KL):
                target[j] = now[j]
        sums, columns, total, size = high[t], low[t], 0.0, 0.0
        sums[:] = 0.0
        for j in range(0, KL, STRIP):
            W = min(STRIP, KL - j)
            for h in range(H):
                source, target = out[h * KL + j : h * KL + j + W], tile[h * W : (h + 1) * W]
                for w in range(W):
                    target[w] = source[w]
            now, spare = tile, other
            if not (starts and k == 0):
                now, spare = moved(moves, matrices, 0, ends[0], now, spare, W)
            column = columns[j : j + W]
            column[:] = 0.0
            for h in range(H):
                source, target = now[h * W : (h + 1) * W], out[h * KL + j : h * KL + j + W]
                weight, factor, total = weights[same[h], j : j + W], scales[h], 0.0
                if back:
                    before, both = alpha[t, h * KL + j : h * KL + j + W], p[t, h * KL + j : h * KL + j + W]
                    for w in range(W):
                        both[w] = before[w] * source[w]
                        column[w] += both[w]
                        total += both[w]
                        target[w] = source[w] * weight[w] * factor
                        size += target[w]
                else:
                    for w in range(W):
                        target[w] = source[w] * weight[w] * factor
                        column[w] += target[w]
                        total += target[w]
                sums[h] += total
        total = sums.sum()
        totals[t] = total
        size = size if back else total
        scale = 1.0 / size if size > 0.0 else 1.0
        state = out
