# mypy: ignore-errors
"""Moves that chains owe to each other: jumps by what two others differ in, and exchanges between temperatures."""

import math

from equifactor.kernels.jit import fast_kernel
from equifactor.kernels.randomness import random_below, random_unit

NEG_INF = -math.inf


@fast_kernel
def jump(x, rng, chain, rungs, cut, jumps):
    """Change the cutset of a chain by what two other chains of its rung differ in; whether there was such a change.

    Where chains l and m differ, variables fall into connected parts. In one of them, that of a random variable of the
    cutset, every cut variable of our chain in the state of l goes to that of m and the other way round. The same jump
    leads back, so that it is accepted or not by the sums over the block alone. jumps is (ptr, adj, mark, stack, before)
    with the graph of neighbours and scratch [V]; `before` takes the states of the cutset.
    """
    ptr, adj, mark, stack, before = jumps
    ladders = len(x) // rungs
    own, rung = chain // rungs, chain % rungs
    one = (own + 1 + random_below(rng, ladders - 1)) % ladders
    two = (one + 1 + random_below(rng, ladders - 2)) % ladders
    if two == own or (own - one) % ladders < (two - one) % ladders:  # Two distances from `one`, without that of `own`.
        two = (two + 1) % ladders
    a, b, now = x[one * rungs + rung], x[two * rungs + rung], x[chain]
    count = 0
    for k in range(len(cut)):
        before[k] = now[cut[k]]
        count += a[cut[k]] != b[cut[k]]
    if count == 0:
        return False
    pick = random_below(rng, count)
    for k in range(len(cut)):
        if a[cut[k]] != b[cut[k]]:
            if pick == 0:
                stack[0] = cut[k]
                break
            pick -= 1
    for i in range(len(mark)):
        mark[i] = 0
    mark[stack[0]] = 1
    top = 1
    while top:
        top -= 1
        i = stack[top]
        for r in range(ptr[i], ptr[i + 1]):
            j = adj[r]
            if mark[j] == 0 and a[j] != b[j]:
                mark[j] = 1
                stack[top] = j
                top += 1
    changed = False
    for k in range(len(cut)):
        i = cut[k]
        if mark[i]:
            if now[i] == a[i]:
                now[i] = b[i]
                changed = True
            elif now[i] == b[i]:
                now[i] = a[i]
                changed = True
    return changed


@fast_kernel
def log_score(log_phi, x, scope_ptr, scope_vars, strides, table_ptr):
    """The log score of an assignment x [V]."""
    total = 0.0
    for a in range(len(scope_ptr) - 1):
        at = table_ptr[a]
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            at += strides[e] * x[scope_vars[e]]
        total += log_phi[at]
    return total


@fast_kernel
def exchange(log_phi, x, rng, odd, model, tried, taken):
    """Offer neighbouring rungs of every ladder to exchange their states; pairs begin at rung `odd`.

    model is (scope_ptr, scope_vars, strides, table_ptr). tried and taken [R] count offers and exchanges above a rung.
    """
    scope_ptr, scope_vars, strides, table_ptr = model
    rungs = len(log_phi)
    for ladder in range(len(x) // rungs):
        for r in range(odd, rungs - 1, 2):
            low, high = ladder * rungs + r, ladder * rungs + r + 1
            here = log_score(log_phi[r], x[high], scope_ptr, scope_vars, strides, table_ptr)
            tried[r] += 1.0
            if here == NEG_INF:
                continue
            gain = here + log_score(log_phi[r + 1], x[low], scope_ptr, scope_vars, strides, table_ptr)
            gain -= log_score(log_phi[r], x[low], scope_ptr, scope_vars, strides, table_ptr)
            gain -= log_score(log_phi[r + 1], x[high], scope_ptr, scope_vars, strides, table_ptr)
            if gain >= 0.0 or random_unit(rng[low]) < math.exp(max(gain, -700.0)):
                taken[r] += 1.0
                for i in range(x.shape[1]):
                    swap = x[low, i]
                    x[low, i] = x[high, i]
                    x[high, i] = swap
