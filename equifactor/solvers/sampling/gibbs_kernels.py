# mypy: ignore-errors
"""Gibbs sampling: every variable in turn is drawn from its distribution given the others."""

from equifactor.numerics.fastmath import MIN_EXP, exp_, get, put
from equifactor.numerics.jit import fast_kernel
from equifactor.numerics.moves import move
from equifactor.numerics.randomness import random_unit


@fast_kernel
def gibbs_sweeps(
    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, rng, p, sweeps, thin,
    total, squares,
):  # fmt: skip
    """So many sweeps of every chain; of each `thin`-th one, adds the conditional distributions to the sums.

    x, local, at, rng [C, ..] are the states of the chains (see `kernels.moves`), p [X] is scratch. total and squares
    [C, X] sum p(x_i | rest) and its square: averages of `total` are Rao-Blackwell estimates of the marginals. With
    thin = 0 nothing is recorded.
    """
    for c in range(len(x)):
        x_c, local_c, at_c, rng_c, total_c, squares_c = x[c], local[c], at[c], rng[c], total[c], squares[c]
        for n in range(1, sweeps + 1):
            keep = thin > 0 and n % thin == 0
            for i in range(len(x_c)):
                first = var_ptr[i]
                card = var_ptr[i + 1] - first
                top = local_c[first]
                for y in range(1, card):
                    top = max(top, get(local_c, first + y))
                scale = 0.0
                for y in range(card):
                    v = get(local_c, first + y) - top
                    # A zero lies at least 2,000 below (`SearchModel`): its probability is exactly 0.
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
                while p[first + b] == 0.0:  # rounding may leave the end of the list, where a zero may be
                    b -= 1
                if keep:
                    scale = 1.0 / scale
                    for y in range(card):
                        v = get(p, first + y) * scale
                        put(total_c, first + y, get(total_c, first + y) + v)
                        put(squares_c, first + y, get(squares_c, first + y) + v * v)
                if b != x_c[i]:
                    move(
                        var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x_c, local_c, at_c, i, b
                    )  # fmt: skip
