# mypy: ignore-errors
"""What a factor of any kind is worth at each state of one of its variables, where all others have a state.

Parities, clauses and counts only ask how many of their literals hold. That number is kept up to date beside the states,
in `held [F]`, so that an answer costs O(1) at any arity.
"""

import numpy as np

from equifactor.factors.kind_numbers import CLAUSE, COUNT, NOISY_OR, PARITY, POTTS, SPARSE
from equifactor.factors.kind_rows import KindRows
from equifactor.factors.noisy_or.noisy_or_kernels import noisy_or_values
from equifactor.factors.parity.parity_kernels import parity_value
from equifactor.factors.potts.potts_kernels import potts_value
from equifactor.factors.sparse.sparse_kernels import sparse_values
from equifactor.factors.truncated_linear.truncated_linear_kernels import truncated_linear_value
from equifactor.graph.layout import CARD, ENTRY, SLOT, VAR
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def literals_held(factors, slots, rows, states):
    """[F] how many literals of each clause and count, and how many ones of each parity, hold in states [V]."""
    rows = KindRows(*rows)
    held = np.zeros(len(factors) - 1, np.int64)
    for p in range(rows.num_tables, len(held)):
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            held[p] += literal_holds(factors, rows, p, s, states[slots[s, VAR]])
    return held


@fast_kernel
def literal_holds(factors, rows, p, s, x):
    """1 where state x of slot s counts in the number that `literals_held` keeps, else 0."""
    rows = KindRows(*rows)
    kind = rows.kind[p]
    if kind == PARITY:
        return x
    if kind in (CLAUSE, COUNT):
        return 1 if rows.words[rows.word_ptr[p] + s - factors[p, SLOT]] == x else 0
    return 0


@fast_kernel
def conditional_values(factors, slots, log_phi, rows, p, s, states, held, values):
    """Fill values [d] with the log value of factor p at each state of its slot s; the other slots are as in states [V].

    Args:
        factors: [F+1, 2] as in `Layout`.
        slots: [E, 4] as in `Layout`.
        log_phi: [T] the log values of all factors.
        rows: the fields of `KindRows`.
        p: the factor, which is no table.
        s: the slot.
        states: [V] an assignment.
        held: [F] as `literals_held` makes it of the states.
        values: as said.
    """
    rows = KindRows(*rows)
    first, start, word = factors[p, SLOT], factors[p, ENTRY], rows.word_ptr[p]
    k, d = factors[p + 1, SLOT] - first, slots[s, CARD]
    kind, words = rows.kind[p], rows.words
    if kind in (PARITY, CLAUSE, COUNT):
        others = held[p] - literal_holds(factors, rows, p, s, states[slots[s, VAR]])
        for x in range(2):
            n = others + literal_holds(factors, rows, p, s, x)
            if kind == PARITY:
                values[x] = parity_value(log_phi, start, n)
            elif kind == CLAUSE:
                values[x] = log_phi[start] if n == 0 else 0.0
            else:
                values[x] = log_phi[start + n]
    elif kind == NOISY_OR:
        noisy_or_values(slots, first, k, s, log_phi, start, words, word, states, values)
    elif kind == SPARSE:
        sparse_values(factors, slots, log_phi, words, word, p, s, states, values)
    else:
        other = first if s > first else first + 1
        own_word, other_word = word, word + d
        if s > first:
            own_word, other_word = word + slots[first, CARD], word
        label = words[other_word + states[slots[other, VAR]]]
        for x in range(d):
            if kind == POTTS:
                values[x] = potts_value(log_phi, start, words[own_word + x], label)
            else:
                values[x] = truncated_linear_value(log_phi, start, words[own_word + x], label)
