# mypy: ignore-errors
"""Messages and expected logs of clauses.

The message to slot j combines two pairs of sums: no literal before slot j holds or some does, and the same behind slot
j. Both sides only ever add positive numbers, so nothing cancels. A forward pass leaves its pairs in `out`, the backward
pass replaces them by messages.

The edge states of a factor follow each other: those of slot j are m + 2j and m + 2j + 1. k is the number of slots.
"""

import math

from equifactor.factors.pair_kernels import ABOVE_ZERO, plus
from equifactor.kernels.fastmath import NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel

WIDEST_VALUE = 300.0  # The largest log value of a violated clause that linear numbers take.
# The sums of a clause are those of the product of the probabilities that a literal fails: its log and its zeros.
LOG, ZEROS, NUM_SUMS = 0, 1, 2


@fast_kernel
def clause_messages(m, k, violated, signs, word, q, out, is_max):
    """Compute log messages of a clause with the log value `violated` where no literal holds, and 0 elsewhere.

    The literal of slot j holds in state signs[word + j].
    """
    none, some = 0.0, NEG_INF  # the log sums where no literal so far holds, and where some does
    for j in range(k):
        x = m + 2 * j
        holds, fails = x + signs[word + j], x + 1 - signs[word + j]
        out[x], out[x + 1] = none, some
        t, f = q[holds], q[fails]
        none, some = none + f, plus(some + plus(t, f, is_max), none + t, is_max)
    none, some = violated, 0.0  # the value of the rest where so far none holds, or some does
    for j in range(k - 1, -1, -1):
        x = m + 2 * j
        holds, fails = x + signs[word + j], x + 1 - signs[word + j]
        f_none, f_some = out[x], out[x + 1]
        out[fails] = plus(f_none + none, f_some + some, is_max)
        out[holds] = plus(f_none, f_some, is_max) + some
        t, f = q[holds], q[fails]
        none, some = plus(f + none, t + some, is_max), plus(f, t, is_max) + some


@fast_kernel
def clause_sums(m, k, violated, signs, word, q, out):
    """Compute normalised linear messages from the linear pairs q of `to_linear_pairs`; violated <= WIDEST_VALUE."""
    none, some = 1.0, 0.0
    for j in range(k):
        x, sign = m + 2 * j, get(signs, word + j)
        put(out, x, none)
        put(out, x + 1, some)
        some += none * get(q, x + sign)
        none *= get(q, x + 1 - sign)
    none = math.exp(violated)
    for j in range(k - 1, -1, -1):
        x, sign = m + 2 * j, get(signs, word + j)
        fails = get(out, x) * none + get(out, x + 1)  # where the literal holds, the rest sums to 1
        scale = 1.0 / (1.0 + fails)
        put(out, x + sign, scale)
        put(out, x + 1 - sign, fails * scale)
        none = get(q, x + 1 - sign) * none + get(q, x + sign)


@fast_kernel
def join_clause(sums, o, fails, way):
    """Let a literal that fails with probability `fails` join the sums at o (way 1) or leave them (way -1)."""
    if fails == 0.0:
        sums[o + ZEROS] += way
    else:
        sums[o + LOG] += way * math.log(fails)


@fast_kernel
def odds_of_failure(sums, o):
    """Return the probability that none of the literals that joined holds."""
    return max(ABOVE_ZERO, math.exp(min(0.0, sums[o + LOG]))) if sums[o + ZEROS] < 0.5 else 0.0
