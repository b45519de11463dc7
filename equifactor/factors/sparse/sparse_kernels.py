# mypy: ignore-errors
"""Messages of sparse tables: every listed configuration on its own, and all others in boxes that do not overlap.

A box begins with the first states of a listed configuration. At its place it has one of the states that no listed
configuration with these first states has. Behind its place it has any states. So the sum over all assignments that are
not listed is a sum over boxes, each a product of sums, and nothing is subtracted.
"""

from typing import NamedTuple

import numpy as np

from equifactor.base.typing import IntArray
from equifactor.factors.pair_kernels import ABOVE_ZERO, plus
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR
from equifactor.kernels.fastmath import NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel, inlined, kernel


class SparseBoxes(NamedTuple):
    """The boxes of all factors; only sparse tables with a default value above zero have boxes."""

    ptr: IntArray  # [F+1]
    word: IntArray  # [B] where the words begin whose first states the box has
    place: IntArray  # [B] how many first states it has; the place of the box in the scope
    rest_ptr: IntArray  # [B+1]
    rest: IntArray  # states that it allows at its place


@kernel
def sparse_boxes(factors, slots, which, word_ptr, words):
    """Return the fields of the `SparseBoxes` of some factors."""
    num_factors = len(factors) - 1
    ptr = np.zeros(num_factors + 1, np.int64)
    box_word, box_place, rest_count, rest = [0], [0], [0], [0]  # the first elements give the types, and are removed
    for p in which:
        first, k = factors[p, SLOT], factors[p + 1, SLOT] - factors[p, SLOT]
        word = word_ptr[p]
        listed = (word_ptr[p + 1] - word) // k
        order = np.arange(listed)
        for j in range(k - 1, -1, -1):
            order = order[np.argsort(words[word + order * k + j], kind="mergesort")]
        agree = np.zeros(listed + 1, np.int64)  # how many first states each has in common with the one before
        for n in range(1, listed):
            one, two = word + order[n - 1] * k, word + order[n] * k
            while agree[n] < k and words[one + agree[n]] == words[two + agree[n]]:
                agree[n] += 1
        count = len(box_word)
        for n in range(max(1, listed)):
            begin = word + order[n] * k if listed else word
            for j in range(agree[n] + 1 if n else 0, k):
                x = 0  # the next state that is not known to be listed
                left = 0
                last = n
                while last < listed and (last == n or agree[last] >= j):
                    state = words[word + order[last] * k + j]
                    while x < state:
                        rest.append(x)
                        left += 1
                        x += 1
                    x = max(x, state + 1)
                    last += 1
                while x < slots[first + j, CARD]:
                    rest.append(x)
                    left += 1
                    x += 1
                if left:
                    box_word.append(begin)
                    box_place.append(j)
                    rest_count.append(left)
                if not listed:
                    break
        ptr[p + 1] = len(box_word) - count
    rest_ptr = np.cumsum(np.array(rest_count))
    return np.cumsum(ptr), np.array(box_word)[1:], np.array(box_place)[1:], rest_ptr, np.array(rest)[1:]


