"""The order in which the states of a cutset are visited, so that most tables stay the same from state to state.

A cluster depends on the cut variables whose factors reach it or a cluster below it. Put the cut variables in a row. The
level of a cluster is the place of the last cut variable that it depends on. Its table is recomputed only when that
variable or an earlier one changes. Earlier variables change more slowly, so large clusters should have low levels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.orders import MOST_BITS, Order

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.structure import Structure
    from equifactor.solvers.cutsets.block_program import BlockProgram
    from equifactor.solvers.cutsets.cutset_choice import Cut

# The total probability of the states of a cutset that are left out, and so the largest error that this makes.
NEGLIGIBLE = 1e-11
# Variables of a cutset above which there are too many states for any sum: 2^60 is close to the largest int64.
MOST_CUT = 60


class Nest(NamedTuple):
    """A cutset of m variables whose states are visited in nested loops, the loop of the first variable outermost."""

    cut: Cut  # with its clusters in the order of their levels
    variables: IntArray  # [m] the cut variables
    first: IntArray  # [m+2] first cluster of each level 0..m, then their number
    sizes: FloatArray  # [m+1] table entries of all clusters of each level
    states: FloatArray  # [m+1] number of states of the variables up to each level

    @property
    def entries(self) -> float:
        """Table entries of all clusters, each counted as often as it is computed."""
        return float(self.sizes @ self.states)

    @property
    def log2_states(self) -> float:
        """log2 of the number of states of the cutset."""
        return float(np.log2(self.states[-1]))


class LevelArrays(NamedTuple):
    """The levels as arrays for the kernels.

    A message from a cluster to a cluster of a higher level is a *bridge*. On the way down, the numbers of the upper
    cluster are added up over all states of the inner variables before they go to the lower cluster.
    """

    cut: IntArray  # [m] the cut variables, outermost first
    states: IntArray  # [m+1] number of states of the variables up to each level
    cluster: IntArray  # [m+2] first cluster of each level
    group: IntArray  # [m+2] first group of factors of each level
    work: IntArray  # [m+1] the work of `distribute` on each level, as it counts it
    lower: IntArray  # [B] lower cluster of each bridge
    lower_level: IntArray  # [B]
    upper_level: IntArray  # [B]
    place: IntArray  # [B+1] where the numbers of each bridge wait


def level_arrays(nested: Nest, block: BlockProgram) -> LevelArrays:
    """Return the levels of a block that was built for `nested.cut`."""
    c, count = block.clusters, len(nested.variables)
    num_vars = len(c.dim)
    num_groups = len(block.tables.size) - num_vars
    is_group = c.in_op < num_groups
    home = np.repeat(np.arange(num_vars), np.diff(c.in_ptr))[is_group]  # the cluster of each group
    work = cluster_work(block)
    level = np.repeat(np.arange(count + 1), np.diff(nested.first))
    lower = np.flatnonzero((c.parent >= 0) & (level[c.parent] > level))
    return LevelArrays(
        cut=nested.variables,
        states=nested.states.astype(np.int64),
        cluster=nested.first,
        group=np.searchsorted(home, nested.first),
        work=work[nested.first[1:]] - work[nested.first[:-1]],
        lower=lower,
        lower_level=level[lower],
        upper_level=level[c.parent[lower]],
        place=ptr_of(block.tables.size[num_groups + lower]),
    )


def cluster_work(block: BlockProgram) -> IntArray:
    """Return [v+1] the work of `distribute` on all clusters before each one, in the units in which it counts."""
    c = block.clusters
    size = block.tables.size[len(block.tables.size) - len(c.dim) :]
    return np.concatenate(([0], np.cumsum(2 * c.dim * size * (np.diff(c.in_ptr) + 1))))


def nest(structure: Structure, cut: Cut, most_waiting: float = math.inf) -> Nest:
    """Choose the order of the loops, from the innermost outwards: each time the variable that changes fewest entries.

    Args:
        structure: the structure of the model.
        cut: the cutset, and the order of the other variables.
        most_waiting: numbers that may wait on bridges; beyond that, all clusters are recomputed for every state.
    """
    variables = np.flatnonzero(cut.is_cut)
    count = len(variables)
    if count > MOST_CUT:  # There are too many states for any order of the loops.
        size, level = np.array([cut.entries]), np.array([count])
    else:
        size, depends = _clusters(structure, cut, variables)
        level = np.zeros(len(size), np.int64)
        rest, place = np.ones(len(size), bool), list(range(count))
        chosen: list[int] = []
        while place:
            inner = place.pop(int(np.argmin(size[rest] @ depends[rest][:, place])))
            level[rest & depends[:, inner]] = len(place) + 1
            rest &= ~depends[:, inner]
            chosen.append(inner)
        variables = variables[chosen[::-1]]
        parent = cut.order.parent
        bridge = (parent >= 0) & (level[parent] > level)
        message = size / structure.card[cut.variables[cut.order.variables]]
        if message[bridge].sum() > most_waiting:
            level[:] = count
        cut = cut._replace(order=_by_level(cut.order, level))
    bits = np.cumsum(np.concatenate(([0.0], np.log2(structure.card[variables]))))
    return Nest(
        cut=cut,
        variables=variables,
        first=ptr_of(np.bincount(level, minlength=count + 1)),
        sizes=np.bincount(level, size, minlength=count + 1).astype(np.float64),
        states=np.exp2(np.minimum(bits, MOST_BITS)).round(),
    )


def _clusters(structure: Structure, cut: Cut, variables: IntArray) -> tuple[FloatArray, BoolArray]:
    """Return [v] entries of each cluster, and [v, m] whether it depends on each cut variable."""
    s, order = structure, cut.order
    count = len(order.variables)
    bits = np.log2(s.card[cut.variables[order.variables]])
    running = np.concatenate(([0.0], np.cumsum(bits[order.separators])))
    with np.errstate(over="ignore"):  # A cluster with more entries than a float can count is too large anyway.
        size = np.exp2(bits + running[order.sep_ptr[1:]] - running[order.sep_ptr[:-1]])
    # A factor is multiplied in at the first of its variables to be eliminated.
    place = np.full(s.num_vars, count)
    place[cut.variables[order.variables]] = np.arange(count)
    home = np.full(s.num_factors, count)
    np.minimum.at(home, s.factor_of_edge, place[s.scope_vars])
    number = np.full(s.num_vars, -1)
    number[variables] = np.arange(len(variables))
    edges = np.flatnonzero(cut.is_cut[s.scope_vars])
    depends = np.zeros((count + 1, len(variables)), bool)
    depends[home[s.factor_of_edge[edges]], number[s.scope_vars[edges]]] = True
    for n, parent in enumerate(order.parent.tolist()):
        if parent >= 0:
            depends[parent] |= depends[n]
    return size, depends[:count]


def _by_level(order: Order, level: IntArray) -> Order:
    """Return the same clusters level by level: no cluster has a lower level than a cluster below it."""
    row = np.argsort(level, kind="stable")
    place = np.empty(len(row), np.int64)
    place[row] = np.arange(len(row))
    width = np.diff(order.sep_ptr)
    owner, separators = np.repeat(place, width), place[order.separators]
    latest_first = np.lexsort((-separators, owner))
    parent = order.parent[row]
    return Order(
        variables=order.variables[row],
        sep_ptr=ptr_of(width[row]),
        separators=separators[latest_first],
        parent=np.where(parent >= 0, place[parent], -1),
        tries=order.tries,
    )


def choose_states(weight: FloatArray, most: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, float]:
    """Return about `most` of N states, or fewer, that stand for all: their numbers, weights, and a standard error.

    States above a threshold keep their weights. Of the states below, some are drawn in systematic steps, each with the
    threshold as its weight, so that every mean is unbiased. The error of a mean of numbers in [0, 1] has at most the
    standard error that is returned. If all states fit, only a negligible part is left out.

    Args:
        weight: [N] probabilities, with a sum of 1.
        most: how many states may be chosen.
        rng: the generator for the draw.
    """
    falling = np.sort(weight)[::-1]
    rest = np.concatenate((np.cumsum(falling[::-1])[::-1], [0.0]))  # [N+1] weight of all states but the first n
    enough = int(np.argmax(rest <= NEGLIGIBLE))
    if enough <= most:
        chosen = np.flatnonzero(weight >= falling[enough - 1]) if enough else np.zeros(0, np.int64)
        return chosen, weight[chosen], 0.0
    kept = np.arange(most)
    threshold = rest[:most] / (most - kept)
    many = int(np.argmax(falling[:most] <= threshold))
    least = float(threshold[many])
    large = weight > least
    steps = np.floor(np.cumsum(np.where(large, 0.0, weight)) / least + rng.random())
    drawn = np.diff(steps, prepend=0.0) > 0.0
    chosen = np.flatnonzero(large | drawn)
    return chosen, np.maximum(weight[chosen], least), 0.5 * least * math.sqrt(int(drawn.sum()))
