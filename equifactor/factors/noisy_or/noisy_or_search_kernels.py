# mypy: ignore-errors
"""The best assignment of a noisy-or for each of its messages, by the search of `noisy_or_kernels`."""

import math

import numpy as np

from equifactor.factors.noisy_or.noisy_or_kernels import noisy_or_maximum
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def best_of_each_state(edge_ptr, value_ptr, word_ptr, words, log_values, q, chosen):
    """Fill chosen [sum of 2 k k] with the best states of all k slots given each of the 2 k edge states, by factor."""
    at = 0
    for p in range(len(edge_ptr) - 1):
        m, k = 2 * edge_ptr[p], edge_ptr[p + 1] - edge_ptr[p]
        own = q[m : m + 2 * k].copy()
        states = np.empty(k, np.int64)
        for x in range(2 * k):
            here, other = own[x], own[x ^ 1]
            own[x], own[x ^ 1] = 0.0, -math.inf
            noisy_or_maximum(0, k, log_values, value_ptr[p], words, word_ptr[p], own, states)
            own[x], own[x ^ 1] = here, other
            for j in range(k):
                chosen[at + j] = states[j]
            chosen[at + x // 2] = x % 2
            at += k


@fast_kernel
def best_of_all(edge_ptr, value_ptr, word_ptr, words, log_values, q, chosen, gap):
    """Fill chosen [e] with the best states found of every factor, and gap [N] with how much better the best can be."""
    for p in range(len(edge_ptr) - 1):
        m, k = 2 * edge_ptr[p], edge_ptr[p + 1] - edge_ptr[p]
        bound, found = noisy_or_maximum(
            m, k, log_values, value_ptr[p], words, word_ptr[p], q, chosen[edge_ptr[p] : edge_ptr[p + 1]]
        )  # fmt: skip
        gap[p] = bound - found if found > -math.inf else 0.0
