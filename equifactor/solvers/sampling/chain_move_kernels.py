# mypy: ignore-errors
"""Moves beside draws of blocks: jumps along the difference of two states, and exchanges between temperatures."""

import math

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel
from equifactor.kernels.randomness import random_below, random_unit

BEFORE = 4  # The place of `before` in the argument `jumps` of `jump`.


@fast_kernel
def jump(x, rng, cut, pool, jumps):
    """Change the cutset of a state x [V] along the difference of two states of a pool; return whether it changed.

    The variables in which states a and b of the pool [M, V] differ fall into connected parts. One part is chosen, that
    of a random variable of the cutset. In it every cut variable of x in the state of a goes to the state of b, and the
    other way round. The same jump leads back, so it is accepted by the sums over the block alone. The pool does not
    depend on x. If it held the present states of other chains, the last chain in a mode could never leave it, because
    no two others would differ there. jumps is (ptr, adj, mark, stack, before) with the graph of neighbours and scratch
    [V]; `before` takes the states of the cutset.
    """
    ptr, adj, mark, stack, before = jumps
    one = random_below(rng, len(pool))
    two = (one + 1 + random_below(rng, len(pool) - 1)) % len(pool)
    a, b, now = pool[one], pool[two], x
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
    """Return the log score of an assignment x [V]."""
    total = 0.0
    for a in range(len(scope_ptr) - 1):
        at = table_ptr[a]
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            at += strides[e] * x[scope_vars[e]]
        total += log_phi[at]
    return total


@fast_kernel
def exchange(log_phi, x, rng, odd, model, tried, taken):
    """Try to exchange the states of neighbouring temperatures of every chain; pairs begin at temperature `odd`.

    model is (scope_ptr, scope_vars, strides, table_ptr). tried and taken [R] count tries and exchanges with the next
    temperature.
    """
    scope_ptr, scope_vars, strides, table_ptr = model
    temperatures = len(log_phi)
    for chain in range(len(x) // temperatures):
        for r in range(odd, temperatures - 1, 2):
            low, high = chain * temperatures + r, chain * temperatures + r + 1
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
