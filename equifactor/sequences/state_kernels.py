# mypy: ignore-errors
"""Compiled passes over one long sequence whose step is a matrix. NumPy takes 8 us a call, whatever it computes.

Symbols: S joint states of a slice, P the next multiple of 8, B slices, U patterns of observations. See slice_sums.py
and best_sequences.py for alpha, beta, e and delta. Step matrices are padded to [P, P], and row i is the state that is
summed: eight rows a round and full vectors take a fifth of the time of single rows of S.
"""

import numpy as np

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined


@inlined
def multiplied(past, matrix, now):
    """Fill now [P] with past [P] times the matrix."""
    now[:] = 0.0
    for i in range(0, len(now), 8):
        a, b, c, d = past[i], past[i + 1], past[i + 2], past[i + 3]
        e, f, g, h = past[i + 4], past[i + 5], past[i + 6], past[i + 7]
        m = matrix[i : i + 8]
        for j in range(len(now)):
            early = a * m[0, j] + b * m[1, j] + c * m[2, j] + d * m[3, j]
            late = e * m[4, j] + f * m[5, j] + g * m[6, j] + h * m[7, j]
            now[j] += early + late


@fast_kernel
def filter_states(before, matrix, rows, index, alpha, totals):
    """Fill alpha [B, S] and the sums totals [B] it was divided by.

    `before` is alpha [S] of the slice before, and e of a slice is a row [S] of rows [U, S], given by index [B].
    """
    B, S = alpha.shape
    past, now = np.zeros(len(matrix)), np.zeros(len(matrix))
    past[:S] = before
    for t in range(B):
        multiplied(past, matrix, now)
        weights = rows[index[t]]
        total = 0.0
        for j in range(S):
            now[j] *= weights[j]
            total += now[j]
        totals[t] = total
        scale = 1.0 / total if total > 0.0 else 1.0
        for j in range(S):
            past[j] = now[j] * scale
            alpha[t, j] = past[j]


@fast_kernel
def smooth_states(beta, matrix, rows, index, alpha, p, inner):
    """Fill p(state | all) and e beta [B, S] from alpha [B, S]; beta [S] goes from the last slice to that before all.

    The matrix is the transposed step. See `filter_states` for rows and index.
    """
    B, S = alpha.shape
    past, now = np.zeros(len(matrix)), np.zeros(len(matrix))
    now[:S] = beta
    for t in range(B - 1, -1, -1):
        weights = rows[index[t]]
        total = 0.0
        top = 0.0
        for j in range(S):
            p[t, j] = alpha[t, j] * now[j]
            total += p[t, j]
            past[j] = weights[j] * now[j]
            inner[t, j] = past[j]
            top = max(top, past[j])
        scale = 1.0 / total if total > 0.0 else 1.0
        for j in range(S):
            p[t, j] *= scale
        scale = 1.0 / top if top > 0.0 else 1.0
        for j in range(S):
            past[j] *= scale
        multiplied(past, matrix, now)
    beta[:] = now[:S]


@fast_kernel
def best_states(before, matrix, rows, index, delta):
    """Fill delta [B, S] from delta [S] of the slice before and logs of the step; ln e of a slice is a row of rows."""
    B, S = delta.shape
    P = len(matrix)
    past, now = np.full(P, NEG_INF), np.zeros(P)
    past[:S] = before
    for t in range(B):
        now[:] = NEG_INF
        for i in range(0, P, 8):
            a, b, c, d = past[i], past[i + 1], past[i + 2], past[i + 3]
            e, f, g, h = past[i + 4], past[i + 5], past[i + 6], past[i + 7]
            m = matrix[i : i + 8]
            for j in range(P):
                early = max(max(a + m[0, j], b + m[1, j]), max(c + m[2, j], d + m[3, j]))
                late = max(max(e + m[4, j], f + m[5, j]), max(g + m[6, j], h + m[7, j]))
                now[j] = max(now[j], max(early, late))
        weights = rows[index[t]]
        for j in range(S):
            past[j] = now[j] + weights[j]
            delta[t, j] = past[j]


@fast_kernel
def trace_states(delta, transposed, path):
    """Fill path [B] from its last entry back: each state attains the maximum of the next."""
    B, S = delta.shape
    for t in range(B - 2, -1, -1):
        row = transposed[path[t + 1]]
        best, found = NEG_INF, 0
        for i in range(S):
            value = delta[t, i] + row[i]
            if value > best:
                best, found = value, i
        path[t] = found
