# mypy: ignore-errors
"""Single-variable moves through factors that are no tables: their words, their values, and what a move changes.

`kinds` is a `KindMoves` as a plain tuple, or None in a graph of tables. Which of the two it is decides, when a kernel is
compiled, what `add_kinds`, `move_kinds` and `renew` are: nothing at all for a graph of tables.

Clauses are kept in `state.kept` move by move, since few of their variables notice a move. The values of other kinds are
looked up when a variable is visited, which costs as much as the factors around it, however long these are.
"""

import math

from numba import types
from numba.core.extending import overload

from equifactor.graph.move_kinds import CLAUSE, COUNT, LINEAR, NOISY_OR, PARITY, POTTS, KindMoves
from equifactor.numerics.jit import FAST_OPTIONS, inlined

FACTOR, TURN, FIRST_WEIGHT, SECOND_WEIGHT = 0, 1, 2, 3  # columns of `own`
VARIABLE, MEMBER_TURN, OWN_SLOT = 0, 1, 2  # columns of `members`
KIND, VALUE, KEY = 0, 1, 2  # columns of `factors`
_LN_HALF = -0.6931471805599453


@inlined
def held(labels, turn, x):
    """What state x counts for in the words of a factor."""
    return x ^ turn if turn < 2 else labels[turn - 2 + x]


@inlined
def value_of(kinds, p, first, second):
    """The log value of factor p at these words."""
    values = kinds.values
    kind, start = kinds.factors[p, KIND], kinds.factors[p, VALUE]
    if kind == CLAUSE:
        value = values[start] if first == 0 else 0.0
    elif kind == PARITY:
        value = values[start + (first & 1)]
    elif kind == COUNT:
        value = values[start + first]
    elif kind == NOISY_OR:
        absent = first * values[start]  # ln of the probability that the effect is absent, certain causes aside
        if second & 1 == 0:
            value = absent if second < 2 else values[start + 1]
        elif second >= 2:
            value = 0.0
        elif first == 0:
            value = values[start + 1]
        elif absent > _LN_HALF:
            value = math.log(-math.expm1(absent))
        else:
            value = math.log1p(-math.exp(absent))
    elif kind == POTTS:
        value = values[start] if first == second else values[start + 1]
    elif kind == LINEAR:
        value = max(values[start] * abs(first - second), values[start + 1])
    else:
        keys = kinds.keys
        begin = kinds.factors[p, KEY]
        low, high = begin, kinds.factors[p + 1, KEY]
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < first:
                low = middle + 1
            else:
                high = middle
        found = low < kinds.factors[p + 1, KEY] and keys[low] == first
        value = values[start + 1 + low - begin] if found else values[start]
    return value


@inlined
def push_clause(kinds, var_ptr, x, kept, at, s, i, change):
    """Own slot s of variable i, of a clause, begins (change = 1) or ceases (-1) to hold; the others are told."""
    own, members = kinds.own, kinds.members
    p = own[s, FACTOR]
    w = kinds.first_word + 2 * p
    before, places = at[w], at[w + 1]
    at[w] = before + change
    at[w + 1] = places + change * own[s, SECOND_WEIGHT]
    after = before + change
    fewer = min(before, after)
    if fewer > 1:
        return
    violated = kinds.values[kinds.factors[p, VALUE]]
    if change > 0:
        violated = -violated
    if fewer == 0:  # Any other literal could satisfy it, or need no longer do so.
        for m in range(kinds.member_ptr[p], kinds.member_ptr[p + 1]):
            j = members[m, VARIABLE]
            if j != i:
                kept[var_ptr[j] + members[m, MEMBER_TURN]] += violated
    else:  # The only other literal that holds could be given up, or no longer.
        m = places if change > 0 else at[w + 1]
        kept[var_ptr[members[m, VARIABLE]] + members[m, MEMBER_TURN]] += violated


