# mypy: ignore-errors
"""Messages between the clones of one variable, and their part of ln Z."""

import math

from equifactor.base.budget import LEAST_LOG
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel
from equifactor.solvers.regions.relaxation import CloneGroups

_FLOOR = -200.0  # The least log message of a possible state: a message that vanished could never return.


@fast_kernel
def match_clones(p, possible, groups, damping, m, u):
    """Make one round of messages between clones, from the probabilities p [x] of the states of all clones.

    m_c = ln p_c - u_c is the message from a clone, and a new u_c, the message to it, is the sum of the m of the other
    clones. At a fixed point all clones of a variable have the same probabilities, and the sum of m over
    the clones is their log.

    Args:
        p: [x] probabilities of the states of the clones in the relaxed graph.
        possible: [X] states of the original variables that are not excluded.
        groups: a `CloneGroups`, as a plain tuple.
        damping: share of the old message that is kept.
        m: [U] messages from the clones, changed in place.
        u: [U] messages to the clones, changed in place.

    Returns:
        the largest change of an undamped message, in probability, and the term to add to ln Z of the relaxed graph.
    """
    groups = CloneGroups(*groups)
    change, missing = 0.0, 0.0
    for g in range(len(groups.dim)):
        d, first, last = groups.dim[g], groups.clone_ptr[g], groups.clone_ptr[g + 1]
        state, start = groups.state[g], groups.start[g]
        count = last - first
        for k in range(count):
            at, own = start + k * d, groups.p_start[first + k]
            # Old and new messages are compared with a sum of one, and kept with a largest entry of zero.
            top, old_top = NEG_INF, NEG_INF
            for x in range(d):
                if possible[state + x]:
                    old_top = max(old_top, m[at + x])
                    top = max(top, _log_message(p[own + x], u[at + x]))
            total, old_total, pair, pair_top = 0.0, 0.0, 0.0, NEG_INF
            for x in range(d):
                if possible[state + x]:
                    new = max(_log_message(p[own + x], u[at + x]) - top, _FLOOR)
                    total += math.exp(new)
                    old_total += math.exp(m[at + x] - old_top)
                    pair_top = max(pair_top, new + u[at + x])
            for x in range(d):
                if possible[state + x]:
                    new = max(_log_message(p[own + x], u[at + x]) - top, _FLOOR)
                    pair += math.exp(new + u[at + x] - pair_top)
                    old = m[at + x] - old_top
                    change = max(change, abs(math.exp(new) / total - math.exp(old) / old_total))
                    m[at + x] = max(damping * old + (1.0 - damping) * new, _FLOOR)
                    u[at + x] = new  # The undamped message stays here until all clones have theirs.
            missing -= pair_top + math.log(pair)
        missing += _send(count, d, start, state, possible, m, u)
    return change, missing


@fast_kernel
def _log_message(p, u):
    """Return the log message of a clone for one state; a probability that underflows counts as the smallest one."""
    return (math.log(p) if p > 0.0 else LEAST_LOG) - u


@fast_kernel
def _send(count, d, start, state, possible, m, u):
    """Compute u from m for one variable; return the log of the sum over states of its undamped belief."""
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
    _send_to_clones(count, d, start, state, possible, m, u)
    return top + math.log(belief)


@fast_kernel
def _send_to_clones(count, d, start, state, possible, m, u):
    """Compute the message to each clone of one variable: the sum of the others' messages, with a maximum of zero."""
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
    """Exclude the states of the original for which some clone has probability p [x] of zero."""
    for r in range(len(p)):
        if p[r] == 0.0:
            possible[p_state[r]] = False


@fast_kernel
def forbid(possible, groups, u):
    """Set u to zero for possible states and to -inf for impossible ones."""
    groups = CloneGroups(*groups)
    for g in range(len(groups.dim)):
        d, start, state = groups.dim[g], groups.start[g], groups.state[g]
        for k in range(groups.clone_ptr[g + 1] - groups.clone_ptr[g]):
            for x in range(d):
                u[start + k * d + x] = 0.0 if possible[state + x] else NEG_INF


@fast_kernel
def join_beliefs(p, p_start, var_of_clone, state_ptr, possible, groups, m, belief):
    """Compute beliefs [X] of the original variables: those of a single clone, or the product of messages."""
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
