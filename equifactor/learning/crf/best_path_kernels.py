# mypy: ignore-errors
"""The best paths of a batch of chains (Viterbi), one or k of them.

Symbols:
delta_t(j) = the best log score of all beginnings that end in state j at place t
delta_t(j, r) = the score of the beginning of rank r, from 0

Among equal scores, the path with the smaller last state comes first, then the path with the smaller state before it,
and so on. All k paths are distinct.
"""

import numpy as np

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def best_path(emissions, transitions, lengths, score, states):
    """Fill score [B] and states [B, T], which stay as they are beyond the end of a chain.

    emissions [B, T, d] and transitions [B or 1, T-1 or 1, d, d] are logs, and lengths [B] are at least 1. The way
    forward only takes maxima, which vectorise over the states. The way back looks for the state that attained each
    maximum, in O(T d).
    """
    batch, places, d = emissions.shape
    delta = np.empty((places, d))
    for b in range(batch):
        b_ = b if transitions.shape[0] > 1 else 0
        end = lengths[b]
        delta[0] = emissions[b, 0]
        for t in range(1, end):
            A = transitions[b_, t - 1 if transitions.shape[1] > 1 else 0]
            now, before = delta[t], delta[t - 1]
            now[:] = NEG_INF
            for i in range(d):
                for j in range(d):
                    now[j] = max(now[j], before[i] + A[i, j])
            for j in range(d):
                now[j] += emissions[b, t, j]
        state = _first_largest(delta[end - 1])
        score[b] = delta[end - 1, state]
        states[b, end - 1] = state
        for t in range(end - 2, -1, -1):
            A = transitions[b_, t if transitions.shape[1] > 1 else 0]
            best, found = NEG_INF, 0
            for i in range(d):
                value = delta[t, i] + A[i, state]
                if value > best:
                    best, found = value, i
            state = found
            states[b, t] = state


@fast_kernel
def best_k_paths(emissions, transitions, lengths, score, states):
    """Fill score [B, k] and states [B, k, T] of the k best paths; a rank without a possible path has score -inf.

    Each state keeps a sorted list of its k best beginnings. The lists of all states before are merged, in O(d k) for
    each state. O(T d^2 k) in all.
    """
    batch, places, d = emissions.shape
    k = score.shape[1]
    delta = np.empty((2, d, k))
    origin = np.empty((places, d, k), np.int64)  # The state before times k, plus its rank.
    head, rank = np.empty(d), np.empty(d, np.int64)
    for b in range(batch):
        b_ = b if transitions.shape[0] > 1 else 0
        end = lengths[b]
        delta[0] = NEG_INF
        delta[0, :, 0] = emissions[b, 0]
        for t in range(1, end):
            A = transitions[b_, t - 1 if transitions.shape[1] > 1 else 0]
            before, now = delta[(t - 1) % 2], delta[t % 2]
            for j in range(d):
                for i in range(d):
                    head[i] = before[i, 0] + A[i, j]
                    rank[i] = 0
                for r in range(k):
                    i = _first_largest(head)
                    now[j, r] = head[i] + emissions[b, t, j]
                    origin[t, j, r] = i * k + rank[i]
                    rank[i] += 1
                    head[i] = before[i, rank[i]] + A[i, j] if rank[i] < k else NEG_INF
        last = delta[(end - 1) % 2]
        for i in range(d):
            head[i] = last[i, 0]
            rank[i] = 0
        for r in range(k):
            i = _first_largest(head)
            score[b, r] = head[i]
            if head[i] == NEG_INF:
                continue
            place = i * k + rank[i]
            for t in range(end - 1, -1, -1):
                states[b, r, t] = place // k
                place = origin[t, place // k, place % k] if t > 0 else 0
            rank[i] += 1
            head[i] = last[i, rank[i]] if rank[i] < k else NEG_INF


@fast_kernel
def _first_largest(values):
    """Return the place of the largest value, the first of equal values."""
    best, found = NEG_INF, 0
    for i in range(len(values)):
        if values[i] > best:
            best, found = values[i], i
    return found
