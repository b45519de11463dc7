"""Random Bayesian networks with sharp conditional tables, zeros and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from equifactor.generators.argument_checks import check_size, number_of_graphs, real, whole, whole_range
from equifactor.generators.random_graphs import random_subsets
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray


class NetworkOptions(TypedDict, total=False):
    """Keyword arguments of `random_network`, for the type checker."""

    parents: int | tuple[int, int]
    card: int | tuple[int, int]
    window: int | None
    sharpness: float
    zeros: float
    observed: float
    structures: int | None
    seed: int


@overload
def random_network(num_vars: int, *, count: None = None, **options: Unpack[NetworkOptions]) -> FactorGraph: ...
@overload
def random_network(num_vars: int, *, count: int, **options: Unpack[NetworkOptions]) -> list[FactorGraph]: ...
def random_network(
    num_vars: int,
    *,
    parents: int | tuple[int, int] = (0, 3),
    card: int | tuple[int, int] = 2,
    window: int | None = None,
    sharpness: float = 1.0,
    zeros: float = 0.0,
    observed: float = 0.2,
    structures: int | None = None,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw Bayesian networks in which each variable has some earlier variables as parents, with part of them observed.

    Factor i is the conditional table of variable i, with the variable itself last in its scope. Log entries of a row
    are drawn from N(0, sharpness^2) and normalised, so a large sharpness gives nearly deterministic rows. Observed
    variables take their states in one sample of the network. Graph i does not depend on `count`.

    Args:
        num_vars: V, the number of variables.
        parents: number of parents, or `(low, high)` to draw the number per variable.
        card: number of states, or `(low, high)` to draw the number per variable.
        window: parents are among this number of variables just before; a small window gives a long, narrow network.
        sharpness: the standard deviation of log entries within a row.
        zeros: probability of a zero entry; one entry of each row stays positive.
        observed: the share of variables that are observed.
        structures: number of different structures, which the graphs use in turn; few structures make training faster.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.

    Examples:
        >>> from equifactor import generators
        >>> generators.random_network(20, sharpness=4.0, observed=0.3, seed=1).num_factors
        20
    """
    num_vars, sizes, cards = (
        whole("num_vars", num_vars, 1),
        whole_range("parents", parents, 0),
        whole_range("card", card, 1),
    )
    reach = num_vars if window is None else whole("window", window, 1, 2**31)
    sharpness, zeros = real("sharpness", sharpness), real("zeros", zeros, 0.0, 1.0)
    observed = real("observed", observed, 0.0, 1.0)
    n = number_of_graphs(count)
    check_size(n * num_vars * cards[0] ** (min(sizes[0], reach, num_vars - 1) + 1))
    rng = np.random.default_rng(whole("seed", seed, 0))
    shared = [] if structures is None else range(min(n, whole("structures", structures, 1)))
    made = [_structure(num_vars, sizes, cards, reach, np.random.default_rng([seed, k])) for k in shared]
    graphs = []
    for i in range(n):
        structure, order = made[i % len(made)] if made else _structure(num_vars, sizes, cards, reach, rng)
        check_size(structure.num_entries)
        log_phi = _conditional_tables(structure, rng, sharpness, zeros)
        graph = FactorGraph.trusted(structure, log_phi, None, f"network-{num_vars}-seed{seed}-{i}")
        evidence = np.full(num_vars, -1)
        seen = order[: round(observed * num_vars)]
        evidence[seen] = _sample(structure, log_phi, rng)[seen]
        graphs.append(graph.condition(evidence))
    return graphs[0] if count is None else graphs


def _structure(
    num_vars: int, sizes: tuple[int, int], cards: tuple[int, int], reach: int, rng: np.random.Generator
) -> tuple[Structure, IntArray]:
    """Return a structure and the order in which its variables [V] are observed."""
    card = rng.integers(cards[0], cards[1], endpoint=True, size=num_vars)
    room = np.minimum(np.arange(num_vars), reach)  # the number of possible parents of each variable
    size = np.minimum(rng.integers(sizes[0], sizes[1], endpoint=True, size=num_vars), room)
    # The subset of each variable is drawn among the `room` variables just before it.
    child = row_of(ptr_of(size))
    parent = child - 1 - random_subsets(room, size, rng)
    scopes = np.empty(num_vars + len(parent), np.int64)
    is_child = np.zeros(len(scopes), bool)
    is_child[ptr_of(size + 1)[1:] - 1] = True
    scopes[is_child], scopes[~is_child] = np.arange(num_vars), parent
    return Structure.build(card, ptr_of(size + 1), scopes), rng.permutation(num_vars)


def _conditional_tables(structure: Structure, rng: np.random.Generator, sharpness: float, zeros: float) -> FloatArray:
    """Return normalised log rows [T]; the states of a variable are adjacent, since it is last in the scope."""
    width = np.repeat(structure.card, np.diff(structure.table_ptr) // structure.card)  # [rows] states of each row
    row_ptr = ptr_of(width)
    log_phi = sharpness * rng.standard_normal(structure.num_entries)
    if zeros > 0:
        zero = rng.random(structure.num_entries) < zeros
        zero[row_ptr[:-1] + rng.integers(width)] = False
        log_phi[zero] = -np.inf
    log_phi -= np.repeat(np.logaddexp.reduceat(log_phi, row_ptr[:-1]), width)
    return log_phi


def _sample(structure: Structure, log_phi: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return one sample [V], drawn variable by variable; parents come before their children."""
    state = np.zeros(structure.num_vars, np.int64)
    uniform = rng.random(structure.num_vars)
    for i in range(structure.num_vars):
        edges = slice(structure.scope_ptr[i], structure.scope_ptr[i + 1] - 1)
        first = structure.table_ptr[i] + state[structure.scope_vars[edges]] @ structure.stride[edges]
        share = np.cumsum(np.exp(log_phi[first : first + structure.card[i]]))
        state[i] = np.searchsorted(share, uniform[i] * share[-1], side="right")
    return state