@inlined
def move_slots(kinds, var_ptr, x, kept, at, i, b):
    """Bring words, and `kept` of the other variables of clauses, up to date with a move of variable i to state b."""
    own_ptr, own, mid = kinds.own_ptr, kinds.own, kinds.own_mid[i]
    a = x[i]
    for s in range(own_ptr[i], mid):
        turn = own[s, TURN]
        push_clause(kinds, var_ptr, x, kept, at, s, i, (b ^ turn) - (a ^ turn))
    for s in range(mid, own_ptr[i + 1]):
        w, turn = kinds.first_word + 2 * own[s, FACTOR], own[s, TURN]
        change = held(kinds.labels, turn, b) - held(kinds.labels, turn, a)
        at[w] += change * own[s, FIRST_WEIGHT]
        at[w + 1] += change * own[s, SECOND_WEIGHT]


@inlined
def look_around(kinds, var_ptr, x, kept, local, at, i):
    """Fill `local` of variable i: what is kept of it, and the values of all other factors around it."""
    own, labels = kinds.own, kinds.labels
    first, card = var_ptr[i], var_ptr[i + 1] - var_ptr[i]
    for y in range(first, first + card):
        local[y] = kept[y]
    for s in range(kinds.own_mid[i], kinds.own_ptr[i + 1]):
        p, turn = own[s, FACTOR], own[s, TURN]
        by_one, by_two = own[s, FIRST_WEIGHT], own[s, SECOND_WEIGHT]
        w = kinds.first_word + 2 * p
        here = held(labels, turn, x[i])
        one, two = at[w] - by_one * here, at[w + 1] - by_two * here
        for y in range(card):
            h = held(labels, turn, y)
            local[first + y] += value_of(kinds, p, one + by_one * h, two + by_two * h)


@inlined
def add_words(kinds, var_ptr, x, kept, at):
    """Fill the words, add the clauses to `kept`, and return the sum of the values of all factors."""
    own, members = kinds.own, kinds.members
    score = 0.0
    for p in range(len(kinds.base)):
        begin, end = kinds.member_ptr[p], kinds.member_ptr[p + 1]
        one, two = kinds.base[p, 0], kinds.base[p, 1]
        for m in range(begin, end):
            s = members[m, OWN_SLOT]
            h = held(kinds.labels, members[m, MEMBER_TURN], x[members[m, VARIABLE]])
            one += h * own[s, FIRST_WEIGHT]
            two += h * own[s, SECOND_WEIGHT]
        w = kinds.first_word + 2 * p
        at[w] = one
        at[w + 1] = two
        score += value_of(kinds, p, one, two)
        if kinds.factors[p, KIND] == CLAUSE and one < 2:
            violated = kinds.values[kinds.factors[p, VALUE]]
            if one == 1:
                begin, end = two, two + 1
            for m in range(begin, end):
                kept[var_ptr[members[m, VARIABLE]] + members[m, MEMBER_TURN]] += violated
    return score


def move_kinds(kinds, var_ptr, x, kept, at, i, b):
    """`move_slots`, or nothing in a graph of tables."""


@overload(move_kinds, jit_options=FAST_OPTIONS)
def _move_kinds(kinds, var_ptr, x, kept, at, i, b):
    def nothing(kinds, var_ptr, x, kept, at, i, b):
        pass

    def some(kinds, var_ptr, x, kept, at, i, b):
        move_slots(KindMoves(*kinds), var_ptr, x, kept, at, i, b)

    return nothing if isinstance(kinds, types.NoneType) else some


def renew(kinds, var_ptr, x, kept, local, at, i):
    """`look_around`, or nothing in a graph of tables, where `kept` is `local`."""


@overload(renew, jit_options=FAST_OPTIONS)
def _renew(kinds, var_ptr, x, kept, local, at, i):
    def nothing(kinds, var_ptr, x, kept, local, at, i):
        pass

    def some(kinds, var_ptr, x, kept, local, at, i):
        look_around(KindMoves(*kinds), var_ptr, x, kept, local, at, i)

    return nothing if isinstance(kinds, types.NoneType) else some


def add_kinds(kinds, var_ptr, x, kept, at):
    """`add_words`, or 0 in a graph of tables."""


@overload(add_kinds, jit_options=FAST_OPTIONS)
def _add_kinds(kinds, var_ptr, x, kept, at):
    def nothing(kinds, var_ptr, x, kept, at):
        return 0.0

    def some(kinds, var_ptr, x, kept, at):
        return add_words(KindMoves(*kinds), var_ptr, x, kept, at)

    return nothing if isinstance(kinds, types.NoneType) else some
