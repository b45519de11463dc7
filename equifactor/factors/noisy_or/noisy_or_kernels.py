# mypy: ignore-errors
"""Messages of noisy-or factors.

Sums: each cause fires or not, and the effect is whether some cause has; a chain of "none has fired so far, some has".
Maxima: with the effect absent, every cause decides for itself. With the effect present the value is ln(1 - e^-s), a
concave function of the sum s of the active causes' strengths (minus their log inhibitors): causes that lose nothing by
being active are, and for the others a search by branch and bound decides, whose bound lets causes be active in part.

The edge states of a factor follow each other: those of slot j are m + 2j and m + 2j + 1. k is the number of slots.
"""

import math

import numpy as np

from equifactor.factors.noisy_or import IN_SCOPE, OFF, ON
from equifactor.factors.pair_kernels import plus
from equifactor.graph.layout import VAR
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined

MOST_NODES = 5000  # of one search; beyond it the best found so far is taken, and the bound of what is left is a bound
_NOTHING = 1e-300  # a loss so small that being active is free
_LN_HALF = -0.6931471805599453
_CERTAIN = 50.0  # more strength than this changes ln(1 - e^-s) by less than 1e-21


@fast_kernel
def log_of_rest(v):
    """ln(1 - e^v) for v <= 0, to full precision on both ends."""
    if v == NEG_INF:
        return 0.0
    if v >= 0.0:
        return NEG_INF
    return math.log(-math.expm1(v)) if v > _LN_HALF else math.log1p(-math.exp(v))


@fast_kernel
def noisy_or_sums(m, k, log_phi, start, words, word, q, out):
    """Log messages, sum semiring. words[word] says what is known of the effect, then come the signs."""
    head = words[word]
    place = head - IN_SCOPE
    none, some = log_phi[start], log_of_rest(log_phi[start])
    value = start + 1
    for j in range(k):
        x, sign = m + 2 * j, words[word + 1 + j]
        out[x], out[x + 1] = none, some
        if j == place:
            continue
        active, rest, fails = q[x + sign], q[x + 1 - sign], log_phi[value]
        value += 1
        some = plus(some + plus(active, rest, False), none + active + log_of_rest(fails), False)
        none += plus(rest, active + fails, False)
    if head == OFF:
        b_none, b_some = 0.0, NEG_INF
    elif head == ON:
        b_none, b_some = NEG_INF, 0.0
    else:
        x, sign = m + 2 * place, words[word + 1 + place]
        b_none, b_some = q[x + 1 - sign], q[x + sign]
    for j in range(k - 1, -1, -1):
        x, sign = m + 2 * j, words[word + 1 + j]
        if j == place:
            out[x + sign], out[x + 1 - sign] = some, none
            continue
        value -= 1
        active, rest, fails = q[x + sign], q[x + 1 - sign], log_phi[value]
        f_none, f_some = out[x], out[x + 1]
        fires = log_of_rest(fails)
        out[x + 1 - sign] = plus(f_none + b_none, f_some + b_some, False)
        if_active = plus(fails + b_none, fires + b_some, False)
        out[x + sign] = plus(f_none + if_active, f_some + b_some, False)
        b_none = plus(rest + b_none, active + if_active, False)
        b_some += plus(rest, active, False)


# ---- maxima -----------------------------------------------------------------------------------------------


@fast_kernel
def noisy_or_maxima(m, k, log_phi, start, words, word, q, out):
    """Log messages, max semiring: the value of the best assignment that the search finds, hardly ever not the best."""
    head = words[word]
    place = head - IN_SCOPE
    losses, strengths, item_of_slot, num_items = _items(m, k, log_phi, start, words, word, q)
    value = start + 1
    on_total, off_total = _others_total(m, k, log_phi, start, words, word, q, -1)[:2]
    for j in range(k):
        x, sign = m + 2 * j, words[word + 1 + j]
        if j == place:
            strength = _others_total(m, k, log_phi, start, words, word, q, -1)[2]
            found = _best_presence(losses, strengths, num_items, -1, strength)[0]
            out[x + sign], out[x + 1 - sign] = on_total + found, off_total
            continue
        fails = log_phi[value]
        value += 1
        on, off, strength = _others_total(m, k, log_phi, start, words, word, q, j)
        if_on, if_off = 0.0, 0.0
        if head == ON:
            if_off = NEG_INF
        elif head == OFF:
            if_on = NEG_INF
        else:
            y = m + 2 * place
            if_on, if_off = q[y + words[word + 1 + place]], q[y + 1 - words[word + 1 + place]]
        for state in (0, 1):
            is_active = state == sign
            best = if_off + off + (fails if is_active else 0.0)
            if if_on + on > NEG_INF:
                own = strength - (fails if is_active else 0.0)
                found = _best_presence(losses, strengths, num_items, item_of_slot[j], own)[0]
                best = max(best, if_on + on + found)
            out[x + state] = best