@fast_kernel
def sparse_messages(factors, slots, p, log_phi, words, word, boxes, q, out, is_max):
    """Compute log messages of a sparse table; cost O(arity) for every listed configuration and every box."""
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    start, k = factors[p, ENTRY], last - first
    for s in range(first, last):
        for x in range(slots[s, CARD]):
            out[slots[s, MSG] + x] = NEG_INF
    after = np.empty(k + 1)
    for n in range(factors[p + 1, ENTRY] - start - 1):
        value = log_phi[start + 1 + n]
        if value > NEG_INF:
            _add_configuration(slots, first, k, words, word + n * k, value, after, q, out, is_max)
    default = log_phi[start]
    if default == NEG_INF:
        return
    any_state, behind = _sums_behind(slots, first, k, q, is_max)
    ending = np.full(k, NEG_INF)  # the sum of the boxes at each place, up to and with this place
    for b in range(boxes.ptr[p], boxes.ptr[p + 1]):
        place = boxes.place[b]
        m = slots[first + place, MSG]
        here = NEG_INF
        for r in range(boxes.rest_ptr[b], boxes.rest_ptr[b + 1]):
            here = plus(here, q[m + boxes.rest[r]], is_max)
        _add_configuration(
            slots, first, place, words, boxes.word[b], default + here + behind[place + 1], after, q, out, is_max
        )  # fmt: skip
        before = after[0]
        for r in range(boxes.rest_ptr[b], boxes.rest_ptr[b + 1]):
            x = m + boxes.rest[r]
            out[x] = plus(out[x], default + before + behind[place + 1], is_max)
        ending[place] = plus(ending[place], before + here, is_max)
    ahead = NEG_INF  # the sum over the boxes at earlier places, and any states since
    for j in range(k):
        for x in range(slots[first + j, MSG], slots[first + j, MSG] + slots[first + j, CARD]):
            out[x] = plus(out[x], default + ahead + behind[j + 1], is_max)
        ahead = plus(ahead + any_state[j], ending[j], is_max)


@fast_kernel
def _add_configuration(slots, first, k, words, word, value, after, q, out, is_max):
    """Add one configuration of the first k slots to their messages; after[j] becomes the sum of q from slot j on."""
    after[k] = 0.0
    for j in range(k - 1, -1, -1):
        after[j] = after[j + 1] + q[slots[first + j, MSG] + words[word + j]]
    before = value
    for j in range(k):
        x = slots[first + j, MSG] + words[word + j]
        out[x] = plus(out[x], before + after[j + 1], is_max)
        before += q[x]


@fast_kernel
def _sums_behind(slots, first, k, q, is_max):
    """Return the sum over all states of each slot [k], and their products from each slot on [k + 1]."""
    any_state, behind = np.full(k, NEG_INF), np.zeros(k + 1)
    for j in range(k - 1, -1, -1):
        for x in range(slots[first + j, MSG], slots[first + j, MSG] + slots[first + j, CARD]):
            any_state[j] = plus(any_state[j], q[x], is_max)
        behind[j] = behind[j + 1] + any_state[j]
    return any_state, behind


@fast_kernel
def sparse_maximum(factors, slots, p, log_phi, words, word, boxes, q, chosen):
    """Return the largest value over all assignments, and its states in chosen [k]."""
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    start, k = factors[p, ENTRY], last - first
    best = NEG_INF
    for n in range(factors[p + 1, ENTRY] - start - 1):
        value = log_phi[start + 1 + n]
        for j in range(k):
            value += q[slots[first + j, MSG] + words[word + n * k + j]]
        if value > best:
            best = value
            for j in range(k):
                chosen[j] = words[word + n * k + j]
    default = log_phi[start]
    if default == NEG_INF:
        return best
    behind = _sums_behind(slots, first, k, q, True)[1]
    for b in range(boxes.ptr[p], boxes.ptr[p + 1]):
        place = boxes.place[b]
        m = slots[first + place, MSG]
        here, state = NEG_INF, 0
        for r in range(boxes.rest_ptr[b], boxes.rest_ptr[b + 1]):
            if q[m + boxes.rest[r]] > here:
                here, state = q[m + boxes.rest[r]], boxes.rest[r]
        value = default + here + behind[place + 1]
        for j in range(place):
            value += q[slots[first + j, MSG] + words[boxes.word[b] + j]]
        if value > best:
            best = value
            for j in range(place):
                chosen[j] = words[boxes.word[b] + j]
            chosen[place] = state
            for j in range(place + 1, k):
                m_j = slots[first + j, MSG]
                chosen[j] = np.argmax(q[m_j : m_j + slots[first + j, CARD]])
    return best


