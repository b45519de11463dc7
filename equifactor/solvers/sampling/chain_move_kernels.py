# mypy: ignore-errors
"""Moves beside draws of blocks: jumps along the difference of two states, and exchanges between temperatures."""

import math

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.randomness import random_below, random_unit

BEFORE = 4  # The place of `before` in the argument `jumps` of `jump`.


@fast_kernel
def mark_part(rng, among, pool, most, links):
    """Mark a connected part of the difference of two states of a pool [M, V]; return the numbers of the two states.

    The part is that of a random variable of `among` in which the two states differ, up to `most` variables of it. It
    depends on the pool and on random numbers alone. Both numbers are -1 if the states do not differ in `among`. links
    is (ptr, adj, mark, stack) with the graph of neighbours and scratch [V]; `mark` takes 1 for the variables of the
    part, 0 for others.
    """
    ptr, adj, mark, stack = links
    one = random_below(rng, len(pool))
    two = (one + 1 + random_below(rng, len(pool) - 1)) % len(pool)
    a, b = pool[one], pool[two]
    count = 0
    for k in range(len(among)):
        count += a[among[k]] != b[among[k]]
    if count == 0:
        return -1, -1
    pick = random_below(rng, count)
    for k in range(len(among)):
        if a[among[k]] != b[among[k]]:
            if pick == 0:
                stack[0] = among[k]
                break
            pick -= 1
    for i in range(len(mark)):
        mark[i] = 0
    mark[stack[0]] = 1
    first, last = 0, 1
    while first < last and last < most:
        i = stack[first]
        first += 1
        for r in range(ptr[i], ptr[i + 1]):
            j = adj[r]
            if mark[j] == 0 and a[j] != b[j] and last < most:
                mark[j] = 1
                stack[last] = j
                last += 1
    return one, two


@inlined
def exchanged(x, a, b):
    """Return b for x = a, a for x = b, and otherwise x."""
    return b if x == a else (a if x == b else x)


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
    for k in range(len(cut)):
        before[k] = x[cut[k]]
    one, two = mark_part(rng, cut, pool, len(mark), (ptr, adj, mark, stack))
    changed = False
    if one >= 0:
        a, b = pool[one], pool[two]
        for k in range(len(cut)):
            i = cut[k]
            if mark[i]:
                y = exchanged(x[i], a[i], b[i])
                changed = changed or y != x[i]
                x[i] = y
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
