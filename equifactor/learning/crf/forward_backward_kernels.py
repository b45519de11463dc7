# mypy: ignore-errors
"""Forward-backward on a batch of chains.

Symbols:
alpha_t(j) = ln of the sum over all beginnings that end in state j at place t
beta_t(i) = ln of the sum over all endings after state i at place t

Transitions are exponentiated once, with each column scaled to a largest entry of 1. So a step takes d exponentials
instead of d^2. A sum below SAFE may have lost its largest terms to underflow, and is computed again in logs, to the
same precision.
"""

import math

import numpy as np

from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, exp_
from equifactor.kernels.jit import fast_kernel

SAFE = 1e-250  # Sums below this are computed again in logs. Far above the smallest normal number, 2e-308.
_LARGE = 300.0  # Up to this exponent, the product of the two parts of a probability has no subnormal factor.


@fast_kernel
def forward_backward(emissions, transitions, lengths, with_marginals, log_z, p, pairs):
    """Compute sums over all paths of chains.

    emissions [B, T, d] and transitions [B or 1, T-1 or 1, d, d] are logs, and lengths [B] are at least 1. The kernel
    fills log_z [B]. If wanted, it also fills the probabilities p [B, T, d] of states, which are zero beyond the end of
    a chain, and pairs [B, T-1 or 1, d, d] of neighbours. Pairs are summed over all places that share transitions.
    """
    batch, places, d = emissions.shape
    alpha = np.empty((places, d))
    beta = np.empty(d)
    weight, total, inner = np.empty(d), np.empty(d), np.empty(d)
    scaled, top = np.empty(transitions.shape), np.empty(transitions.shape[:3])
    for b in range(transitions.shape[0]):
        for t in range(transitions.shape[1]):
            _scale_columns(transitions[b, t], scaled[b, t], top[b, t])
    for b in range(batch):
        b_ = b if transitions.shape[0] > 1 else 0
        end = lengths[b]
        for j in range(d):
            alpha[0, j] = emissions[b, 0, j]
        for t in range(1, end):
            t_ = t - 1 if transitions.shape[1] > 1 else 0
            A, E, c = transitions[b_, t_], scaled[b_, t_], top[b_, t_]
            largest = _exponentials(alpha[t - 1], weight)
            for j in range(d):
                total[j] = 0.0
            for i in range(d):
                for j in range(d):
                    total[j] += weight[i] * E[i, j]
            for j in range(d):
                value = largest + c[j] + math.log(total[j]) if total[j] >= SAFE else _column(alpha[t - 1], A, j)
                alpha[t, j] = value + emissions[b, t, j]
        largest = _exponentials(alpha[end - 1], weight)
        whole = 0.0
        for j in range(d):
            whole += weight[j]
        log_z[b] = largest + math.log(whole) if largest > NEG_INF else NEG_INF
        if not with_marginals:
            continue
        if log_z[b] == NEG_INF:
            p[b] = 0.0
            pairs[b] = 0.0
            continue
        pairs[b] = 0.0
        for t in range(end, places):
            for j in range(d):
                p[b, t, j] = 0.0
        for j in range(d):
            beta[j] = 0.0
            p[b, end - 1, j] = weight[j] / whole
        for t in range(end - 2, -1, -1):
            t_ = t if transitions.shape[1] > 1 else 0
            A, E, c, q = transitions[b_, t_], scaled[b_, t_], top[b_, t_], pairs[b, t_]
            for j in range(d):
                # ln of the sum over all endings from state j at place t + 1 on
                inner[j] = beta[j] + emissions[b, t + 1, j]
                total[j] = inner[j] + c[j]
            largest = _exponentials(total, weight)
            for i in range(d):
                s = 0.0
                for j in range(d):
                    s += E[i, j] * weight[j]
                beta[i] = largest + math.log(s) if s >= SAFE else _row(inner, A, i)
            # The probability of a pair is exp(alpha_i + A_ij + inner_j - ln Z), in two parts around the largest weight.
            for i in range(d):
                gap = alpha[t, i] + largest - log_z[b]
                if gap > _LARGE:  # The other part may have lost digits, so the entries are computed one by one.
                    for j in range(d):
                        q[i, j] += math.exp(alpha[t, i] + A[i, j] + inner[j] - log_z[b])
                elif gap > MIN_EXP:
                    factor = exp_(gap)
                    for j in range(d):
                        q[i, j] += factor * E[i, j] * weight[j]
            for i in range(d):
                gap = alpha[t, i] + beta[i] - log_z[b]
                p[b, t, i] = exp_(gap) if gap > MIN_EXP else 0.0