@fast_kernel
def listed_sums(factors, slots, p, phi, words, word, after, q, out):
    """Compute linear messages of a sparse table without a default, from messages whose largest entries are 1.

    after is scratch for arity + 1 numbers.
    """
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    start, k = factors[p, ENTRY], last - first
    for x in range(slots[first, MSG], slots[last - 1, MSG] + slots[last - 1, CARD]):
        put(out, x, 0.0)
    put(after, k, 1.0)
    for n in range(factors[p + 1, ENTRY] - start - 1):
        at = word + n * k
        for j in range(k - 1, -1, -1):
            put(after, j, get(after, j + 1) * get(q, slots[first + j, MSG] + get(words, at + j)))
        before = get(phi, start + 1 + n)
        for j in range(k):
            x = slots[first + j, MSG] + get(words, at + j)
            put(out, x, get(out, x) + before * get(after, j + 1))
            before *= get(q, x)
    least = 1.0
    for s in range(first, last):
        m, d = slots[s, MSG], slots[s, CARD]
        scale = 0.0
        for x in range(m, m + d):
            scale += get(out, x)
            least = min(least, get(out, x))
        inverse = 1.0 / scale if scale > 0.0 else 0.0
        for x in range(m, m + d):
            put(out, x, get(out, x) * inverse)
    return least


@fast_kernel
def expect_sparse(factors, slots, finite, zero, rows, p, s, q, gain, harm):
    """Add expectations of configurations, and of the rest by the default value; s is -1 for all slots, in gain[0]."""
    first, start, word = factors[p, SLOT], factors[p, ENTRY], rows.word_ptr[p]
    k = factors[p + 1, SLOT] - first
    d = slots[s, CARD] if s >= 0 else 1
    listed, met = np.zeros(d), np.zeros(d)  # the probability of the listed ones, and how many are possible
    for n in range(factors[p + 1, ENTRY] - start - 1):
        w = 1.0
        possible = True
        for j in range(k):
            if first + j != s:
                v = q[slots[first + j, STATE] + rows.words[word + n * k + j]]
                w *= v
                if v == 0.0:
                    possible = False
                    break
        if possible:
            x = rows.words[word + n * k + s - first] if s >= 0 else 0
            w = max(ABOVE_ZERO, w)
            listed[x] += w
            met[x] += 1.0
            gain[x] += w * finite[start + 1 + n]
            harm[x] += w * zero[start + 1 + n]
    number = 1.0  # of possible configurations, as a product
    for j in range(k):
        if first + j != s:
            states = 0.0
            for x in range(slots[first + j, STATE], slots[first + j, STATE] + slots[first + j, CARD]):
                states += 1.0 if q[x] > 0.0 else 0.0
            number *= states
    for x in range(d):
        if met[x] < number:
            rest = max(ABOVE_ZERO, 1.0 - listed[x])
            gain[x] += rest * finite[start]
            harm[x] += rest * zero[start]


@fast_kernel
def sparse_values(factors, slots, log_phi, words, word, p, s, states, values):
    """Fill values [d] with the log value of sparse table p at each state of its slot s; others are as in states [V]."""
    first, start = factors[p, SLOT], factors[p, ENTRY]
    k = factors[p + 1, SLOT] - first
    for x in range(slots[s, CARD]):
        values[x] = log_phi[start]
    for n in range(factors[p + 1, ENTRY] - start - 1):
        agrees = True
        for j in range(k):
            if first + j != s and words[word + n * k + j] != states[slots[first + j, VAR]]:
                agrees = False
                break
        if agrees:
            values[words[word + n * k + s - first]] = log_phi[start + 1 + n]


@inlined
def sparse_value(values, start, keys, first_key, end_key, key):
    """Return the log value of a sparse table at a key, by bisection among its keys; see `sparse_moves`."""
    low, high = first_key, end_key
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    found = low < end_key and keys[low] == key
    return values[start + 1 + low - first_key] if found else values[start]
