# mypy: ignore-errors
"""Single-variable moves with incremental scores: a move costs as much as the factors it touches.

`arrays` is the `MoveArrays` of a graph and `state` the `MoveState` of one assignment; both are records of
`equifactor.factors.move_model`. All values are finite, because zeros are penalties there.

Records cost nothing here as long as loops use local names. An array that is taken out of its record inside a loop has
its references counted each time. This made block moves over factors of three variables up to 38 % slower.
"""

from equifactor.factors.kind_moves import add_kinds, move_kinds
from equifactor.factors.move_model import MoveArrays, MoveState
from equifactor.kernels.fastmath import copy_into, get, put
from equifactor.kernels.jit import fast_kernel, inlined

TO, BASE = 0, 1  # columns of `arcs`: the neighbour, and where the table of the pair begins
FACTOR, VARIABLE, STRIDE = 0, 1, 2  # columns of `slots`
SLOT, ENTRY = 0, 1  # columns of `factors`


@fast_kernel
def add_pairs(log_phi, entry, card_i, card_j, forward, backward, pair):
    """Add the table of every factor of two variables to the tables of its two arcs."""
    for p in range(len(entry)):
        for a in range(card_i[p]):
            for b in range(card_j[p]):
                value = log_phi[entry[p] + a * card_j[p] + b]
                pair[forward[p] + a * card_j[p] + b] += value
                pair[backward[p] + b * card_i[p] + a] += value


@inlined
def states_of(var_ptr, i):
    """Return the first state of variable i and how many it has."""
    return var_ptr[i], var_ptr[i + 1] - var_ptr[i]


@inlined
def rebuild_inline(arrays, state):
    """Fill `state.kept` and `state.at` from the assignment and return its score without the constant.

    The cost is the number of states of all neighbours of all variables.
    """
    var_ptr, unary, arc_ptr, arcs, pair = arrays.var_ptr, arrays.unary, arrays.arc_ptr, arrays.arcs, arrays.pair
    slots, factors, table = arrays.slots, arrays.factors, arrays.table
    x, kept, at = state.x, state.kept, state.at
    copy_into(kept, unary)
    score = add_kinds(arrays.kinds, var_ptr, x, kept, at)
    for i in range(len(x)):
        score += unary[var_ptr[i] + x[i]]
        for r in range(arc_ptr[i], arc_ptr[i + 1]):
            if arcs[r, BASE] >= 0:
                j = arcs[r, TO]
                first, card = states_of(var_ptr, j)
                row = arcs[r, BASE] + x[i] * card
                for y in range(card):
                    put(kept, first + y, get(kept, first + y) + get(pair, row + y))
                if i < j:
                    score += pair[row + x[j]]
    for p in range(len(factors) - 1):
        entry = factors[p, ENTRY]
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            entry += x[slots[s, VARIABLE]] * slots[s, STRIDE]
        at[p] = entry
        score += table[entry]
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            j, stride = slots[s, VARIABLE], slots[s, STRIDE]
            first, card = states_of(var_ptr, j)
            row = entry - x[j] * stride
            for y in range(card):
                kept[first + y] += table[row + y * stride]
    return score


@fast_kernel
def rebuild(arrays, state):
    """Run `rebuild_inline` as a kernel of its own, which takes its records as plain tuples."""
    return rebuild_inline(MoveArrays(*arrays), MoveState(*state))


@inlined
def move(arrays, state, i, b):
    """Put variable i into state b and bring `kept` and `at` up to date."""
    move_kinds(arrays, state, i, b)
    move_in_tables(arrays, state, i, b)


@inlined
def move_in_tables(arrays, state, i, b):
    """Do `move` in dense tables."""
    var_ptr, arc_ptr, arcs, pair = arrays.var_ptr, arrays.arc_ptr, arrays.arcs, arrays.pair
    high_ptr, high, slots, factors, table = arrays.high_ptr, arrays.high, arrays.slots, arrays.factors, arrays.table
    x, kept, at = state.x, state.kept, state.at
    a = x[i]
    for r in range(arc_ptr[i], arc_ptr[i + 1]):
        base = arcs[r, BASE]
        if base >= 0:
            first, card = states_of(var_ptr, arcs[r, TO])
            old, new = base + a * card, base + b * card
            for y in range(card):
                put(kept, first + y, get(kept, first + y) + (get(pair, new + y) - get(pair, old + y)))
    for r in range(high_ptr[i], high_ptr[i + 1]):
        s = high[r]
        p = slots[s, FACTOR]
        shift = (b - a) * slots[s, STRIDE]
        for t in range(factors[p, SLOT], factors[p + 1, SLOT]):
            if t != s:
                j, stride = slots[t, VARIABLE], slots[t, STRIDE]
                first, card = states_of(var_ptr, j)
                row = at[p] - x[j] * stride
                for y in range(card):
                    kept[first + y] += table[row + shift + y * stride] - table[row + y * stride]
        at[p] += shift
    x[i] = b