@fast_kernel
def noisy_or_maximum(m, k, log_phi, start, words, word, q, chosen):
    """The maximum over all assignments: a bound from above, and the value of the best found, whose states go to chosen.

    Both values are the same unless the search was cut short.
    """
    head = words[word]
    place = head - IN_SCOPE
    losses, strengths, item_of_slot, num_items = _items(m, k, log_phi, start, words, word, q)
    on, off, strength = _others_total(m, k, log_phi, start, words, word, q, -1)
    if_on, if_off = 0.0 if head != OFF else NEG_INF, 0.0 if head != ON else NEG_INF
    if head >= IN_SCOPE:
        y = m + 2 * place
        if_on, if_off = q[y + words[word + 1 + place]], q[y + 1 - words[word + 1 + place]]
    found, bound, taken = NEG_INF, NEG_INF, np.zeros(max(1, num_items), np.bool_)
    if if_on + on > NEG_INF:
        found, bound = _best_presence_of(losses, strengths, num_items, -1, strength, taken)
    present = if_on + on + found
    absent = if_off + off
    is_on = present > absent
    value = start + 1
    for j in range(k):
        x, sign = m + 2 * j, words[word + 1 + j]
        if j == place:
            chosen[j] = sign if is_on else 1 - sign
            continue
        active, rest, fails = q[x + sign], q[x + 1 - sign], log_phi[value]
        value += 1
        item = item_of_slot[j]
        if not is_on:
            is_active = active + fails > rest
        elif item >= 0:
            is_active = taken[item]
        else:
            is_active = active >= rest - _NOTHING and active > NEG_INF
        chosen[j] = sign if is_active else 1 - sign
    return max(absent, if_on + on + max(bound, found)), max(absent, present)


@fast_kernel
def _others_total(m, k, log_phi, start, words, word, q, left_out):
    """What all causes but one bring: their logs where the effect is present and absent, and their free strength.

    For the presence every cause takes its better state, which is active where that loses nothing.
    """
    place = words[word] - IN_SCOPE
    on, off, strength = 0.0, log_phi[start], -log_phi[start]
    value = start + 1
    for j in range(k):
        if j == place:
            continue
        fails = log_phi[value]
        value += 1
        if j == left_out:
            continue
        x, sign = m + 2 * j, words[word + 1 + j]
        active, rest = q[x + sign], q[x + 1 - sign]
        off += max(rest, active + fails)
        on += max(active, rest)
        if active > NEG_INF and active >= rest - _NOTHING:
            strength -= fails
    return on, off, strength


@fast_kernel
def _items(m, k, log_phi, start, words, word, q):
    """Causes that lose by being active: losses and strengths, the most strength per loss first, and slots' numbers."""
    place = words[word] - IN_SCOPE
    losses, strengths, slot_of = np.empty(k), np.empty(k), np.empty(k, np.int64)
    item_of_slot = np.full(k, -1)
    n = 0
    value = start + 1
    for j in range(k):
        if j == place:
            continue
        fails = log_phi[value]
        value += 1
        x, sign = m + 2 * j, words[word + 1 + j]
        active, rest = q[x + sign], q[x + 1 - sign]
        if active > NEG_INF and active < rest - _NOTHING and fails < 0.0:
            losses[n], strengths[n], slot_of[n] = rest - active, min(-fails, _CERTAIN), j
            n += 1
    order = np.argsort(-(strengths[:n] / losses[:n]))
    for r in range(n):
        item_of_slot[slot_of[order[r]]] = r
    return losses[:n][order], strengths[:n][order], item_of_slot, n


