# mypy: ignore-errors
"""Single-variable moves through structured factors: their words, their values, and what a move changes.

`kinds` is a `KindMoves` as a plain tuple, or None in a graph of tables. When a kernel is compiled, the type of `kinds`
decides what `add_kinds`, `move_kinds` and `look` do: nothing at all in a graph of tables.

Every move updates the values of clauses in `state.kept`, since it changes few of them. The values of other kinds are
looked up when a variable is visited, at a cost of O(1) for each factor around it, at any arity.
"""

from numba import types
from numba.core.extending import overload

from equifactor.factors.clause.clause_move_kernels import add_clauses, move_clauses
from equifactor.factors.clause.clause_move_kernels import other_literals as other_literals
from equifactor.factors.kind_numbers import COUNT, NOISY_OR, PARITY, POTTS, TRUNCATED_LINEAR
from equifactor.factors.move_kinds import KindMoves
from equifactor.factors.noisy_or.noisy_or_kernels import noisy_or_value
from equifactor.factors.parity.parity_kernels import parity_value
from equifactor.factors.potts.potts_kernels import potts_value
from equifactor.factors.sparse.sparse_kernels import sparse_value
from equifactor.factors.truncated_linear.truncated_linear_kernels import truncated_linear_value
from equifactor.kernels.jit import FAST_OPTIONS, inlined

FACTOR, TURN, FIRST_WEIGHT, SECOND_WEIGHT = 0, 1, 2, 3  # columns of `own`
VARIABLE, MEMBER_TURN, MEMBER_SLOT = 0, 1, 2  # columns of `members`
KIND, VALUE, KEY = 0, 1, 2  # columns of `factors`


@inlined
def held(labels, turn, x):
    """Return the number by which state x enters the words of a factor."""
    return x ^ turn if turn < 2 else labels[turn - 2 + x]


@inlined
def value_of(factors, values, keys, p, first, second):
    """Return the log value of factor p at these words."""
    kind, start = factors[p, KIND], factors[p, VALUE]
    if kind == PARITY:
        value = parity_value(values, start, first)
    elif kind == COUNT:
        value = values[start + first]
    elif kind == NOISY_OR:
        value = noisy_or_value(values, start, first, second)
    elif kind == POTTS:
        value = potts_value(values, start, first, second)
    elif kind == TRUNCATED_LINEAR:
        value = truncated_linear_value(values, start, first, second)
    else:
        value = sparse_value(values, start, keys, factors[p, KEY], factors[p + 1, KEY], first)
    return value


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
    """Fill `local` of variable i with its part of `kept` and the values of all other factors around it."""
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
    """Return whether the Numba type of a `MoveArrays` is that of a graph of tables."""
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
    """Bring `state.local` of variable i up to date. Moves of other variables do not, so call it before reading.

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
