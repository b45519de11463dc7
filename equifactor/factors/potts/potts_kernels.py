# mypy: ignore-errors
"""Messages and expected logs of Potts factors, each O(d) for d states.

A sum over all states but one is added up from both ends, and nothing is subtracted. `places` holds for every state the
state of the other variable with the same label, -1 if it is missing; see `label_kernels`.
"""

import numpy as np

from equifactor.factors.pair_kernels import ABOVE_ZERO, plus
from equifactor.graph.layout import CARD, MSG
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined


@fast_kernel
def potts_messages(slots, first, equal, different, places, word, q, out, is_max):
    """Compute log messages of a factor with the log value `equal` for equal labels and `different` elsewhere."""
    m0, d0 = slots[first, MSG], slots[first, CARD]
    m1, d1 = slots[first + 1, MSG], slots[first + 1, CARD]
    others = np.empty(max(d0, d1))
    _potts_message(m0, d0, m1, d1, equal, different, places, word, others, q, out, is_max)
    _potts_message(m1, d1, m0, d0, equal, different, places, word + d0, others, q, out, is_max)


@fast_kernel
def _potts_message(m, d, m_from, d_from, equal, different, places, word, others, q, out, is_max):
    """Compute the message to one variable; others [d_from] becomes the sum of q over all states but one."""
    after = NEG_INF
    for y in range(d_from - 1, -1, -1):
        others[y] = after
        after = plus(after, q[m_from + y], is_max)
    before = NEG_INF
    for y in range(d_from):
        others[y] = plus(others[y], before, is_max)
        before = plus(before, q[m_from + y], is_max)
    for x in range(d):
        y = places[word + x]
        if y < 0:
            out[m + x] = different + before
        else:
            out[m + x] = plus(equal + q[m_from + y], different + others[y], is_max)


@fast_kernel
def expect_potts(d, n, state, own, places, start, finite, zero, q, gain, harm):
    """Add the expected logs and zeros at the d states of one variable; the other has n states from `state` on in q."""
    total, possible = 0.0, 0
    for y in range(n):
        total += q[state + y]
        possible += 1 if q[state + y] > 0.0 else 0
    for x in range(d):
        y = places[own + x]
        same = q[state + y] if y >= 0 else 0.0
        differs = 0.0
        if possible > (1 if same > 0.0 else 0):
            differs = max(ABOVE_ZERO, total - same)
        gain[x] += same * finite[start] + differs * finite[start + 1]
        harm[x] += same * zero[start] + differs * zero[start + 1]


@inlined
def potts_value(values, start, a, b):
    """Return the log value of a Potts factor at the labels a and b."""
    return values[start] if a == b else values[start + 1]
