# mypy: ignore-errors
"""Single-variable moves through clauses; `clause_moves` says what their words are."""

import numpy as np

from equifactor.factors.clause.clause_moves import LITERAL_BITS, ONE_LITERAL
from equifactor.kernels.jit import inlined


@inlined
def move_clauses(clauses, begin, end, literal_ptr, literals, clause_values, first_clause, kept, at, first, a):
    """Flip the literals of a variable whose first state is `first` and that leaves state a.

    In a clause where no other literal holds, all other variables notice it. Where exactly one holds, its variable does.
    """
    for r in range(begin, end):
        p, turn = np.int64(clauses[r]) >> 1, np.int64(clauses[r]) & 1
        held_before = a ^ turn
        name = first + turn
        w = first_clause + p
        word = at[w]
        others = (word >> LITERAL_BITS) - held_before
        change = 1 - 2 * held_before
        word = (word ^ name) + change * ONE_LITERAL
        at[w] = word
        if others == 0:  # No other literal holds: the clause now matters to each of them, or no longer.
            more = -change * clause_values[p]
            for m in range(literal_ptr[p], literal_ptr[p + 1]):
                other = np.int64(literals[m])
                if other != name:
                    kept[other] += more
        elif others == 1:  # One other literal holds: the clause now needs it, or no longer.
            other = (word & (ONE_LITERAL - 1)) ^ (0 if held_before else name)
            kept[other] -= change * clause_values[p]


@inlined
def other_literals(clauses, first_clause, at, r, first, here):
    """Return how many literals other than the r-th one hold in its clause, and the name of the one if it is one.

    The variable of literal r has `first` as its first state and is in state `here`.
    """
    turn = np.int64(clauses[r]) & 1
    word, holds = at[first_clause + (np.int64(clauses[r]) >> 1)], here ^ turn
    return (word >> LITERAL_BITS) - holds, (word & (ONE_LITERAL - 1)) ^ (first + turn if holds else 0)


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
        elif word >> LITERAL_BITS == 1:
            kept[word & (ONE_LITERAL - 1)] += clause_values[p]
    return score


@inlined
def join_clause_pair(kinds, x, at, c, q, p, theta):
    """Fill theta [2, 2] with the values of clause p over its variables c and q, the others held fixed."""
    clauses, clause_ptr = kinds.clauses, kinds.clause_ptr
    s, t = clause_ptr[c], clause_ptr[q]
    while np.int64(clauses[s]) >> 1 != p:
        s += 1
    while np.int64(clauses[t]) >> 1 != p:
        t += 1
    turn_c, turn_q = np.int64(clauses[s]) & 1, np.int64(clauses[t]) & 1
    others = (at[kinds.first_clause + p] >> LITERAL_BITS) - (x[c] ^ turn_c) - (x[q] ^ turn_q)
    theta[:4] = 0.0
    if others == 0:
        theta[2 * turn_c + turn_q] = kinds.clause_values[p]
