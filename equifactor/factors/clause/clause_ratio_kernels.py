# mypy: ignore-errors
"""Log ratios of the messages of clauses, `LANES` factors side by side; `ratio_rows` describes `work`.

A clause is an automaton that reads its literals one after the other. Its states are whether a literal has held so far.
Ratios are those of literals, not of variables.
"""

import numpy as np

from equifactor.factors.ratio_rows import LANES, LIMIT, ROWS
from equifactor.kernels.fastmath import exp_, get, log_, put
from equifactor.kernels.jit import fast_kernel

SMALLEST = 1e-300  # Replaces a weight that has vanished.


@fast_kernel
def sum_clauses(work, arity):
    """Update clauses; rows of a slot: ratio or probability of false, of true, weight of none and some before it."""
    for f in range(LANES):
        put(work, 2 * LANES + f, 1.0)
        put(work, 3 * LANES + f, 0.0)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio = get(work, at + f)
            small = exp_(max(-abs(ratio), -LIMIT))
            large = 1.0 / (1.0 + small)
            small = small * large
            false = small if ratio > 0.0 else large
            true = large if ratio > 0.0 else small
            none, some = get(work, at + 2 * LANES + f), get(work, at + 3 * LANES + f)
            put(work, at + f, false)
            put(work, at + LANES + f, true)
            put(work, at + 6 * LANES + f, none * false)
            put(work, at + 7 * LANES + f, some + none * true)
    end = arity * ROWS * LANES
    for f in range(LANES):
        violated = get(work, end + f)
        put(work, end + LANES + f, exp_(min(max(violated, -LIMIT), LIMIT)) if violated > -LIMIT else 0.0)
        put(work, end + 2 * LANES + f, 1.0)
        put(work, end + 3 * LANES + f, 0.0)
    for s in range(arity - 1, -1, -1):
        at = s * ROWS * LANES
        for f in range(LANES):
            false, true = get(work, at + f), get(work, at + LANES + f)
            none, some = get(work, at + 2 * LANES + f), get(work, at + 3 * LANES + f)
            none_after, some_after = get(work, at + 6 * LANES + f), get(work, at + 7 * LANES + f)
            # The total weight is 1 if this literal holds. If it fails, the other literals decide.
            rest = some + none * some_after + none * none_after * get(work, end + LANES + f)
            put(work, at + f, -log_(max(rest, SMALLEST)))
            put(work, at + 2 * LANES + f, none_after * false)
            put(work, at + 3 * LANES + f, some_after + none_after * true)


@fast_kernel
def max_clauses(work, arity):
    """Update clauses; kept behind the last slot: the two largest ratios and the sum of the positive ones."""
    end = arity * ROWS * LANES
    for f in range(LANES):
        put(work, end + LANES + f, -np.inf)
        put(work, end + 2 * LANES + f, -np.inf)
        put(work, end + 3 * LANES + f, 0.0)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio, top = get(work, at + f), get(work, end + LANES + f)
            put(work, end + 2 * LANES + f, max(get(work, end + 2 * LANES + f), min(top, ratio)))
            put(work, end + LANES + f, max(top, ratio))
            put(work, end + 3 * LANES + f, get(work, end + 3 * LANES + f) + max(ratio, 0.0))
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio, top = get(work, at + f), get(work, end + LANES + f)
            others = get(work, end + 2 * LANES + f) if ratio == top else top
            free = get(work, end + 3 * LANES + f) - max(ratio, 0.0) if others > 0.0 else 0.0
            held = free if others > 0.0 else others
            put(work, at + f, free - max(held, get(work, end + f)))
