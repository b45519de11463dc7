"""Random factor graphs with a given arity, cardinality and share of zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.generators.argument_checks import check_size, number_of_graphs, real, whole, whole_range
from equifactor.generators.random_tables import with_random_tables
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.factor_graph import FactorGraph


class RandomOptions(TypedDict, total=False):
    """Keyword arguments of `random_graph`, for the type checker."""

    arity: int | tuple[int, int]
    card: int | tuple[int, int]
    strength: float
    zeros: float
    structures: int | None
    seed: int


@overload
def random_graph(
    num_vars: int, num_factors: int, *, count: None = None, **options: Unpack[RandomOptions]
) -> FactorGraph: ...
@overload
def random_graph(
    num_vars: int, num_factors: int, *, count: int, **options: Unpack[RandomOptions]
) -> list[FactorGraph]: ...
def random_graph(
    num_vars: int,
    num_factors: int,
    *,
    arity: int | tuple[int, int] = (1, 3),
    card: int | tuple[int, int] = 2,
    strength: float = 1.0,
    zeros: float = 0.0,
    structures: int | None = None,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw factors with uniform random scopes in random order; some variables may have no factor.

    Every graph of a list has its own scopes unless `structures` is given. Graph i does not depend on `count`.

    Args:
        num_vars: V, the number of variables.
        num_factors: F, the number of factors.
        arity: number of variables per factor, or `(low, high)` to draw the number per factor; 0 gives a constant.
        card: number of states, or `(low, high)` to draw the number per variable.
        strength: log entries are drawn from N(0, strength^2).
        zeros: probability of a zero entry; one planted assignment keeps positive probability.
        structures: number of different structures, which the graphs use in turn; few structures make training faster.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.

    Cost O(V + T + F k^2) per graph for the largest arity k; no loop over factors.
    """
    num_vars, num_factors = whole("num_vars", num_vars, 1), whole("num_factors", num_factors, 0)
    arities, cards = whole_range("arity", arity, 0), whole_range("card", card, 1)
    if arities[1] > num_vars:
        raise OptionError(f"arity must be at most {num_vars}, the number of variables; found {arities[1]}.")
    strength, zeros = real("strength", strength), real("zeros", zeros, 0.0, 1.0)
    n = number_of_graphs(count)
    check_size(n * (num_vars * cards[0] + num_factors * cards[0] ** arities[0]))
    rng = np.random.default_rng(whole("seed", seed, 0))
    shared = [] if structures is None else range(min(n, whole("structures", structures, 1)))
    made = [_structure(num_vars, num_factors, arities, cards, np.random.default_rng([seed, k])) for k in shared]
    graphs = []
    for i in range(n):
        structure = made[i % len(made)] if made else _structure(num_vars, num_factors, arities, cards, rng)
        name = f"random-{num_vars}-{num_factors}-seed{seed}-{i}"
        graphs.append(with_random_tables(structure, rng, strength, zeros, name))
    return graphs[0] if count is None else graphs


def _structure(
    num_vars: int,
    num_factors: int,
    arities: tuple[int, int],
    cards: tuple[int, int],
    rng: np.random.Generator,
) -> Structure:
    card = rng.integers(cards[0], cards[1], endpoint=True, size=num_vars)
    arity = rng.integers(arities[0], arities[1], endpoint=True, size=num_factors)
    scope_ptr = ptr_of(arity)
    return Structure.build(card, scope_ptr, random_subsets(num_vars, arity, rng))


def random_subsets(num_vars: int | IntArray, size: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw a uniform random subset of the variables, in random order, for each factor; return all in one array.

    `num_vars` is V, or [F] if the subset of each factor is drawn among its own number of first variables. This is
    Floyd's sampling for all factors at once. Slot j draws from the first V - size + j + 1 variables. If the drawn
    variable is already in the subset, the slot takes the last of these variables.
    """
    width = int(size.max(initial=0))
    available = np.broadcast_to(num_vars, size.shape)
    chosen = np.full((len(size), width), -1, np.int64)
    for j in range(width):
        rows = np.flatnonzero(size > j)
        last = available[rows] - size[rows] + j
        draw = rng.integers(last, endpoint=True)
        taken = np.any(chosen[rows, :j] == draw[:, None], axis=1)
        chosen[rows, j] = np.where(taken, last, draw)
    # Floyd's order is not uniform, so sort by random keys; slots beyond the size come last.
    key = np.where(chosen < 0, 2.0, rng.random(chosen.shape))
    shuffled = np.take_along_axis(chosen, np.argsort(key, axis=1), axis=1)
    return shuffled[shuffled >= 0]