@fast_kernel
def marginal_changes(emissions, transitions, lengths, u, v, of_states, of_pairs):
    """Compute the changes of the probabilities when the logs change along u [B, T, d] and v [B, T-1 or 1, d, d].

    The recursions are those of `forward_backward`, in logs throughout. They also compute the change of every alpha,
    beta and ln Z. The change of a log sum is the weighted mean of the changes of its terms. The changes of states and
    pairs are added to of_states and of_pairs, which have the shapes of u and v.
    """
    batch, places, d = emissions.shape
    alpha, alpha_moved = np.empty((places, d)), np.zeros((places, d))
    beta, beta_moved, inner, inner_moved = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for b in range(batch):
        b_ = b if transitions.shape[0] > 1 else 0
        end = lengths[b]
        for j in range(d):
            alpha[0, j], alpha_moved[0, j] = emissions[b, 0, j], u[b, 0, j]
        for t in range(1, end):
            t_ = t - 1 if transitions.shape[1] > 1 else 0
            for j in range(d):
                total, moved = _log_sum(alpha[t - 1], alpha_moved[t - 1], transitions[b_, t_, :, j], v[b, t_, :, j])
                alpha[t, j], alpha_moved[t, j] = total + emissions[b, t, j], moved + u[b, t, j]
        for j in range(d):
            beta[j], beta_moved[j] = 0.0, 0.0
        log_z, log_z_moved = _log_sum(alpha[end - 1], alpha_moved[end - 1], beta, beta_moved)
        if log_z == NEG_INF:
            continue
        for t in range(end - 1, -1, -1):
            if t < end - 1:
                t_ = t if transitions.shape[1] > 1 else 0
                for j in range(d):
                    inner[j], inner_moved[j] = beta[j] + emissions[b, t + 1, j], beta_moved[j] + u[b, t + 1, j]
                for i in range(d):
                    A, w = transitions[b_, t_, i], v[b, t_, i]
                    beta[i], beta_moved[i] = _log_sum(inner, inner_moved, A, w)
                    for j in range(d):
                        moved = alpha_moved[t, i] + w[j] + inner_moved[j] - log_z_moved
                        of_pairs[b, t_, i, j] += math.exp(alpha[t, i] + A[j] + inner[j] - log_z) * moved
            for i in range(d):
                moved = alpha_moved[t, i] + beta_moved[i] - log_z_moved
                of_states[b, t, i] += math.exp(alpha[t, i] + beta[i] - log_z) * moved


@fast_kernel
def _log_sum(x, x_moved, y, y_moved):
    """Return ln sum_k exp(x_k + y_k) and its change; (-inf, 0) if all terms are zero."""
    top, total, moved = NEG_INF, 0.0, 0.0
    for k in range(len(x)):
        top = max(top, x[k] + y[k])
    if top == NEG_INF:
        return NEG_INF, 0.0
    for k in range(len(x)):
        weight = math.exp(x[k] + y[k] - top)
        total += weight
        moved += weight * (x_moved[k] + y_moved[k])
    return top + math.log(total), moved / total


@fast_kernel
def _scale_columns(A, E, top):
    """Set E[i, j] = exp(A[i, j] - top[j]); top[j] is the largest entry of column j, or 0 if that entry is -inf."""
    d = len(A)
    for j in range(d):
        top[j] = NEG_INF
        for i in range(d):
            top[j] = max(top[j], A[i, j])
        if top[j] == NEG_INF:
            top[j] = 0.0
    for i in range(d):
        for j in range(d):
            E[i, j] = math.exp(A[i, j] - top[j])


@fast_kernel
def _exponentials(logs, weight):
    """Set weight = exp(logs - largest) and return the largest log; all weights are zero if it is -inf."""
    largest = NEG_INF
    for j in range(len(logs)):
        largest = max(largest, logs[j])
    shift = largest if largest > NEG_INF else 0.0
    for j in range(len(logs)):
        gap = logs[j] - shift
        weight[j] = exp_(gap) if gap > MIN_EXP else 0.0
    return largest


@fast_kernel
def _column(alpha, A, j):
    """Return ln sum_i exp(alpha_i + A_ij), in logs throughout."""
    top, total = NEG_INF, 0.0
    for i in range(len(alpha)):
        top = max(top, alpha[i] + A[i, j])
    if top == NEG_INF:
        return NEG_INF
    for i in range(len(alpha)):
        total += math.exp(alpha[i] + A[i, j] - top)
    return top + math.log(total)


@fast_kernel
def _row(inner, A, i):
    """Return ln sum_j exp(A_ij + inner_j), in logs throughout."""
    top, total = NEG_INF, 0.0
    for j in range(len(inner)):
        top = max(top, A[i, j] + inner[j])
    if top == NEG_INF:
        return NEG_INF
    for j in range(len(inner)):
        total += math.exp(A[i, j] + inner[j] - top)
    return top + math.log(total)
