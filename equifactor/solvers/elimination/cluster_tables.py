# mypy: ignore-errors
"""Tables of an elimination: filled from factors, scaled, and converted between the linear and the log domain.

The arguments `groups` and `tables` are the records of `program.py`; see `elimination_kernels.py`.
"""

import math

from equifactor.kernels.fastmath import NEG_INF, bits_of, from_bits, get, put
from equifactor.kernels.jit import fast_kernel
from equifactor.solvers.elimination.program import ClusterTables, FactorGroups

WIDE = 600.0  # nats: a table whose logs span more than this is kept in logs
_INFINITY = 0x7FF0000000000000  # the bits of the floating-point infinity


@fast_kernel
def next_entry(at, k, first, axis_dim, step, steps, digit):
    """Return the place of the next entry along the axes up to k, or -1 after the last; `digit` counts along them."""
    while k >= 0:
        digit[k] += 1
        at += steps[step + k]
        if digit[k] < axis_dim[first + k]:
            return at
        at -= digit[k] * steps[step + k]
        digit[k] = 0
        k -= 1
    return -1


@fast_kernel
def fill_groups(log_phi, groups, op_start, arena, digit):
    """Sum the log tables of each group's factors into its table."""
    groups = FactorGroups(*groups)
    member_ptr, axis_ptr, axis_dim = groups.member_ptr, groups.axis_ptr, groups.axis_dim
    members, steps, step_ptr, table_ptr = groups.members, groups.steps, groups.step_ptr, groups.table_ptr
    for g in range(len(member_ptr) - 1):
        first, num_axes = axis_ptr[g], axis_ptr[g + 1] - axis_ptr[g]
        row = axis_dim[first + num_axes - 1]
        start, end = op_start[g], op_start[g]
        for m in range(member_ptr[g], member_ptr[g + 1]):
            for k in range(num_axes):
                digit[k] = 0
            at = table_ptr[members[m]]
            step = steps[step_ptr[m] + num_axes - 1]
            end = start
            while at >= 0:
                if m == member_ptr[g]:
                    for x in range(row):
                        arena[end + x] = log_phi[at + x * step]
                else:
                    for x in range(row):
                        arena[end + x] += log_phi[at + x * step]
                end += row
                at = next_entry(at, num_axes - 2, first, axis_dim, step_ptr[m], steps, digit)


@fast_kernel
def scale_log(op, start, size, arena, is_log, low):
    """Subtract the largest entry from the log table of operand `op`, and make it linear if its range allows.

    Returns the number that was subtracted.
    """
    top, least = NEG_INF, 0.0
    for t in range(start, start + size):
        top = max(top, arena[t])
    if top == NEG_INF:
        return top
    for t in range(start, start + size):
        arena[t] -= top
        if arena[t] > NEG_INF:
            least = min(least, arena[t])
    is_log[op] = least < -WIDE
    low[op] = 0.0
    if least >= -WIDE:
        for t in range(start, start + size):
            arena[t] = math.exp(arena[t])
        low[op] = math.exp(least)
    return top


@fast_kernel
def scale_groups(num_groups, tables):
    """Prepare the tables of all groups for sums; add their scales to scale[0]. Return False if one is all zero."""
    tables = ClusterTables(*tables)
    start, size, arena, is_log, low = tables.start, tables.size, tables.arena, tables.is_log, tables.low
    total = 0.0
    for g in range(num_groups):
        taken = scale_log(g, start[g], size[g], arena, is_log, low)
        if taken == NEG_INF:
            return False
        total += taken
    tables.scale[0] = total
    return True


@fast_kernel
def scale_linear(op, start, size, arena, is_log, low):
    """Divide the linear message of operand `op` by a power of two so that its largest entry is in [1/2, 1).

    The division is exact. Returns the log of the divisor.
    """
    top, least = 0, _INFINITY  # positive numbers are ordered like their bits, and integers are compared in lanes
    for t in range(size):
        b = bits_of(get(arena, start + t))
        top = max(top, b)
        least = min(least, b if b > 0 else _INFINITY)
    if top == 0:
        return NEG_INF
    exponent = math.frexp(from_bits(top))[1]
    factor = math.ldexp(1.0, -exponent)
    for t in range(size):
        put(arena, start + t, get(arena, start + t) * factor)
    is_log[op] = False
    low[op] = from_bits(least) * factor
    return exponent * math.log(2.0)


@fast_kernel
def to_log(arena, start, size):
    """Turn a linear table into logs, in place."""
    for t in range(start, start + size):
        arena[t] = math.log(arena[t]) if arena[t] > 0.0 else NEG_INF


@fast_kernel
def normalise(state_start, dim, p):
    """Scale the probabilities of every variable to sum 1 again, since the downward pass has multiplied many of them."""
    for n in range(len(dim)):
        total = 0.0
        for x in range(state_start[n], state_start[n] + dim[n]):
            total += p[x]
        for x in range(state_start[n], state_start[n] + dim[n]):
            p[x] /= total
