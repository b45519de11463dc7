"""Pairwise fields on graphs other than grids: random regular, complete, bipartite, and lattices of triangles.

Factor i is the unary factor of variable i. The pair factors follow, with the lower variable first. Graph i of a list
has structure i modulo `structures` and does not depend on `count`. Training is fastest with few structures and many
graphs of each.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, get_args, overload

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.generators.argument_checks import check_size, choice, number_of_graphs, real, whole, whole_range
from equifactor.generators.building_blocks import field_structure
from equifactor.graph.factor_graph import FactorGraph

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure


Topology = Literal["regular", "complete", "bipartite", "triangles"]
Tables = Literal["potts", "full"]


class PairwiseOptions(TypedDict, total=False):
    """Keyword arguments of `pairwise_field`, for the type checker."""

    topology: Topology
    degree: int
    card: int | tuple[int, int]
    tables: Tables
    field_std: float
    coupling_mean: float
    coupling_std: float
    structures: int
    seed: int


@overload
def pairwise_field(num_vars: int, *, count: None = None, **options: Unpack[PairwiseOptions]) -> FactorGraph: ...
@overload
def pairwise_field(num_vars: int, *, count: int, **options: Unpack[PairwiseOptions]) -> list[FactorGraph]: ...
def pairwise_field(
    num_vars: int,
    *,
    topology: Topology = "regular",
    degree: int = 3,
    card: int | tuple[int, int] = 2,
    tables: Tables = "potts",
    field_std: float = 0.25,
    coupling_mean: float = 0.0,
    coupling_std: float = 1.0,
    structures: int = 1,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw fields b_i(x) ~ N(0, field_std^2) and pair tables on a chosen topology.

    Args:
        num_vars: V, the number of variables.
        topology: `regular` has every variable in `degree` random pairs; `complete` has all pairs; `bipartite` has all
            pairs between two halves; `triangles` is a square lattice with one diagonal per square, cut to V variables.
        degree: number of pairs of each variable, for `regular`.
        card: number of states, or `(low, high)` to draw the number per variable.
        tables: `potts` has the log value J for equal states, and 0 for other states (-J if both variables have two
            states, a spin glass); `full` draws every log entry.
        field_std: standard deviation of the fields.
        coupling_mean: mean of J; a positive mean makes neighbours agree. It has no effect on `full`.
        coupling_std: standard deviation of J, or of the log entries for `full`.
        structures: number of different structures.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.
    """
    num_vars, cards = whole("num_vars", num_vars, 1), whole_range("card", card, 1)
    choice("topology", topology, get_args(Topology))
    choice("tables", tables, get_args(Tables))
    degree, structures = whole("degree", degree, 1), whole("structures", structures, 1)
    field_std, coupling_std = real("field_std", field_std), real("coupling_std", coupling_std)
    mean = real("coupling_mean", coupling_mean, low=-math.inf)
    if topology == "regular" and (degree >= num_vars or degree * num_vars % 2):
        raise OptionError(
            f"A regular graph of {num_vars} variables with degree {degree} does not exist. The degree must be below "
            "the number of variables, and the product of both must be even."
        )
    n = number_of_graphs(count)
    neighbours = {"regular": degree, "complete": num_vars, "bipartite": num_vars // 2, "triangles": 6}[topology]
    check_size(n * num_vars * (cards[0] + neighbours * cards[0] ** 2 // 2))
    seed = whole("seed", seed, 0)
    rngs = [np.random.default_rng([seed, k]) for k in range(min(n, structures))]
    made = [_structure(num_vars, topology, degree, cards, rng) for rng in rngs]
    graphs = []
    for i in range(n):
        structure = made[i % structures]
        rng = np.random.default_rng([seed, structures, i])
        log_phi = _tables(structure, tables, field_std, mean, coupling_std, rng)
        graphs.append(FactorGraph.trusted(structure, log_phi, name=f"{topology}-{num_vars}-seed{seed}-{i}"))
    return graphs[0] if count is None else graphs


def _structure(
    num_vars: int, topology: Topology, degree: int, cards: tuple[int, int], rng: np.random.Generator
) -> Structure:
    card = rng.integers(cards[0], cards[1], endpoint=True, size=num_vars)
    return field_structure(card, _pairs(num_vars, topology, degree, rng))


def _pairs(num_vars: int, topology: Topology, degree: int, rng: np.random.Generator) -> IntArray:
    """Return the pairs of the topology [E, 2], with the lower variable first."""
    if topology == "regular":
        return _regular(num_vars, degree, rng)
    if topology == "complete":
        return np.stack(np.triu_indices(num_vars, 1), 1)
    if topology == "bipartite":
        half = num_vars // 2
        return np.stack([a.ravel() for a in np.meshgrid(np.arange(half), np.arange(half, num_vars))], 1)
    side = int(np.ceil(np.sqrt(num_vars)))
    cell = np.arange(side * side).reshape(side, side)
    ends = ((cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:]), (cell[:-1, :-1], cell[1:, 1:]))
    pairs = np.concatenate([np.stack((a.ravel(), b.ravel()), 1) for a, b in ends])
    return pairs[(pairs < num_vars).all(1)]


def _regular(num_vars: int, degree: int, rng: np.random.Generator) -> IntArray:
    """Return the pairs of a random regular graph: join ends at random, then swap ends until no bad pair is left.

    A bad pair joins a variable to itself or repeats another pair. A swap keeps all degrees. If 2 degree < num_vars,
    some swap repairs a bad pair, so the loop ends after O(E) swaps. A denser graph is the complement of a sparse one.
    """
    if 2 * degree >= num_vars:
        absent = np.zeros((num_vars, num_vars), bool)
        absent[tuple(_regular(num_vars, num_vars - 1 - degree, rng).T)] = True
        return np.argwhere(np.triu(~absent, 1))
    ends = rng.permutation(np.repeat(np.arange(num_vars), degree)).reshape(-1, 2).tolist()
    count = Counter(frozenset(pair) for pair in ends)

    def good(pair: Sequence[int]) -> bool:
        return pair[0] != pair[1] and count[frozenset(pair)] == 1

    todo = deque(n for n, pair in enumerate(ends) if not good(pair))
    while todo:
        n = todo.popleft()
        if good(ends[n]):
            continue
        m = int(rng.integers(len(ends)))
        (a, b), (c, d) = ends[n], ends[m]
        one, other = ([a, c], [b, d]) if rng.random() < 0.5 else ([a, d], [c, b])
        simple = one[0] != one[1] and other[0] != other[1] and frozenset(one) != frozenset(other)
        if n == m or not simple or count[frozenset(one)] or count[frozenset(other)]:
            todo.append(n)
            continue
        for pair, change in ((ends[n], -1), (ends[m], -1), (one, 1), (other, 1)):
            count[frozenset(pair)] += change
        ends[n], ends[m] = one, other
    pairs = np.sort(np.array(ends, np.int64).reshape(-1, 2), axis=1)
    return pairs[np.argsort(pairs @ [num_vars, 1])]


def _tables(
    structure: Structure,
    tables: Tables,
    field_std: float,
    coupling_mean: float,
    coupling_std: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the log tables [T] of one graph."""
    cut = int(structure.card.sum())
    log_phi = rng.standard_normal(int(structure.table_ptr[-1]))
    log_phi[:cut] *= field_std
    if tables == "full":
        log_phi[cut:] *= coupling_std
        return log_phi
    num_vars = len(structure.card)
    first, second = structure.scope_vars[num_vars:].reshape(-1, 2).T
    rows, cols = structure.card[first], structure.card[second]
    entry = np.arange(len(log_phi) - cut) - np.repeat(structure.table_ptr[num_vars:-1] - cut, rows * cols)
    width = np.repeat(cols, rows * cols)
    equal = entry // width == entry % width
    J = np.repeat(coupling_mean + coupling_std * rng.standard_normal(len(rows)), rows * cols)
    spin = np.repeat((rows == 2) & (cols == 2), rows * cols)
    log_phi[cut:] = np.where(equal, J, np.where(spin, -J, 0.0))
    return log_phi
