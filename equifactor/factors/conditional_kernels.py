# mypy: ignore-errors
"""What a factor of any kind is worth at each state of one of its variables, where all others have a state.

Parities, clauses and counts only ask how many of their literals hold. That number is kept up to date beside the states,
in `held [F]`, so that an answer costs O(1) at any arity.
"""

import math

import numpy as np

from equifactor.factors.noisy_or.noisy_or_kernels import IN_SCOPE, ON, log_of_rest
from equifactor.factors.structured_kernels import (
    CLAUSE,
    COUNT,
    NOISY_OR,
    PARITY,
    POTTS,
    SPARSE,
    KindRows,
)
from equifactor.graph.layout import CARD, ENTRY, SLOT, VAR
from equifactor.kernels.jit import fast_kernel

NEG_INF = -math.inf


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
                values[x] = log_phi[start + n % 2]
            elif kind == CLAUSE:
                values[x] = log_phi[start] if n == 0 else 0.0
            else:
                values[x] = log_phi[start + n]
    elif kind == NOISY_OR:
        _noisy_or_values(slots, first, k, s, log_phi, start, words, word, states, values)
    elif kind == SPARSE:
        for x in range(d):
            values[x] = log_phi[start]
        for n in range(factors[p + 1, ENTRY] - start - 1):
            agrees = True
            for j in range(k):
                if first + j != s and words[word + n * k + j] != states[slots[first + j, VAR]]:
                    agrees = False
                    break
            if agrees:
                values[words[word + n * k + s - first]] = log_phi[start + 1 + n]
    else:
        other = first if s > first else first + 1
        own_word, other_word = word, word + d
        if s > first:
            own_word, other_word = word + slots[first, CARD], word
        label = words[other_word + states[slots[other, VAR]]]
        one, two = log_phi[start], log_phi[start + 1]
        for x in range(d):
            a = words[own_word + x]
            values[x] = (one if a == label else two) if kind == POTTS else max(one * abs(a - label), two)


@fast_kernel
def _noisy_or_values(slots, first, k, s, log_phi, start, words, word, states, values):
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
