# mypy: ignore-errors
"""Clones of one variable that are joined again while tables stay within limits: one bound for all leaves room."""

import numpy as np

from equifactor.kernels.jit import kernel
from equifactor.solvers.elimination.order_kernels import adjacency, clusters
from equifactor.solvers.elimination.orders import MOST_BITS
from equifactor.solvers.regions.relaxation import TableLimits

# The number of clones up to which all pairs are tried; beyond, only neighbours in the order. Halved or doubled: error
# within 10 %.
_ALL_PAIRS = 4


@kernel
def merge_clones(scope_ptr, clone_of_edge, var_of_clone, bits, by_worth, limits, attempts):
    """Join clones while the tables stay within the limits, first for the variables whose splits cost most.

    A joined clone takes the later place of the two in the order of elimination. Of the pairs of a variable that fit,
    the pair with the smallest tables is joined.

    Args:
        scope_ptr: [F+1] pointer to the edges of each factor.
        clone_of_edge: [E] clone that each edge belongs to.
        var_of_clone: [C] in the order of elimination.
        bits: [V] log2 of the states of each variable.
        by_worth: the split variables, those whose splits cost most first.
        limits: a `TableLimits`, as a plain tuple.
        attempts: most pairs to try.

    Returns:
        the new clone_of_edge and var_of_clone.
    """
    limits = TableLimits(*limits)
    for n in range(len(by_worth)):
        while attempts > 0:
            own = np.flatnonzero(var_of_clone == by_worth[n])
            best_first, best_second, least = -1, -1, np.inf
            for i in range(len(own)):
                last = len(own) if len(own) <= _ALL_PAIRS else min(i + 2, len(own))
                for j in range(i + 1, last):
                    if attempts <= 0:
                        break
                    attempts -= 1
                    edges, variables = _joined(clone_of_edge, var_of_clone, own[i], own[j])
                    entries, kept, largest = _cost(scope_ptr, edges, variables, bits)
                    fits = entries <= limits.entries and kept <= limits.kept and largest <= limits.largest
                    if fits and entries < least:
                        best_first, best_second, least = own[i], own[j], entries
            if best_first < 0:
                break
            clone_of_edge, var_of_clone = _joined(clone_of_edge, var_of_clone, best_first, best_second)
    return clone_of_edge, var_of_clone


@kernel
def _joined(clone_of_edge, var_of_clone, first, second):
    """Return the arrays after clone `first` has joined `second`, which comes later; later clones are renumbered."""
    edges = np.empty_like(clone_of_edge)
    for e in range(len(edges)):
        c = second if clone_of_edge[e] == first else clone_of_edge[e]
        edges[e] = c - 1 if c > first else c
    variables = np.empty(len(var_of_clone) - 1, np.int64)
    for c in range(len(variables)):
        variables[c] = var_of_clone[c + 1 if c >= first else c]
    return edges, variables


@kernel
def _cost(scope_ptr, clone_of_edge, var_of_clone, bits):
    """Return the entries of all tables, the entries that are kept, and log2 of the largest table."""
    num = len(var_of_clone)
    ptr, adj = adjacency(num, scope_ptr, clone_of_edge)
    sep_ptr, separators, parent = clusters(np.arange(num), ptr, adj)
    received = np.zeros(num)
    entries, kept, largest = 0.0, 0.0, 0.0
    for n in range(num):
        size = 0.0
        for r in range(sep_ptr[n], sep_ptr[n + 1]):
            size += bits[var_of_clone[separators[r]]]
        largest = max(largest, size + bits[var_of_clone[n]])
        entries += 2.0 ** min(size + bits[var_of_clone[n]], MOST_BITS)
        kept += 2.0 ** min(size, MOST_BITS)
        if parent[n] >= 0:
            received[parent[n]] += 2.0 ** min(size, MOST_BITS)
    return entries, kept + received.max() if num else kept, largest
