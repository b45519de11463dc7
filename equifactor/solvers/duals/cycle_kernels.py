# mypy: ignore-errors
"""Tightening of the dual by triplets of variables, and the search for cycles that need them.

A triplet i < j < k holds three pair factors (i, j), (j, k), (i, k), given by their first table entries, and a message
to each, `lam`. The triplet's own table is minus the sum of its messages; its maximum is 0 after every update.
"""

import math

import numpy as np

from equifactor.factors.factor_messages import step
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined, kernel


@fast_kernel
def messages_into_tables(factors, slots, log_phi, back, at):
    """Move the messages of every factor of arity 2 and more into its table: log_phi += sum_i back_i, back = 0."""
    for p in range(len(factors) - 1):
        first = factors[p, SLOT]
        arity = factors[p + 1, SLOT] - first
        if arity < 2:
            continue
        if arity == 2:
            m1, m2, t = slots[first, MSG], slots[first + 1, MSG], factors[p, ENTRY]
            for x in range(slots[first, CARD]):
                for y in range(slots[first + 1, CARD]):
                    log_phi[t] += back[m1 + x] + back[m2 + y]
                    t += 1
            continue
        for j in range(arity):
            at[j] = slots[first + j, MSG]
        for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
            for j in range(arity):
                log_phi[t] += back[at[j]]
            step(slots, first, arity, at)
    back[:] = 0.0


@fast_kernel
def sweep_triplets(order, entries, shapes, lam_ptr, lam, log_phi, best):
    """Share the max-marginals of each triplet over pairs equally among its three pair tables, in place.

    entries [C, 3] are the first entries of the pair tables in log_phi, shapes [C, 3] the cardinalities of the three
    variables, and lam_ptr [C+1] the places of the messages in `lam`. `best` is scratch for three pair tables. An entry
    that no joint state of the triplet supports becomes -inf permanently. A triplet costs O(d^3).
    """
    for c in order:
        ij, jk, ik = entries[c, 0], entries[c, 1], entries[c, 2]
        di, dj, dk = shapes[c, 0], shapes[c, 1], shapes[c, 2]
        at_ij = lam_ptr[c]
        at_jk = at_ij + di * dj
        at_ik = at_jk + dj * dk
        size = di * dj + dj * dk + di * dk
        _without(log_phi, ij, lam, at_ij, di * dj)
        _without(log_phi, jk, lam, at_jk, dj * dk)
        _without(log_phi, ik, lam, at_ik, di * dk)
        for n in range(size):
            best[n] = NEG_INF
        b_jk, b_ik = di * dj, di * dj + dj * dk
        for x in range(di):
            for y in range(dj):
                v = log_phi[ij + x * dj + y]
                top = NEG_INF
                for z in range(dk):
                    w = v + log_phi[jk + y * dk + z] + log_phi[ik + x * dk + z]
                    top = max(top, w)
                    best[b_jk + y * dk + z] = max(best[b_jk + y * dk + z], w)
                    best[b_ik + x * dk + z] = max(best[b_ik + x * dk + z], w)
                best[x * dj + y] = top
        _share(log_phi, ij, lam, at_ij, best, 0, di * dj)
        _share(log_phi, jk, lam, at_jk, best, b_jk, dj * dk)
        _share(log_phi, ik, lam, at_ik, best, b_ik, di * dk)


@inlined
def _without(log_phi, start, lam, at, size):
    """Remove the message of a triplet from a pair table."""
    for n in range(size):
        log_phi[start + n] -= lam[at + n]


@inlined
def _share(log_phi, start, lam, at, best, first, size):
    """Make the pair table a third of the max-marginal; the message is the difference, +inf where the table is -inf."""
    for n in range(size):
        third = best[first + n] / 3.0
        lam[at + n] = math.inf if third == NEG_INF else third - log_phi[start + n]
        log_phi[start + n] = third


