"""The choice of a cutset: variables to hold fixed so that the elimination of the others stays within limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.orders import FEW_TRIES, MOST_BITS, Order, PlanningLimits, best_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.base.typing import BoolArray, FloatArray, IntArray

# The planning effort for each order; see `PlanningLimits`. Halved or doubled: the same answers, CPU within 20 %.
_EFFORT = 0.3
# The price divisor of a variable that was cut before: below any ratio of prices, so that it is cut again only if
# nothing else helps.
_REUSE_PRICE = 1e-9
# A new order is made after 1/8 of the variables that an order asks for. Measured: 1/2 cuts twice as many variables.
_STEP = 8
# If time is short, a new order is made after 1/2 of the variables that an order asks for. Halved or doubled: the same
# answers, CPU within 15 %.
_HASTY_STEP = 2
# An order asks for fewer than this many times the bits that are cut in the end. Halved or doubled: the same answers,
# CPU within 15 %.
_OVERSTATED = 8.0
# Variables are cut together if they save at least this share of the largest saving. Halved or doubled: the same
# answers, CPU within 15 %.
_NEARLY_BEST = 0.5
_AT_ONCE = 64  # Variables that are cut together at most. Halved or doubled: the same answers, CPU within 15 %.
# Clusters below this share of the largest one do not influence the choice. Halved or doubled: the same answers, CPU
# within 15 %.
_NEGLIGIBLE = 1e-6


class Cut(NamedTuple):
    """A cutset, and an order that eliminates all other variables: the block."""

    is_cut: BoolArray  # [V] variables that are held fixed
    structure: Structure  # of the block: the factors of the model without the cut variables
    variables: IntArray  # [v] number of each block variable in the model
    order: Order  # of the block variables 0..v-1
    entries: float  # entries of all cluster tables, the work of a pass
    kept: float  # entries of all messages, the memory of a pass
    fits: bool  # whether both are within the limits


class BlockLimits(NamedTuple):
    """What the elimination of one block may cost."""

    entries: float  # entries of all cluster tables
    kept: float  # entries of all messages


def cut_to_fit(
    structure: Structure,
    limits: BlockLimits,
    cost: FloatArray,
    *,
    never: int = -1,
    seed: int = 0,
    most_bits: float = math.inf,
    haste: Callable[[], bool] | None = None,
    over: Callable[[], bool] | None = None,
) -> Cut:
    """Return a small cutset whose complement is eliminated within the limits, on any graph.

    An elimination order is made, and its clusters are made smaller until they are within the limits. Each time, the
    variable is cut that saves most table entries per bit of its own states and unit of cost. After an eighth of the
    variables that this order asks for, a new order is made, because the rest may have a better one.

    Args:
        structure: the structure of the model.
        limits: what the elimination of the block may cost.
        cost: [V] the price of cutting each variable; 1 if it does not matter.
        never: a variable that must stay in the block, -1 for none.
        seed: the seed of the random choices among orders.
        most_bits: a cutset with more states than 2 to this power is useless; the search then ends over the limits.
        haste: returns whether time is short; then fewer orders are compared.
        over: returns whether time is over; then the search ends over the limits.
    """
    is_cut = np.zeros(structure.num_vars, bool)
    while True:
        hurry = haste is not None and haste()
        block, variables = without_variables(structure, is_cut)
        order = best_order(block, PlanningLimits(tries=1 if hurry else FEW_TRIES, effort=_EFFORT), seed)
        assert isinstance(order, Order)  # Without limits there is always an order.
        entries, kept = sizes_of(block, order)
        fits = entries <= limits.entries and kept <= limits.kept
        late = over is not None and over()
        if fits or late or len(variables) <= 1 or np.log2(structure.card[is_cut]).sum() > most_bits:
            return Cut(is_cut, block, variables, order, entries, kept, fits)
        chosen = _worst_variables(block, order, limits, cost[variables], variables == never)
        if np.log2(block.card[chosen]).sum() > _OVERSTATED * most_bits:
            return Cut(is_cut, block, variables, order, entries, kept, False)
        is_cut[variables[chosen[: max(1, len(chosen) // (_HASTY_STEP if hurry else _STEP))]]] = True


def cover(
    structure: Structure,
    limits: BlockLimits,
    used: FloatArray,
    rng: np.random.Generator,
    haste: Callable[[], bool] | None = None,
    over: Callable[[], bool] | None = None,
) -> list[Cut]:
    """Return cutsets such that every variable is in the block of at least one of them: usually two cutsets.

    The list is empty if time is over before every variable is in a block.

    Args:
        structure: the structure of the model.
        limits: what each block may cost.
        used: [V] how often each variable has been cut so far; it is updated, so that the next cover cuts others.
        rng: the generator of noise in the choice.
        haste: returns whether time is short.
        over: returns whether time is over.
    """
    free = np.zeros(structure.num_vars, bool)  # the variables that are in some block
    cuts: list[Cut] = []
    while not cuts or not free.all():
        uncovered = np.flatnonzero(~free)
        cost = np.exp2(used + rng.random(len(used)))
        if cuts:
            cost[uncovered] /= _REUSE_PRICE
        never = int(uncovered[0]) if cuts else -1
        cut = cut_to_fit(structure, limits, cost, never=never, seed=int(rng.integers(2**31)), haste=haste, over=over)
        cuts.append(cut)
        free |= ~cut.is_cut
        if over is not None and over() and not (cut.fits and free.all()):
            return []
        used[cut.is_cut] += 1.0
    return cuts


def order_seconds(structure: Structure) -> float:
    """Return the reference seconds to make one elimination order while a cutset is chosen.

    Beside a share for each variable, the first prices count the triangles at each pair of neighbours: 2.7 s for all
    pairs of 1,000 variables.
    """
    s = structure
    degree = np.bincount(s.scope_vars, (s.arity - 1)[s.factor_of_edge], minlength=s.num_vars)
    some = np.flatnonzero(s.arity)
    arity = s.arity[some]
    least = np.minimum.reduceat(degree[s.scope_vars], s.scope_ptr[some]) if len(some) else np.zeros(0)
    triangles = float((least * arity * (arity - 1)).sum()) / 2
    return Seconds.CUTSET_ORDER * s.num_vars + Seconds.CUTSET_TRIANGLE * triangles


def without_variables(structure: Structure, is_cut: BoolArray) -> tuple[Structure, IntArray]:
    """Return the structure of all factors without the cut variables, and the numbers [v] of the other variables."""
    s = structure
    in_block = ~is_cut[s.scope_vars]
    variables = np.flatnonzero(~is_cut)
    number = np.cumsum(~is_cut) - 1
    scope_vars = number[s.scope_vars[in_block]]
    scope_ptr = np.concatenate(([0], np.cumsum(in_block)))[s.scope_ptr]
    card = s.card[variables]
    sizes = np.ones(s.num_factors, np.int64)
    np.multiply.at(sizes, s.factor_of_edge[in_block], card[scope_vars])
    return Structure.trusted(card, scope_ptr, scope_vars, ptr_of(sizes)), variables


def sizes_of(structure: Structure, order: Order) -> tuple[float, float]:
    """Return the entries of all cluster tables of an order, and the entries of all its messages."""
    own, message = _bits(structure, order)
    total = float(np.exp2(np.minimum(own + message, MOST_BITS)).sum())
    return total, float(np.exp2(np.minimum(message, MOST_BITS)).sum())


def _bits(structure: Structure, order: Order) -> tuple[FloatArray, FloatArray]:
    """Return [v] bits of the states of each cluster's variable, and of its message."""
    own = np.log2(structure.card[order.variables])
    running = np.concatenate(([0.0], np.cumsum(own[order.separators])))
    return own, running[order.sep_ptr[1:]] - running[order.sep_ptr[:-1]]


