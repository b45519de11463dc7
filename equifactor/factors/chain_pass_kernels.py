# mypy: ignore-errors
"""Max-marginals of parities, clauses and counts along a pass over the variables, at O(1) or O(cap) each.

These factors are automata that read their variables in any order, so they read them in the order of the pass. `so_far`
is the best value of the slots already read, for each state of the automaton. `to_come` is the best value of the
remaining slots from each state, for each slot as it was when the pass began. Both meet at the slot whose turn it is.
"""

from typing import NamedTuple

import numpy as np

from equifactor.base.typing import BoolArray, FloatArray, IntArray
from equifactor.factors.count.count_kernels import cap_of_count
from equifactor.factors.kind_numbers import CLAUSE, COUNT, PARITY
from equifactor.factors.kind_rows import KindRows
from equifactor.graph.layout import ENTRY, MSG, SLOT
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, kernel

STATES = 0  # The place of the field `size` in a `PassChains` that is passed as a plain tuple.


class PassChains(NamedTuple):
    """The automata of one graph, or batch."""

    size: IntArray  # [F] number of states, 0 for factors that are not automata
    fails: BoolArray  # [F] whether a count counts the literals that fail
    row: IntArray  # [F] where the states of each factor begin in so_far
    slot_row: IntArray  # [E] where the states of each slot begin in to_come
    so_far: FloatArray
    to_come: FloatArray


@kernel
def pass_chains(factors, log_phi, rows, most):
    """Return the fields of the `PassChains` of all factors that are automata of at most `most` numbers each."""
    rows = KindRows(*rows)
    num_factors, num_slots = len(factors) - 1, factors[-1, SLOT]
    size, fails = np.zeros(num_factors, np.int64), np.zeros(num_factors, np.bool_)
    row, slot_row = np.zeros(num_factors, np.int64), np.zeros(num_slots, np.int64)
    states, numbers = 0, 0
    for p in range(rows.num_tables, num_factors):
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        needed = 0
        if rows.kind[p] == PARITY or rows.kind[p] == CLAUSE:
            needed = 2
        elif rows.kind[p] == COUNT:
            cap, fails[p] = cap_of_count(log_phi, factors[p, ENTRY], last - first)
            needed = cap + 1
        if needed == 0 or needed * (last - first) > most:
            continue
        size[p], row[p] = needed, states
        states += needed
        for s in range(first, last):
            slot_row[s] = numbers
            numbers += needed
    return size, fails, row, slot_row, np.empty(states), np.empty(numbers)


@fast_kernel
def begin_pass(order, slot_ptr, slots_of_var, factor_of_slot, factors, slots, log_phi, rows, chains, back):
    """Fill `to_come` for a pass over the variables in this order, and reset `so_far`."""
    rows, chains = KindRows(*rows), PassChains(*chains)
    size, so_far, to_come = chains.size, chains.so_far, chains.to_come
    for p in range(rows.num_tables, len(size)):
        start, k, row = factors[p, ENTRY], factors[p + 1, SLOT] - factors[p, SLOT], chains.row[p]
        for c in range(size[p]):  # so_far first holds the value of the slots that come later
            if rows.kind[p] == CLAUSE:
                so_far[row + c] = log_phi[start] if c == 0 else 0.0
            elif rows.kind[p] == PARITY:
                so_far[row + c] = log_phi[start + c]
            else:
                so_far[row + c] = log_phi[start + (k - c if chains.fails[p] else c)]
    for n in range(len(order) - 1, -1, -1):
        i = order[n]
        for r in range(slot_ptr[i], slot_ptr[i + 1]):
            s = slots_of_var[r]
            p = factor_of_slot[s]
            if size[p] == 0:
                continue
            row, here, m = chains.row[p], chains.slot_row[s], slots[s, MSG]
            one = counted_state(factors, rows, chains, p, s)
            for c in range(size[p]):
                to_come[here + c] = so_far[row + c]
            for c in range(size[p]):
                then = next_state(rows, chains, p, c)
                so_far[row + c] = max(back[m + 1 - one] + to_come[here + c], back[m + one] + to_come[here + then])
    for p in range(rows.num_tables, len(size)):
        for c in range(size[p]):
            so_far[chains.row[p] + c] = 0.0 if c == 0 else NEG_INF


@fast_kernel
def counted_state(factors, rows, chains, p, s):
    """Return the state of slot s that advances the automaton of factor p."""
    if rows.kind[p] == PARITY:
        return 1
    return rows.words[rows.word_ptr[p] + s - factors[p, SLOT]] ^ (1 if chains.fails[p] else 0)


@fast_kernel
def next_state(rows, chains, p, c):
    """Return the state that the automaton advances to from state c."""
    return 1 - c if rows.kind[p] == PARITY else min(c + 1, chains.size[p] - 1)


@fast_kernel
def chain_marginal(factors, slots, rows, chains, p, s, out):
    """Fill `out` at slot s of factor p with the max over its other slots of log_phi + back."""
    rows, chains = KindRows(*rows), PassChains(*chains)
    so_far, to_come, row, here = chains.so_far, chains.to_come, chains.row[p], chains.slot_row[s]
    one, m = counted_state(factors, rows, chains, p, s), slots[s, MSG]
    if_one, if_not = NEG_INF, NEG_INF
    for c in range(chains.size[p]):
        if_not = max(if_not, so_far[row + c] + to_come[here + c])
        if_one = max(if_one, so_far[row + c] + to_come[here + next_state(rows, chains, p, c)])
    out[m + one], out[m + 1 - one] = if_one, if_not


@fast_kernel
def chain_step(factors, slots, rows, chains, p, s, back):
    """Read slot s, whose message is renewed, into `so_far`."""
    rows, chains = KindRows(*rows), PassChains(*chains)
    so_far, row, size = chains.so_far, chains.row[p], chains.size[p]
    one, m = counted_state(factors, rows, chains, p, s), slots[s, MSG]
    stay, move = back[m + 1 - one], back[m + one]
    if rows.kind[p] == PARITY:
        even, odd = so_far[row], so_far[row + 1]
        so_far[row], so_far[row + 1] = max(even + stay, odd + move), max(odd + stay, even + move)
        return
    for c in range(size - 1, -1, -1):
        kept = so_far[row + c] + (max(stay, move) if c == size - 1 else stay)
        so_far[row + c] = max(kept, so_far[row + c - 1] + move) if c > 0 else kept
