# mypy: ignore-errors
"""ln Z of the pair factors of a binary model, from log ratios."""

from equifactor.numerics.fastmath import MIN_EXP, exp_, get, log_
from equifactor.numerics.jit import fast_kernel


@fast_kernel
def log_pair_sums(lam, total, var_of_edge, log_tables, out):
    """out [F]: log-sum-exp of each table [4, F] plus the messages into it, `total - lam` at state 1 of either variable.

    A fifth of the time of three `np.logaddexp` over all factors.
    """
    count = len(out)
    for f in range(count):
        in_0 = get(total, var_of_edge[f]) - lam[f]
        in_1 = get(total, get(var_of_edge, count + f)) - get(lam, count + f)
        t00 = log_tables[0, f]
        t01 = log_tables[1, f] + in_1
        t10 = log_tables[2, f] + in_0
        t11 = log_tables[3, f] + in_0 + in_1
        top = max(max(t00, t01), max(t10, t11))
        small = exp_(max(t00 - top, MIN_EXP)) + exp_(max(t01 - top, MIN_EXP))
        out[f] = top + log_(small + exp_(max(t10 - top, MIN_EXP)) + exp_(max(t11 - top, MIN_EXP)))
