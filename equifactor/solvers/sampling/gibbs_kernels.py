# mypy: ignore-errors
"""Gibbs sampling: each variable in turn is drawn from its distribution given the others; jumps between modes."""

import math

from equifactor.factors.kind_moves import look
from equifactor.factors.move_model import MoveArrays, MoveState
from equifactor.factors.moves import move, states_of
from equifactor.kernels.fastmath import MIN_EXP, exp_, get, put
from equifactor.kernels.jit import fast_kernel
from equifactor.kernels.randomness import random_unit
from equifactor.solvers.sampling.chain_move_kernels import exchanged, mark_part


@fast_kernel
def jump_singly(arrays, state, rng, pool, most, jumps):
    """Move one chain along the difference of two states of a pool; return 0 without a try, 1 if refused, 2 if accepted.

    See `mark_part`; jumps is (every, ptr, adj, mark, stack), with `every` the numbers of all variables. Variables move
    one after the other, which gives the difference of scores. A refused jump moves them back: the jump is its own
    inverse.
    """
    every, ptr, adj, mark, stack = jumps
    one, two = mark_part(rng, every, pool, most, (ptr, adj, mark, stack))
    if one < 0:
        return 0
    a, b, x, local, var_ptr = pool[one], pool[two], state.x, state.local, arrays.var_ptr
    gain, tried = 0.0, 0
    for _ in range(2):
        for i in range(len(x)):
            if mark[i]:
                y = exchanged(x[i], a[i], b[i])
                if y != x[i]:
                    look(arrays, state, i)
                    gain += local[var_ptr[i] + y] - local[var_ptr[i] + x[i]]
                    move(arrays, state, i, y)
                    tried = 1
        if tried == 0 or gain >= 0.0 or (gain > MIN_EXP and random_unit(rng) < math.exp(gain)):
            return 2 * tried
        gain = -math.inf  # The second round moves back.
    return 1


@fast_kernel
def gibbs_sweeps(arrays, chains, rng, p, sweeps, thin, total, squares, pool, most, jumps, jumped):
    """Make `sweeps` sweeps of every chain and add the conditional distributions of each `thin`-th one to the sums.

    `arrays` is a `MoveArrays`, `chains` a `MoveState` of C chains, rng [C, 1] their random states and p [X] scratch.
    total and squares [C, X] sum p(x_i | rest) and its square: averages of `total` are Rao-Blackwell estimates of the
    marginals. With thin = 0 nothing is recorded. If pool [M, V] holds two or more states, each sweep begins with a jump
    of at most `most` variables; see `jump_singly`. jumped [2] counts tries and accepted jumps.
    """
    arrays, chains = MoveArrays(*arrays), MoveState(*chains)
    for c in range(len(chains.x)):
        state = MoveState(chains.x[c], chains.local[c], chains.at[c], chains.kept[c])
        x, local, rng_c, total_c, squares_c = state.x, state.local, rng[c], total[c], squares[c]
        for n in range(1, sweeps + 1):
            keep = thin > 0 and n % thin == 0
            if len(pool) > 1:
                jump = jump_singly(arrays, state, rng_c, pool, most, jumps)
                jumped[0] += jump > 0
                jumped[1] += jump > 1
            for i in range(len(x)):
                look(arrays, state, i)
                first, card = states_of(arrays.var_ptr, i)
                top = local[first]
                for y in range(1, card):
                    top = max(top, get(local, first + y))
                scale = 0.0
                for y in range(card):
                    v = get(local, first + y) - top
                    # A zero lies at least 2,000 below (see `MoveModel`), so its probability is exactly 0.
                    v = exp_(v) if v > MIN_EXP else 0.0
                    put(p, first + y, v)
                    scale += v
                u = random_unit(rng_c) * scale
                b = card - 1
                for y in range(card - 1):
                    u -= p[first + y]
                    if u < 0.0:
                        b = y
                        break
                while p[first + b] == 0.0:  # Rounding may leave the last state, which may be a zero.
                    b -= 1
                if keep:
                    scale = 1.0 / scale
                    for y in range(card):
                        v = get(p, first + y) * scale
                        put(total_c, first + y, get(total_c, first + y) + v)
                        put(squares_c, first + y, get(squares_c, first + y) + v * v)
                if b != x[i]:
                    move(arrays, state, i, b)