@fast_kernel
def sum_of_triplet_maxima(shapes, lam_ptr, lam):
    """Return the sum over triplets of the largest entry of their tables, which are minus the sums of their messages."""
    total = 0.0
    for c in range(len(shapes)):
        di, dj, dk = shapes[c, 0], shapes[c, 1], shapes[c, 2]
        ij = lam_ptr[c]
        jk = ij + di * dj
        ik = jk + dj * dk
        top = NEG_INF
        for x in range(di):
            for y in range(dj):
                for z in range(dk):
                    top = max(top, -lam[ij + x * dj + y] - lam[jk + y * dk + z] - lam[ik + x * dk + z])
        total += top
    return total


@fast_kernel
def pair_signs(pairs, entries, var_ptr, log_phi, states):
    """Return how much each pair table [P] prefers agreement: max(both at or both off `states`) - max(only one at)."""
    sign = np.empty(len(pairs))
    for e in range(len(pairs)):
        i, j = pairs[e, 0], pairs[e, 1]
        di, dj = var_ptr[i + 1] - var_ptr[i], var_ptr[j + 1] - var_ptr[j]
        agree, differ = NEG_INF, NEG_INF
        for x in range(di):
            for y in range(dj):
                v = log_phi[entries[e] + x * dj + y]
                if (x == states[i]) == (y == states[j]):
                    agree = max(agree, v)
                else:
                    differ = max(differ, v)
        if agree == NEG_INF or differ == NEG_INF:
            sign[e] = 1e300 if agree > differ else -1e300 if differ > agree else 0.0
        else:
            sign[e] = agree - differ
    return sign


@kernel
def frustrated_cycles(order, pairs, sign, pair_ptr, pairs_of_var, least, longest, visits, most):
    """Find cycles with an odd number of disagreeing pairs; the triplets of each lower the bound by its weakest sign.

    Every pair in turn, strongest first, is taken as the weakest of its cycle. Breadth-first search over (variable,
    parity) finds the shortest path of pairs at least as strong that closes an odd cycle.

    Args:
        order: [P] the pairs, strongest first.
        pairs: [P, 2] their variables.
        sign: [P] how much each prefers agreement; see `pair_signs`.
        pair_ptr: [V+1] row pointers of `pairs_of_var`.
        pairs_of_var: [2P] the pairs around each variable.
        least: a sign weaker than this counts as zero.
        longest: the most variables of a cycle.
        visits: the most nodes of one search.
        most: the most cycles to find.

    Returns:
        the variables of each cycle [most, longest], padded by -1, and the number of cycles.
    """
    num_vars = len(pair_ptr) - 1
    cycles = np.full((most, longest), -1, np.int64)
    came_from = np.empty(2 * num_vars, np.int64)
    depth = np.empty(2 * num_vars, np.int64)
    stamp = np.full(2 * num_vars, -1, np.int64)
    queue = np.empty(2 * num_vars, np.int64)
    found = 0
    for n in range(len(order)):
        e = order[n]
        strength = abs(sign[e])
        if strength <= least or found == most:
            break
        start, goal = pairs[e, 0], pairs[e, 1]
        wanted = 2 * goal + (1 if sign[e] > 0.0 else 0)  # the path must disagree where the pair agrees
        queue[0] = 2 * start
        stamp[2 * start] = n
        depth[2 * start] = 1
        came_from[2 * start] = -1
        head, tail = 0, 1
        while head < tail and stamp[wanted] != n and tail < visits:
            node = queue[head]
            head += 1
            if depth[node] == longest:
                break
            i, parity = node // 2, node % 2
            for r in range(pair_ptr[i], pair_ptr[i + 1]):
                b = pairs_of_var[r]
                if b == e or abs(sign[b]) < strength:
                    continue
                j = pairs[b, 0] + pairs[b, 1] - i
                other = 2 * j + (parity if sign[b] > 0.0 else 1 - parity)
                if stamp[other] != n:
                    stamp[other] = n
                    came_from[other] = node
                    depth[other] = depth[node] + 1
                    queue[tail] = other
                    tail += 1
        if stamp[wanted] != n:
            continue
        node, k, simple = wanted, 0, True
        while node >= 0:
            for m in range(k):
                simple = simple and cycles[found, m] != node // 2
            cycles[found, k] = node // 2
            k += 1
            node = came_from[node]
        if simple and k >= 3:
            found += 1
        else:
            cycles[found, :] = -1
    return cycles, found
