# mypy: ignore-errors
"""Gibbs sampling: each variable in turn is drawn from its distribution given the others."""

from equifactor.factors.kind_moves import look
from equifactor.factors.move_model import MoveArrays, MoveState
from equifactor.factors.moves import move, states_of
from equifactor.kernels.fastmath import MIN_EXP, exp_, get, put
from equifactor.kernels.jit import fast_kernel
from equifactor.kernels.randomness import random_unit


@fast_kernel
def gibbs_sweeps(arrays, chains, rng, p, sweeps, thin, total, squares):
    """Make `sweeps` sweeps of every chain and add the conditional distributions of each `thin`-th one to the sums.

    `arrays` is a `MoveArrays`, `chains` a `MoveState` of C chains, rng [C, 1] their random states and p [X] scratch.
    total and squares [C, X] sum p(x_i | rest) and its square: averages of `total` are Rao-Blackwell estimates of the
    marginals. With thin = 0 nothing is recorded.
    """
    arrays, chains = MoveArrays(*arrays), MoveState(*chains)
    for c in range(len(chains.x)):
        state = MoveState(chains.x[c], chains.local[c], chains.at[c], chains.kept[c])
        x, local, rng_c, total_c, squares_c = state.x, state.local, rng[c], total[c], squares[c]
        for n in range(1, sweeps + 1):
            keep = thin > 0 and n % thin == 0
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
