# mypy: ignore-errors
"""Single-variable moves through factors that are no tables: their words, their values, and what a move changes.

`kinds` is a `KindMoves` as a plain tuple, or None in a graph of tables. Which of the two it is decides, when a kernel
is compiled, what `add_kinds`, `move_kinds` and `look` are: nothing at all for a graph of tables.

Clauses are kept in `state.kept` move by move, since few of their variables notice a move. The values of other kinds are
looked up when a variable is visited, which costs as much as the factors around it, however long these are.
"""

import math

import numpy as np
from numba import types
from numba.core.extending import overload

from equifactor.factors.move_kinds import COUNT, LINEAR, NOISY_OR, ONE_LITERAL, PARITY, POTTS, KindMoves
from equifactor.kernels.jit import FAST_OPTIONS, inlined

FACTOR, TURN, FIRST_WEIGHT, SECOND_WEIGHT = 0, 1, 2, 3  # columns of `own`
VARIABLE, MEMBER_TURN, MEMBER_SLOT = 0, 1, 2  # columns of `members`
KIND, VALUE, KEY = 0, 1, 2  # columns of `factors`
_LN_HALF = -0.6931471805599453


@inlined
def held(labels, turn, x):
    """What state x counts for in the words of a factor."""
    return x ^ turn if turn < 2 else labels[turn - 2 + x]


@inlined
def value_of(factors, values, keys, p, first, second):
    """The log value of factor p at these words."""
    kind, start = factors[p, KIND], factors[p, VALUE]
    if kind == PARITY:
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
        low, high = factors[p, KEY], factors[p + 1, KEY]
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < first:
                low = middle + 1
            else:
                high = middle
        found = low < factors[p + 1, KEY] and keys[low] == first
        value = values[start + 1 + low - factors[p, KEY]] if found else values[start]
    return value


@inlined
def move_clauses(clauses, begin, end, literal_ptr, literals, clause_values, first_clause, kept, at, first, a):
    """Turn the literals of a variable whose first state is `first` and that leaves state a.

    The others notice it only in a clause where none of them holds, or if one does, that one.
    """
    for r in range(begin, end):
        p, turn = np.int64(clauses[r]) >> 1, np.int64(clauses[r]) & 1
        held_before = a ^ turn
        name = first + turn
        w = first_clause + p
        word = at[w]
        others = (word >> 40) - held_before
        change = 1 - 2 * held_before
        word = (word ^ name) + change * ONE_LITERAL
        at[w] = word
        if others == 0:  # Any of them could satisfy it, or need no longer do so.
            more = -change * clause_values[p]
            for m in range(literal_ptr[p], literal_ptr[p + 1]):
                other = np.int64(literals[m])
                if other != name:
                    kept[other] += more
        elif others == 1:  # The one that holds is needed now, or no longer.
            other = (word & (ONE_LITERAL - 1)) ^ (0 if held_before else name)
            kept[other] -= change * clause_values[p]


@inlined
def move_slots(own, begin, end, labels, first_word, at, a, b):
    """Bring the words of the other factors around a variable up to date with its move from state a to b."""
    for s in range(begin, end):
        w, turn = first_word + 2 * own[s, FACTOR], own[s, TURN]
        change = held(labels, turn, b) - held(labels, turn, a)
        at[w] += change * own[s, FIRST_WEIGHT]
        at[w + 1] += change * own[s, SECOND_WEIGHT]


@inlined
def look_around(kinds, var_ptr, x, kept, local, at, i):
    """Fill `local` of variable i: what is kept of it, and the values of all other factors around it."""
    own, labels, first_word = kinds.own, kinds.labels, kinds.first_word
    factors, values, keys = kinds.factors, kinds.values, kinds.keys
    first, card = var_ptr[i], var_ptr[i + 1] - var_ptr[i]
    for y in range(first, first + card):
        local[y] = kept[y]
    for s in range(kinds.own_ptr[i], kinds.own_ptr[i + 1]):
        p, turn = own[s, FACTOR], own[s, TURN]
        by_one, by_two = own[s, FIRST_WEIGHT], own[s, SECOND_WEIGHT]
        w = first_word + 2 * p
        here = held(labels, turn, x[i])
        one, two = at[w] - by_one * here, at[w + 1] - by_two * here
        for y in range(card):
            h = held(labels, turn, y)
            local[first + y] += value_of(factors, values, keys, p, one + by_one * h, two + by_two * h)


