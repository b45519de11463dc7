# mypy: ignore-errors
"""Messages through structured factors: functions that branch on the kind of the factor.

`structured_messages` gives all outgoing log messages of a factor from all incoming ones, in the log domain: accurate
for any range, with true zeros, and with the factor's own constants. So at any slot, the sum (or the maximum) over its
states of received plus sent is that of the whole factor. `update_structured` is what belief propagation needs:
normalised messages, in linear numbers where these are accurate. A new kind adds a branch to `_messages`, `_maximum`
and, if it has linear numbers, `update_structured`.

The functions that hold the code of all kinds are compiled apart from the kernels that need them. These kernels find the
addresses in `KindRows`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import types

from equifactor.factors.clause.clause_kernels import WIDEST_VALUE, clause_messages, clause_sums
from equifactor.factors.count.count_kernels import cap_of_count, count_messages
from equifactor.factors.factor_messages import normalize_max, receive
from equifactor.factors.kind_numbers import CLAUSE, COUNT, NOISY_OR, PARITY, POTTS, SPARSE, TRUNCATED_LINEAR
from equifactor.factors.kind_rows import MAXIMUM_AT, MESSAGES_AT, KindRows
from equifactor.factors.label_kernels import label_places
from equifactor.factors.noisy_or.noisy_or_kernels import noisy_or_maxima, noisy_or_maximum, noisy_or_sums
from equifactor.factors.pair_kernels import plus, to_linear_pairs, to_logs
from equifactor.factors.parity.parity_kernels import parity_is_linear, parity_messages, parity_sums
from equifactor.factors.potts.potts_kernels import potts_messages, potts_value
from equifactor.factors.sparse.sparse_kernels import SparseBoxes, sparse_boxes, sparse_maximum, sparse_messages
from equifactor.factors.truncated_linear.truncated_linear_kernels import (
    truncated_linear_messages,
    truncated_linear_value,
)
from equifactor.graph.kind_checks import check_compiled
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, kinds_of, layout_of
from equifactor.kernels.by_address import Separate
from equifactor.kernels.fastmath import NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel, inlined

if TYPE_CHECKING:
    from equifactor.graph import FlatGraph


def kind_rows_of(flat: FlatGraph[np.ndarray], is_max: bool | None) -> tuple | None:
    """Return the fields of the `KindRows` of a compiled batch for a kernel; None if all factors are dense tables.

    `is_max` is the semiring of the messages that the kernel needs, None if it needs no messages.
    """
    kinds = kinds_of(flat)
    if kinds is None:
        return None
    check_compiled(kinds.kind)
    layout = layout_of(flat)
    if "kind rows" not in flat.cache:
        places = np.empty_like(kinds.words)
        for number in (POTTS, TRUNCATED_LINEAR):
            which = np.flatnonzero(kinds.kind == number)
            if len(which):
                label_places(layout.factors, layout.slots, which, number == POTTS, kinds.word_ptr, kinds.words, places)
        num_tables = int(np.count_nonzero(kinds.kind == 0))
        group = flat.structured[0]
        flat.cache["kind rows"] = places, num_tables, int(layout.factors[num_tables, SLOT]), group.states.start
    places, num_tables, first_slot, first_state = flat.cache["kind rows"]
    # Boxes depend on which factors have a default above zero, that is on the potentials as well.
    has_default = (kinds.kind == SPARSE) & (flat.log_phi[layout.factors[:-1, ENTRY]] > -np.inf)
    which = np.flatnonzero(has_default)
    if "boxes" not in flat.cache or not np.array_equal(flat.cache["boxes"][0], which):
        none, begin = np.zeros(0, np.int64), np.zeros(len(layout.factors), np.int64)
        found = begin, none, none, np.zeros(1, np.int64), none
        if len(which):
            found = sparse_boxes(layout.factors, layout.slots, which, kinds.word_ptr, kinds.words)
        flat.cache["boxes"] = which, tuple(found)
    boxes = flat.cache["boxes"][1]
    messages_at = 0 if is_max is None else (_MAX_MESSAGES if is_max else _SUM_MESSAGES).address()
    maximum_at = _MAXIMUM.address() if is_max else 0
    numbers = (num_tables, first_slot, first_state, messages_at, maximum_at)
    return (kinds.kind, kinds.word_ptr, kinds.words, places, boxes, *numbers)


@fast_kernel
def _sum_messages(factors, slots, log_phi, rows, p, q, out):
    """Compute `structured_messages` of sums."""
    _messages(factors, slots, log_phi, rows, p, q, out, False)


@fast_kernel
def _max_messages(factors, slots, log_phi, rows, p, q, out):
    """Compute `structured_messages` of maxima."""
    _messages(factors, slots, log_phi, rows, p, q, out, True)


@inlined
def _messages(factors, slots, log_phi, rows, p, q, out, is_max):
    """Compute `structured_messages`; the semiring is known when a kernel is compiled."""
    rows = KindRows(*rows)
    first, last, start = factors[p, SLOT], factors[p + 1, SLOT], factors[p, ENTRY]
    m, k, word = slots[first, MSG], last - first, rows.word_ptr[p]
    kind, words = rows.kind[p], rows.words
    if kind == PARITY:
        parity_messages(m, k, log_phi[start], log_phi[start + 1], q, out, is_max)
    elif kind == CLAUSE:
        clause_messages(m, k, log_phi[start], words, word, q, out, is_max)
    elif kind == COUNT:
        count_messages(m, k, log_phi, start, words, word, q, out, is_max)
    elif kind == NOISY_OR:
        if is_max:
            noisy_or_maxima(m, k, log_phi, start, words, word, q, out)
        else:
            noisy_or_sums(m, k, log_phi, start, words, word, q, out)
    elif kind == POTTS:
        potts_messages(slots, first, log_phi[start], log_phi[start + 1], rows.places, word, q, out, is_max)
    elif kind == TRUNCATED_LINEAR:
        truncated_linear_messages(
            slots, first, log_phi[start], log_phi[start + 1], words, rows.places, word, q, out, is_max
        )  # fmt: skip
    elif kind == SPARSE:
        sparse_messages(factors, slots, p, log_phi, words, word, SparseBoxes(*rows.boxes), q, out, is_max)


_INTS, _FLOATS = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")
_COLUMNS = types.Array(types.int64, 2, "C", readonly=True)
_ROWS = types.Tuple([_INTS] * 4 + [types.UniTuple(_INTS, len(SparseBoxes._fields))] + [types.int64] * 5)
_GIVEN = (_COLUMNS, _COLUMNS, types.Array(types.float64, 1, "C", readonly=True), _ROWS, types.int64, _FLOATS, _FLOATS)
_SUM_MESSAGES = Separate(_sum_messages, types.none(*_GIVEN))
_MAX_MESSAGES = Separate(_max_messages, types.none(*_GIVEN))
_call_messages = _SUM_MESSAGES.call


@inlined
def structured_messages(factors, slots, log_phi, rows, p, q, out):
    """Fill `out` [S] at the slots of factor p, which is structured, with its log messages, not normalised.

    Args:
        factors: [F+1, 2] as in `Layout`.
        slots: [E, 4] as in `Layout`.
        log_phi: [T] the log values of all factors.
        rows: the fields of `KindRows`, which hold the semiring.
        p: the factor.
        q: [S] incoming log messages, below infinity; those of the factor's slots are read.
        out: [S] the output.
    """
    _call_messages(rows[MESSAGES_AT], (factors, slots, log_phi, rows, p, q, out))


@fast_kernel
def _chain_maximum(kind, m, k, log_phi, start, words, word, q, chosen):
    """Return the best value. A backward pass finds it behind each slot and state, a forward pass the chosen states."""
    cap, fails = 1, False
    if kind == COUNT:
        cap, fails = cap_of_count(log_phi, start, k)
    value = np.empty((k + 1, cap + 1))
    for c in range(cap + 1):
        if kind == CLAUSE:
            value[k, c] = log_phi[start] if c == 0 else 0.0
        else:
            value[k, c] = log_phi[start + (k - c if fails else c)]
    for j in range(k - 1, -1, -1):
        one = 1 if kind == PARITY else words[word + j] ^ fails  # the state that is counted
        for c in range(cap + 1):
            then = 1 - c if kind == PARITY else min(c + 1, cap)
            value[j, c] = max(q[m + 2 * j + 1 - one] + value[j + 1, c], q[m + 2 * j + one] + value[j + 1, then])
    c = 0
    for j in range(k):
        one = 1 if kind == PARITY else words[word + j] ^ fails
        then = 1 - c if kind == PARITY else min(c + 1, cap)
        if_0 = q[m + 2 * j] + value[j + 1, then if one == 0 else c]
        if_1 = q[m + 2 * j + 1] + value[j + 1, then if one == 1 else c]
        chosen[j] = 1 if if_1 > if_0 else 0
        c = then if chosen[j] == one else c
    return value[0, 0]


@fast_kernel
def _maximum(factors, slots, log_phi, rows, p, q, out, chosen):
    """Return `structured_maximum`."""
    rows = KindRows(*rows)
    first, last, start = factors[p, SLOT], factors[p + 1, SLOT], factors[p, ENTRY]
    m, k, word = slots[first, MSG], last - first, rows.word_ptr[p]
    kind, words = rows.kind[p], rows.words
    if kind == NOISY_OR:
        return noisy_or_maximum(m, k, log_phi, start, words, word, q, chosen)[0]
    if kind == SPARSE:
        return sparse_maximum(factors, slots, p, log_phi, words, word, SparseBoxes(*rows.boxes), q, chosen)
    if kind in (PARITY, CLAUSE, COUNT):
        return _chain_maximum(kind, m, k, log_phi, start, words, word, q, chosen)
    best = NEG_INF
    m1, d0 = slots[first + 1, MSG], slots[first, CARD]
    structured_messages(factors, slots, log_phi, rows, p, q, out)
    for x in range(d0):
        if q[m + x] + out[m + x] > best:
            best = q[m + x] + out[m + x]
            chosen[0] = x
    top = NEG_INF
    for y in range(slots[first + 1, CARD]):
        a, b = words[word + chosen[0]], words[word + d0 + y]
        value = potts_value(log_phi, start, a, b) if kind == POTTS else truncated_linear_value(log_phi, start, a, b)
        if value + q[m1 + y] > top:
            top = value + q[m1 + y]
            chosen[1] = y
    return best


_MAXIMUM = Separate(_maximum, types.float64(*_GIVEN, _INTS))
_call_maximum = _MAXIMUM.call


@inlined
def structured_maximum(factors, slots, log_phi, rows, p, q, out, chosen):
    """Return the maximum of the log value of factor p plus q [S], or an upper bound; its states go to chosen [k].

    If several assignments are best, the first in table order is chosen, except for noisy-ors and sparse tables.
    """
    return _call_maximum(rows[MAXIMUM_AT], (factors, slots, log_phi, rows, p, q, out, chosen))


@fast_kernel
def structured_reduction(factors, slots, log_phi, rows, p, q, out, chosen, is_max):
    """Return the log-sum-exp, or an upper bound on the maximum, of the log value of factor p plus q [S]."""
    if is_max:
        return structured_maximum(factors, slots, log_phi, rows, p, q, out, chosen)
    structured_messages(factors, slots, log_phi, rows, p, q, out)
    total = NEG_INF
    s = factors[p, SLOT]
    for x in range(slots[s, MSG], slots[s, MSG] + slots[s, CARD]):
        total = plus(total, q[x] + out[x], False)
    return total


@fast_kernel
def update_structured(factors, slots, log_phi, rows, p, msg, total, zeros, q, out, is_max):
    """Fill `out` at the slots of factor p with its normalised log messages; the arguments of `update_factor`.

    Received messages are shifted to a largest entry of 0 first: sums of a thousand large logs would lose digits.
    """
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    for s in range(first, last):
        m, d = slots[s, MSG], slots[s, CARD]
        top = receive(m, slots[s, STATE], d, msg, total, zeros, q)
        for x in range(m, m + d):
            put(q, x, get(q, x) - (top if top > NEG_INF else 0.0))
    kind_rows = KindRows(*rows)
    kind, word, start = kind_rows.kind[p], kind_rows.word_ptr[p], factors[p, ENTRY]
    m, k = slots[first, MSG], last - first
    if not is_max:
        if kind == PARITY:
            if parity_is_linear(log_phi[start], log_phi[start + 1]) and to_linear_pairs(m, k, q):
                parity_sums(m, k, log_phi[start], log_phi[start + 1], q, out)
                to_logs(m, m + 2 * k, out)
                return
        elif kind == CLAUSE and log_phi[start] < WIDEST_VALUE and to_linear_pairs(m, k, q):
            clause_sums(m, k, log_phi[start], kind_rows.words, word, q, out)
            to_logs(m, m + 2 * k, out)
            return
    structured_messages(factors, slots, log_phi, rows, p, q, out)
    for s in range(first, last):
        normalize_max(slots[s, MSG], slots[s, CARD], out)
        if not is_max:
            _normalize_sum(slots[s, MSG], slots[s, CARD], out)


@fast_kernel
def _normalize_sum(m, d, out):
    """Shift a log message whose largest entry is 0 to a sum of 1; one without support stays as it is."""
    scale = 0.0
    for x in range(m, m + d):
        scale += math.exp(out[x])
    shift = math.log(scale) if scale > 0.0 else 0.0
    for x in range(m, m + d):
        out[x] -= shift


@inlined
def price_of_maxima(kind, k):
    """Return roughly the steps that the max-marginals of a factor over k variables take; noisy-ors need a search."""
    return k * k if kind == NOISY_OR else k
