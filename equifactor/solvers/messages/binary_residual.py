# mypy: ignore-errors
"""Residual belief propagation on binary pairwise models: largest change first, one log ratio per message; no zeros.

The messages are those of `kernels.binary`. An update is the work of one factor: two messages from two sums that are
kept up to date, so its cost is the neighbours whose priority grows.
"""

from equifactor.numerics.fastmath import MIN_EXP, TINY, exp_, get, log_, put
from equifactor.numerics.jit import fast_kernel, inlined
from equifactor.numerics.queue import raise_key, set_key
from equifactor.solvers.messages.binary_kernels import probability


@fast_kernel
def sweep_residual(
    sweeps, lam, total, unary, var_of_edge, tables, damping, is_max, change, graph_of_edge, around_ptr, around, key,
    item, place, tolerance,
):  # fmt: skip
    """So many sweeps of F updates, each of the factor with the largest priority.

    Priorities and verdict are those of `schedules.sweep_residual`.

    Args:
        sweeps: number of sweeps; fewer when the residuals of all factors are within the tolerance.
        lam: [2F] factor-to-variable log ratios, slot 0 of every factor, then slot 1; updated in place.
        total: [V] scratch for the sum into each variable.
        unary: [V] log ratio of the unary factors.
        var_of_edge: [2F].
        tables: [F, 4] entries 00, 01, 10, 11: in the log domain for max, linear for sum.
        damping: share of the old log ratio that is kept.
        is_max: max-product instead of sum-product.
        change: [G] raised to the largest priority left.
        graph_of_edge: [2F].
        around_ptr: [V+1] the pairs of variable i are around[around_ptr[i] : around_ptr[i + 1]].
        around: [2F].
        key: [F + 3] the factors by priority, see `kernels.queue`.
        item: [F].
        place: [F].
        tolerance: on the undamped movement in probability.
    """
    num_factors = len(place)
    for _ in range(sweeps):
        total[:] = unary  # from scratch in each sweep, which removes what rounding has added
        for e in range(len(lam)):
            i = var_of_edge[e]
            put(total, i, get(total, i) + lam[e])
        for _ in range(num_factors):
            if key[0] <= tolerance:
                for f in range(num_factors):
                    _, moved_0 = _message(lam, total, var_of_edge, tables, is_max, num_factors, f, 0)
                    _, moved_1 = _message(lam, total, var_of_edge, tables, is_max, num_factors, f, 1)
                    set_key(key, item, place, f, max(moved_0, moved_1))
                if key[0] <= tolerance:
                    break
            p = item[0]
            new_0, moved_0 = _message(lam, total, var_of_edge, tables, is_max, num_factors, p, 0)
            new_1, moved_1 = _message(lam, total, var_of_edge, tables, is_max, num_factors, p, 1)
            _commit(lam, total, var_of_edge, p, new_0, damping)
            _commit(lam, total, var_of_edge, p + num_factors, new_1, damping)
            _tell(around_ptr, around, get(var_of_edge, p), p, (1.0 - damping) * moved_0, key, item, place)
            _tell(
                around_ptr, around, get(var_of_edge, p + num_factors), p, (1.0 - damping) * moved_1, key, item,
                place,
            )  # fmt: skip
            set_key(key, item, place, p, damping * max(moved_0, moved_1))  # what damping has left to do
    for n in range(num_factors):
        g = graph_of_edge[item[n]]
        change[g] = max(change[g], key[n])


@inlined
def _message(lam, total, var_of_edge, tables, is_max, num_factors, p, slot):
    """Undamped log ratio from factor p to its slot, and how far that is from the present one in probability."""
    own = p + slot * num_factors
    other = p + (1 - slot) * num_factors
    ratio = get(total, get(var_of_edge, other)) - get(lam, other)
    t00, t11 = tables[p, 0], tables[p, 3]
    t01, t10 = tables[p, 1 + slot], tables[p, 2 - slot]  # read transposed for slot 1
    if is_max:
        new = max(t10 + min(-ratio, 0.0), t11 + min(ratio, 0.0)) - max(t00 + min(-ratio, 0.0), t01 + min(ratio, 0.0))
        now = probability(new)
    else:
        small = exp_(max(-abs(ratio), MIN_EXP))
        q0 = small if ratio > 0.0 else 1.0
        q1 = 1.0 if ratio > 0.0 else small
        out_0 = t00 * q0 + t01 * q1
        out_1 = t10 * q0 + t11 * q1
        new = log_(out_1 / out_0)
        now = out_1 / (out_0 + out_1)
    return new, abs(now - probability(get(lam, own)))


@inlined
def _commit(lam, total, var_of_edge, e, new, damping):
    """Store one damped message and bring the sum of its variable up to date."""
    gap = get(lam, e) - new
    new += damping * (gap if abs(gap) > TINY else 0.0)
    i = get(var_of_edge, e)
    put(total, i, get(total, i) + (new - get(lam, e)))
    put(lam, e, new)


@inlined
def _tell(around_ptr, around, i, p, moved, key, item, place):
    """Raise the priority of the other factors of variable i."""
    if moved > TINY:
        for r in range(get(around_ptr, i), get(around_ptr, i + 1)):
            b = get(around, r)
            if b != p:
                raise_key(key, item, place, b, moved)
