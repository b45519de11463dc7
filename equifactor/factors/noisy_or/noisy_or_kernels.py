# mypy: ignore-errors
"""Messages of noisy-or factors.

Sums: each cause fires or not, and the effect is present if some cause has fired. A chain over the causes keeps two
sums, "none has fired so far" and "some has". Maxima: with the effect absent, every cause decides for itself. With the
effect present the value is ln(1 - e^-s), a concave function of the sum s of the active causes' strengths (minus their
log inhibitors). Causes that lose nothing by being active are active. A search by branch and bound decides the others;
its bound lets causes be active in part.

The edge states of a factor follow each other: those of slot j are m + 2j and m + 2j + 1. k is the number of slots.
"""

import math

import numpy as np

from equifactor.factors.noisy_or.noisy_or_words import IN_SCOPE, OFF, ON
from equifactor.factors.pair_kernels import plus
from equifactor.graph.layout import VAR
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined

# Most nodes of one search. A longer search returns the best value found and the bound of the rest. Chosen by hand.
MOST_NODES = 5000
_NOTHING = 1e-300  # A loss, in nats, below which being active is free.
_LN_HALF = -0.6931471805599453  # ln(1/2), where the two formulas of ln(1 - e^v) meet.
_CERTAIN = 50.0  # More strength than this changes ln(1 - e^-s) by less than 1e-21.


@fast_kernel
def log_of_rest(v):
    """Return ln(1 - e^v) for v <= 0, to full precision on both ends."""
    if v == NEG_INF:
        return 0.0
    if v >= 0.0:
        return NEG_INF
    return math.log(-math.expm1(v)) if v > _LN_HALF else math.log1p(-math.exp(v))


@fast_kernel
def noisy_or_sums(m, k, log_phi, start, words, word, q, out):
    """Compute log messages, sum semiring. words[word] is the state or place of the effect, then come the signs."""
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
    """Compute log messages, max semiring, from the best assignments that the search finds."""
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
    """Return an upper bound on the maximum, and the value of the best assignment found; its states go to chosen.

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
    """Return sums over all causes but one: their logs if the effect is present, if it is absent, and free strengths.

    If the effect is present, every cause takes its better state: active if that loses nothing.
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
    """Return the items: causes that lose by being active, with the most strength per loss first.

    Returns their losses and strengths, the item of each slot (-1 for no item), and the number of items.
    """
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
    """Return the best ln(1 - e^-s) less losses, s the free strength plus that of the items taken, and a bound on it."""
    return _best_presence_of(losses, strengths, n, left_out, strength, np.zeros(max(1, n), np.bool_))


@fast_kernel
def _best_presence_of(losses, strengths, n, left_out, strength, taken):
    """Return the same as `_best_presence`, and mark the items taken.

    The search is depth first and tries each item in before out. A branch ends if its bound is not above the best found.
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
            for j in range(i):
                taken[j] = path[j]
            taken[i] = True
    bound = best
    for h in range(height):
        bound = max(bound, _bound(losses, strengths, n, left_out, level[h], sums[h]) - lost[h])
    return best, bound


@fast_kernel
def _bound(losses, strengths, n, left_out, i, s):
    """Return the best value from items i on, where the last one may be taken in part; the sum so far is s.

    Of the strength w of an item at loss c, the part is taken at which the slope of ln(1 - e^-s), 1/(e^s - 1), is c/w.
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
    """Fill values [2] with the log values at both states of slot s, the other variables fixed."""
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
