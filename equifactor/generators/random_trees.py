"""Random trees, on which belief propagation is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from equifactor.generators.argument_checks import check_size, number_of_graphs, real, whole, whole_range
from equifactor.generators.building_blocks import field_structure
from equifactor.generators.random_tables import with_random_tables

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.structure import Structure


class TreeOptions(TypedDict, total=False):
    """Keyword arguments of `random_tree`, for the type checker."""

    card: int | tuple[int, int]
    strength: float
    zeros: float
    seed: int


@overload
def random_tree(num_vars: int, *, count: None = None, **options: Unpack[TreeOptions]) -> FactorGraph: ...
@overload
def random_tree(num_vars: int, *, count: int, **options: Unpack[TreeOptions]) -> list[FactorGraph]: ...
def random_tree(
    num_vars: int,
    *,
    card: int | tuple[int, int] = 2,
    strength: float = 1.0,
    zeros: float = 0.0,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw a random tree with a unary factor on every variable and a pair factor on every edge.

    The tree is a random recursive tree: each new variable is joined to a uniform random earlier variable. Numbers and
    scope orders are shuffled. Every graph of a list has its own tree, and graph i does not depend on `count`.

    Args:
        num_vars: V; there are V unary and V - 1 pair factors.
        card: number of states, or `(low, high)` to draw the number per variable.
        strength: log entries are drawn from N(0, strength^2).
        zeros: probability of a zero entry; one planted assignment keeps positive probability.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.

    Cost O(V + T) per graph; no loop over factors.
    """
    num_vars = whole("num_vars", num_vars, 1)
    low, high = whole_range("card", card, 1)
    strength, zeros = real("strength", strength), real("zeros", zeros, 0.0, 1.0)
    n = number_of_graphs(count)
    check_size(n * num_vars * (low + low**2))
    rng = np.random.default_rng(whole("seed", seed, 0))
    graphs = [
        with_random_tables(
            _structure(num_vars, low, high, rng), rng, strength, zeros, f"tree-{num_vars}-seed{seed}-{i}"
        )
        for i in range(n)
    ]
    return graphs[0] if count is None else graphs


def _structure(num_vars: int, low: int, high: int, rng: np.random.Generator) -> Structure:
    card = rng.integers(low, high, endpoint=True, size=num_vars)
    number = rng.permutation(num_vars)
    child = np.arange(1, num_vars)
    edges = number[np.stack((rng.integers(child), child), axis=1)]  # parent < child before the shuffle
    edges = rng.permuted(edges, axis=1)  # either end may come first in the scope
    return field_structure(card, edges)