def _worst_variables(
    structure: Structure, order: Order, limits: BlockLimits, cost: FloatArray, never: BoolArray
) -> list[int]:
    """Return the block variables to cut, in order, until the clusters of this order are within the limits."""
    own, message = _bits(structure, order)
    count = len(own)
    cluster = np.concatenate((np.arange(count), np.repeat(np.arange(count), np.diff(order.sep_ptr))))
    place = np.concatenate((np.arange(count), order.separators))
    bits, message = own + message, message.copy()
    price = np.maximum(own, 1e-9) * cost[order.variables]
    share = np.where(never[order.variables], 0.0, (1.0 - np.exp2(-own)) / price)
    by_place = np.argsort(place, kind="stable")
    holds_ptr, holds = ptr_of(np.bincount(place, minlength=count)), cluster[by_place]
    chosen: list[int] = []
    while len(chosen) < count - 1:
        sizes = np.exp2(np.minimum(bits, MOST_BITS))
        if sizes.sum() <= limits.entries and np.exp2(np.minimum(message, MOST_BITS)).sum() <= limits.kept:
            break
        heavy = sizes > max(1.0, float(sizes.max()) * _NEGLIGIBLE)
        saved = np.bincount(place, np.where(heavy, sizes, 0.0)[cluster], minlength=count) * share
        most = float(saved.max())
        if most <= 0.0:
            break
        touched = np.zeros(count, bool)
        near = np.flatnonzero(saved >= _NEARLY_BEST * most)
        for worst in near[np.argsort(-saved[near], kind="stable")][:_AT_ONCE].tolist():
            held = holds[holds_ptr[worst] : holds_ptr[worst + 1]]
            if touched[held].any():  # An earlier variable has made one of these clusters smaller.
                continue
            touched[held] = heavy[held]
            chosen.append(int(order.variables[worst]))
            share[worst] = 0.0
            bits[held] -= own[worst]
            message[held[held != worst]] -= own[worst]
            message[worst], bits[worst] = 0.0, 0.0  # Its own cluster is gone.
    return chosen or [int(order.variables[0])]