@fast_kernel
def _best_presence(losses, strengths, n, left_out, strength):
    """The best ln(1 - e^-s) less the losses, s the free strength and those of the items taken; and a bound on it."""
    return _best_presence_of(losses, strengths, n, left_out, strength, np.zeros(max(1, n), np.bool_))


@fast_kernel
def _best_presence_of(losses, strengths, n, left_out, strength, taken):
    """As above, and which items were taken.

    Depth first, each item in before out; a branch ends where its bound is not above the best found.
    """
    best = log_of_rest(-strength)
    taken[:] = False
    if n == 0 or best == 0.0:
        return best, best
    level, sums, lost = np.empty(n + 2, np.int64), np.empty(n + 2), np.empty(n + 2)
    is_in, path = np.zeros(n + 2, np.bool_), np.zeros(n, np.bool_)
    level[0], sums[0], lost[0] = 0, strength, 0.0
    height, nodes = 1, 0
    while height > 0:
        height -= 1
        i, s, loss = level[height], sums[height], lost[height]
        if i > 0:
            path[i - 1] = is_in[height]
        if i >= n or _bound(losses, strengths, n, left_out, i, s) - loss <= best:
            continue
        nodes += 1
        if nodes > MOST_NODES:
            height += 1
            break
        level[height], sums[height], lost[height], is_in[height] = i + 1, s, loss, False
        height += 1
        if i == left_out:
            continue
        s, loss = s + strengths[i], loss + losses[i]
        level[height], sums[height], lost[height], is_in[height] = i + 1, s, loss, True
        height += 1
        value = log_of_rest(-s) - loss
        if value > best:
            best = value
            taken[:] = False
            taken[:i] = path[:i]
            taken[i] = True
    bound = best
    for h in range(height):
        bound = max(bound, _bound(losses, strengths, n, left_out, level[h], sums[h]) - lost[h])
    return best, bound


@fast_kernel
def _bound(losses, strengths, n, left_out, i, s):
    """The best value from items i on, where the last one may be taken in part; the sum so far is s.

    Of the strength w of an item at loss c, so much is taken that the slope of ln(1 - e^-s), 1/(e^s - 1), falls to c/w.
    """
    lost = 0.0
    for r in range(i, n):
        if r == left_out:
            continue
        w, c = strengths[r], losses[r]
        until = math.log1p(w / c)
        if until >= s + w:
            s += w
            lost += c
        else:
            if until > s:
                lost += c * ((until - s) / w)
                s = until
            break
    return log_of_rest(-s) - lost


# ---- single states ----------------------------------------------------------------------------------------


@fast_kernel
def noisy_or_values(slots, first, k, s, log_phi, start, words, word, states, values):
    """The logs of the effect or of its absence, at both states of one variable."""
    head = words[word]
    place = head - IN_SCOPE
    fails = log_phi[start]  # ln of the probability that no active cause but that of slot s brings about the effect
    own = 0.0
    value = start + 1
    for j in range(k):
        if j == place:
            continue
        if first + j == s:
            own = log_phi[value]
        elif states[slots[first + j, VAR]] == words[word + 1 + j]:
            fails += log_phi[value]
        value += 1
    sign = words[word + 1 + s - first]
    for x in range(2):
        if first + place == s and place >= 0:
            values[x] = log_of_rest(fails) if x == sign else fails
            continue
        off = fails + own if x == sign else fails
        is_on = head == ON
        if place >= 0:
            is_on = states[slots[first + place, VAR]] == words[word + 1 + place]
        values[x] = log_of_rest(off) if is_on else off


@inlined
def noisy_or_value(values, start, units, marks):
    """Return the log value of a noisy-or from its running words, see `noisy_or_moves`."""
    absent = units * values[start]  # ln of the probability that the effect is absent, certain causes aside
    if marks & 1 == 0:
        value = absent if marks < 2 else values[start + 1]
    elif marks >= 2:
        value = 0.0
    elif units == 0:
        value = values[start + 1]
    elif absent > _LN_HALF:
        value = math.log(-math.expm1(absent))
    else:
        value = math.log1p(-math.exp(absent))
    return value
