# mypy: ignore-errors
"""Log ratios of the messages of factors over binary variables: one branch per kind that has ratio kernels."""

from equifactor.factors.clause.clause_ratio_kernels import max_clauses, sum_clauses
from equifactor.factors.kind_numbers import CLAUSE
from equifactor.factors.parity.parity_ratio_kernels import max_parities, sum_parities
from equifactor.factors.ratio_rows import LANES, ROWS
from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def update_ratios(kind, work, arity, sign_of_edge, base, lanes, is_max):
    """Replace the log ratios that arrive at `lanes` factors of one kind and arity by those that they send.

    Args:
        kind: the number of the kind.
        work: the rows of the factors; see `ratio_rows`.
        arity: the number of slots of each factor.
        sign_of_edge: [E] 1 or -1: the sign of each literal; all 1 for a kind without words.
        base: the first edge of the factors.
        lanes: the number of factors, at most `LANES`.
        is_max: max-product instead of sum-product.
    """
    if kind == CLAUSE:
        _turn(work, arity, sign_of_edge, base, lanes)
        if is_max:
            max_clauses(work, arity)
        else:
            sum_clauses(work, arity)
        _turn(work, arity, sign_of_edge, base, lanes)
    elif is_max:
        max_parities(work, arity)
    else:
        sum_parities(work, arity)


@fast_kernel
def _turn(work, arity, sign_of_edge, base, lanes):
    """Turn ratios of variables into those of literals, or back."""
    for s in range(arity):
        first, at = base + s * lanes, s * ROWS * LANES
        for f in range(lanes):
            put(work, at + f, get(work, at + f) * get(sign_of_edge, first + f))
