# mypy: ignore-errors
"""Compiled passes over one long sequence whose step is a matrix. NumPy takes 8 us a call, whatever it computes.

Symbols: S joint states of a slice, B slices. See slice_sums.py and best_sequences.py for alpha, beta, e and delta.
"""

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def filter_states(before, matrix, weights, alpha, totals):
    """Fill alpha [B, S] and the sums totals [B] it was divided by, from alpha [S] of the slice before and e [B, S]."""
    B, S = weights.shape
    for t in range(B):
        now = alpha[t]
        now[:] = 0.0
        for i in range(S):
            if before[i] != 0.0:
                for j in range(S):
                    now[j] += before[i] * matrix[i, j]
        total = 0.0
        for j in range(S):
            now[j] *= weights[t, j]
            total += now[j]
        totals[t] = total
        if total > 0.0:
            for j in range(S):
                now[j] /= total
        before = now


@fast_kernel
def smooth_states(beta, transposed, weights, alpha, p, inner):
    """Fill p(state | all) and e beta [B, S] from alpha [B, S]; beta [S] goes from the last slice to that before all."""
    B, S = weights.shape
    for t in range(B - 1, -1, -1):
        total = 0.0
        for j in range(S):
            p[t, j] = alpha[t, j] * beta[j]
            total += p[t, j]
            inner[t, j] = weights[t, j] * beta[j]
        for j in range(S):
            p[t, j] /= max(total, 1e-300)
        beta[:] = 0.0
        for i in range(S):
            if inner[t, i] != 0.0:
                for j in range(S):
                    beta[j] += inner[t, i] * transposed[i, j]
        top = 0.0
        for j in range(S):
            top = max(top, beta[j])
        if top > 0.0:
            for j in range(S):
                beta[j] /= top


@fast_kernel
def best_states(before, matrix, weights, delta):
    """Fill delta [B, S] from delta [S] of the slice before, ln of the step [S, S] and ln e [B, S]."""
    B, S = weights.shape
    for t in range(B):
        now = delta[t]
        now[:] = NEG_INF
        for i in range(S):
            if before[i] > NEG_INF:
                for j in range(S):
                    now[j] = max(now[j], before[i] + matrix[i, j])
        for j in range(S):
            now[j] += weights[t, j]
        before = now


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