@inlined
def add_clauses(kinds, var_ptr, x, kept, at):
    """Fill the words of the clauses, add them to `kept`, and return the sum of their values."""
    literal_ptr, literals, clause_values = kinds.literal_ptr, kinds.literals, kinds.clause_values
    var_of_state, first_clause = kinds.var_of_state, kinds.first_clause
    score = 0.0
    for p in range(len(clause_values)):
        begin, end = literal_ptr[p], literal_ptr[p + 1]
        word = 0
        for m in range(begin, end):
            name = np.int64(literals[m])
            i = var_of_state[name]
            if var_ptr[i] + x[i] != name:
                word = (word ^ name) + ONE_LITERAL
        at[first_clause + p] = word
        if word == 0:
            score += clause_values[p]
            for m in range(begin, end):
                kept[np.int64(literals[m])] += clause_values[p]
        elif word >> 40 == 1:
            kept[word & (ONE_LITERAL - 1)] += clause_values[p]
    return score


@inlined
def add_words(kinds, x, at):
    """Fill the words of the other factors, and return the sum of their values."""
    own, members, member_ptr, labels, base = kinds.own, kinds.members, kinds.member_ptr, kinds.labels, kinds.base
    factors, values, keys, first_word = kinds.factors, kinds.values, kinds.keys, kinds.first_word
    score = 0.0
    for p in range(len(base)):
        one, two = base[p, 0], base[p, 1]
        for m in range(member_ptr[p], member_ptr[p + 1]):
            s = members[m, MEMBER_SLOT]
            h = held(labels, members[m, MEMBER_TURN], x[members[m, VARIABLE]])
            one += h * own[s, FIRST_WEIGHT]
            two += h * own[s, SECOND_WEIGHT]
        w = first_word + 2 * p
        at[w] = one
        at[w + 1] = two
        score += value_of(factors, values, keys, p, one, two)
    return score


def _has_tables_only(arrays):
    """Whether the Numba type of a `MoveArrays` is that of a graph of tables."""
    return isinstance(arrays.types[arrays.fields.index("kinds")], types.NoneType)


def move_kinds(arrays, state, i, b):
    """Bring words and `kept` up to date with a move of variable i to state b; nothing in a graph of tables."""


@overload(move_kinds, jit_options=FAST_OPTIONS)
def _move_kinds(arrays, state, i, b):
    def nothing(arrays, state, i, b):
        pass

    def some(arrays, state, i, b):
        kinds, at = KindMoves(*arrays.kinds), state.at
        a, begin, end = state.x[i], kinds.clause_ptr[i], kinds.clause_ptr[i + 1]
        if begin < end:
            move_clauses(
                kinds.clauses, begin, end, kinds.literal_ptr, kinds.literals, kinds.clause_values, kinds.first_clause,
                state.kept, at, arrays.var_ptr[i], a,
            )  # fmt: skip
        move_slots(kinds.own, kinds.own_ptr[i], kinds.own_ptr[i + 1], kinds.labels, kinds.first_word, at, a, b)

    return nothing if _has_tables_only(arrays) else some


def look(arrays, state, i):
    """Bring `state.local` of variable i up to date, which moves of others leave behind; call it before reading.

    It does nothing in a graph of tables, where `kept` is `local`.
    """


@overload(look, jit_options=FAST_OPTIONS)
def _look(arrays, state, i):
    def nothing(arrays, state, i):
        pass

    def some(arrays, state, i):
        kinds = KindMoves(*arrays.kinds)
        look_around(kinds, arrays.var_ptr, state.x, state.kept, state.local, state.at, i)

    return nothing if _has_tables_only(arrays) else some


def add_kinds(kinds, var_ptr, x, kept, at):
    """Fill the words, add the clauses to `kept` and return the sum of all values; 0 in a graph of tables."""


@overload(add_kinds, jit_options=FAST_OPTIONS)
def _add_kinds(kinds, var_ptr, x, kept, at):
    def nothing(kinds, var_ptr, x, kept, at):
        return 0.0

    def some(kinds, var_ptr, x, kept, at):
        kinds = KindMoves(*kinds)
        return add_clauses(kinds, var_ptr, x, kept, at) + add_words(kinds, x, at)

    return nothing if isinstance(kinds, types.NoneType) else some
