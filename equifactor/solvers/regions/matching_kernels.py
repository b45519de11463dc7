# mypy: ignore-errors
"""What clones of one variable tell each other, and what that does to ln Z."""

import math

from equifactor.kernels.jit import fast_kernel
from equifactor.solvers.regions.relaxation import CloneGroups

NEG_INF = -math.inf
_FLOOR = -200.0  # No message is below exp of this, unless the state is impossible: a vanished one could never return.


@fast_kernel
def match_clones(p, possible, groups, damping, m, u):
    """One round of messages between clones, from the probabilities p [x] of the states of all clones.

    m_c = ln p_c - u_c is the clone's own opinion, without what it was told. A new u_c is the sum of the others' m.
    At a fixed point all clones of a variable have the same probabilities, and the sum over clones of m is their log.

    Args:
        p: [x] probabilities of the states of the clones in the relaxed graph.
        possible: [X] states of the original variables that are not excluded.
        groups: a `CloneGroups`, as a plain tuple.
        damping: how much of the old opinion stays.
        m: [U] opinions, changed in place.
        u: [U] what clones are told, changed in place.

    Returns:
        the largest change of an undamped opinion, in probability, and what ln Z of the relaxed graph misses.
    """
    groups = CloneGroups(*groups)
    change, missing = 0.0, 0.0
    for g in range(len(groups.dim)):
        d, first, last = groups.dim[g], groups.clone_ptr[g], groups.clone_ptr[g + 1]
        state, start = groups.state[g], groups.start[g]
        count = last - first
        for k in range(count):
            at, own = start + k * d, groups.p_start[first + k]
            # Both old and new opinions sum to one for the comparison; kept are those with a largest entry of zero.
            top, old_top = NEG_INF, NEG_INF
            for x in range(d):
                if possible[state + x]:
                    old_top = max(old_top, m[at + x])
                    top = max(top, _opinion(p[own + x], u[at + x]))
            total, old_total, pair, pair_top = 0.0, 0.0, 0.0, NEG_INF
            for x in range(d):
                if possible[state + x]:
                    new = max(_opinion(p[own + x], u[at + x]) - top, _FLOOR)
                    total += math.exp(new)
                    old_total += math.exp(m[at + x] - old_top)
                    pair_top = max(pair_top, new + u[at + x])
            for x in range(d):
                if possible[state + x]:
                    new = max(_opinion(p[own + x], u[at + x]) - top, _FLOOR)
                    pair += math.exp(new + u[at + x] - pair_top)
                    old = m[at + x] - old_top
                    change = max(change, abs(math.exp(new) / total - math.exp(old) / old_total))
                    m[at + x] = max(damping * old + (1.0 - damping) * new, _FLOOR)
                    u[at + x] = new  # It is kept here, undamped, until all clones have theirs.
            missing -= pair_top + math.log(pair)
        missing += _tell(count, d, start, state, possible, m, u)
    return change, missing


@fast_kernel
def _opinion(p, u):
    """What a clone says itself; a probability that underflows is as good as the smallest one."""
    return (math.log(p) if p > 0.0 else -745.0) - u


@fast_kernel
def _tell(count, d, start, state, possible, m, u):
    """New u from m for one variable; returns the log of the sum over states of its undamped belief."""
    top = NEG_INF
    for x in range(d):
        if possible[state + x]:
            total = 0.0
            for k in range(count):
                total += u[start + k * d + x]
            top = max(top, total)
    belief = 0.0
    for x in range(d):
        if possible[state + x]:
            total = 0.0
            for k in range(count):
                total += u[start + k * d + x]
            belief += math.exp(total - top)
    _tell_others(count, d, start, state, possible, m, u)
    return top + math.log(belief)


@fast_kernel
def _tell_others(count, d, start, state, possible, m, u):
    """What each clone of one variable is told: the sum of the others' opinions, the largest entry zero."""
    for k in range(count):
        top = NEG_INF
        for x in range(d):
            total = NEG_INF
            if possible[state + x]:
                total = 0.0
                for other in range(count):
                    if other != k:
                        total += m[start + other * d + x]
                top = max(top, total)
            u[start + k * d + x] = total
        for x in range(d):
            u[start + k * d + x] -= top


@fast_kernel
def exclude_states(p, p_state, possible):
    """Strike out the states that some clone excludes, p [x] being sums over all that its part of the model allows."""
    for r in range(len(p)):
        if p[r] == 0.0:
            possible[p_state[r]] = False


@fast_kernel
def forbid(possible, groups, u):
    """Tell every clone which states are impossible, and nothing else."""
    groups = CloneGroups(*groups)
    for g in range(len(groups.dim)):
        d, start, state = groups.dim[g], groups.start[g], groups.state[g]
        for k in range(groups.clone_ptr[g + 1] - groups.clone_ptr[g]):
            for x in range(d):
                u[start + k * d + x] = 0.0 if possible[state + x] else NEG_INF


@fast_kernel
def join_beliefs(p, p_start, var_of_clone, state_ptr, possible, groups, m, belief):
    """Beliefs [X] of the original variables: of one clone its probabilities, of several the product of opinions."""
    groups = CloneGroups(*groups)
    for c in range(len(var_of_clone)):
        first = state_ptr[var_of_clone[c]]
        for x in range(state_ptr[var_of_clone[c] + 1] - first):
            belief[first + x] = p[p_start[c] + x]
    for g in range(len(groups.dim)):
        d, start, state = groups.dim[g], groups.start[g], groups.state[g]
        count = groups.clone_ptr[g + 1] - groups.clone_ptr[g]
        top = NEG_INF
        for x in range(d):
            belief[state + x] = NEG_INF
            if possible[state + x]:
                belief[state + x] = 0.0
                for k in range(count):
                    belief[state + x] += m[start + k * d + x]
                top = max(top, belief[state + x])
        total = 0.0
        for x in range(d):
            belief[state + x] = math.exp(belief[state + x] - top) if possible[state + x] else 0.0
            total += belief[state + x]
        for x in range(d):
            belief[state + x] /= total
