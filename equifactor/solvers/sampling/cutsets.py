"""Which variables to hold fixed so that the elimination of all others stays within a budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.orders import Order, PlanningLimits, best_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.base.typing import BoolArray, FloatArray, IntArray

_TRIES = 4  # Orders are compared again and again while the cutset grows, so that each time few are enough.
_HARDLY = 1e-9  # A variable that was held fixed before is held fixed again only where nothing else helps.
_STEP = 8  # A new order is made after one in so many of the variables that an order asks for; 2 cuts twice as many.
_OVERSTATED = 8.0  # An order asks for many more variables than are needed in the end, but not for so many times more.
_NEARLY = 0.5  # Variables in different clusters go together where they save at least this share of the most,
_AT_ONCE = 64  # at most this many of them.
_MOST_BITS = 500.0  # Tables above are all equally hopeless; powers of two stay finite.


class Cut(NamedTuple):
    """A cutset and an order that eliminates all other variables, the block."""

    is_cut: BoolArray  # [V] variables that are held fixed
    structure: Structure  # of the block given the cutset: its factors are those of the model, without cut variables
    variables: IntArray  # [v] number of each block variable in the model
    order: Order  # of the block variables 0..v-1
    entries: float  # of all cluster tables, which is the work of a pass
    kept: float  # entries of all messages, which is the memory of a pass
    fits: bool  # whether both are within the budget


class Budget(NamedTuple):
    """What one block may cost."""

    entries: float  # of all cluster tables
    kept: float  # of all messages


def cut_to_fit(
    structure: Structure,
    budget: Budget,
    cost: FloatArray,
    *,
    never: int = -1,
    seed: int = 0,
    most_bits: float = math.inf,
    haste: Callable[[], bool] | None = None,
    over: Callable[[], bool] | None = None,
) -> Cut:
    """A small cutset whose complement is eliminated within the budget, on any graph.

    An elimination order is made, and of its clusters those above the budget are made smaller: each time the variable
    goes that saves most table entries per bit of its own states and unit of cost. After an eighth of the variables that
    this order asks for, a new order is made, because what is left may have a better one.

    Args:
        structure: of the model.
        budget: what the elimination of the block may cost.
        cost: [V] how much each variable is to be kept in the block; 1 where it does not matter.
        never: a variable that must stay in the block, -1 for none.
        seed: of the random choices among orders.
        most_bits: a cutset with more states than 2 to this power is of no use, and is left as it is, over the budget.
        haste: whether time is short: then a few orders are enough.
        over: whether time is over: then the cutset is left as it is, over the budget.
    """
    is_cut = np.zeros(structure.num_vars, bool)
    while True:
        hurry = haste is not None and haste()
        block, variables = without_variables(structure, is_cut)
        order = best_order(block, PlanningLimits(tries=1 if hurry else _TRIES, effort=0.3), seed)
        assert isinstance(order, Order)  # There are no limits that it could pass.
        entries, kept = sizes_of(block, order)
        fits = entries <= budget.entries and kept <= budget.kept
        late = over is not None and over()
        if fits or late or len(variables) <= 1 or np.log2(structure.card[is_cut]).sum() > most_bits:
            return Cut(is_cut, block, variables, order, entries, kept, fits)
        chosen = _worst_variables(block, order, budget, cost[variables], variables == never)
        if np.log2(block.card[chosen]).sum() > _OVERSTATED * most_bits:
            return Cut(is_cut, block, variables, order, entries, kept, False)
        is_cut[variables[chosen[: max(1, len(chosen) // (2 if hurry else _STEP))]]] = True


def cover(
    structure: Structure,
    budget: Budget,
    used: FloatArray,
    rng: np.random.Generator,
    haste: Callable[[], bool] | None = None,
) -> list[Cut]:
    """Cutsets such that every variable is in the block of at least one of them; mostly two.

    Args:
        structure: of the model.
        budget: what each block may cost.
        used: [V] how often each variable has been in a cutset so far, which is added to: the next cover takes others.
        rng: for noise in the choice.
        haste: whether time is short.
    """
    free = np.zeros(structure.num_vars, bool)  # Variables that are in some block.
    cuts: list[Cut] = []
    while not cuts or not free.all():
        uncovered = np.flatnonzero(~free)
        cost = np.exp2(used + rng.random(len(used)))
        if cuts:
            cost[uncovered] /= _HARDLY
        never = int(uncovered[0]) if cuts else -1
        cut = cut_to_fit(structure, budget, cost, never=never, seed=int(rng.integers(2**31)), haste=haste)
        cuts.append(cut)
        free |= ~cut.is_cut
        used[cut.is_cut] += 1.0
    return cuts


def without_variables(structure: Structure, is_cut: BoolArray) -> tuple[Structure, IntArray]:
    """The structure of all factors without some variables, and the numbers [v] of those that are left."""
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
    """Entries of all cluster tables of an order, and entries of all its messages."""
    own, message = _bits(structure, order)
    total = float(np.exp2(np.minimum(own + message, _MOST_BITS)).sum())
    return total, float(np.exp2(np.minimum(message, _MOST_BITS)).sum())


def _bits(structure: Structure, order: Order) -> tuple[FloatArray, FloatArray]:
    """[v] bits of the states of each cluster's variable, and of its message."""
    own = np.log2(structure.card[order.variables])
    running = np.concatenate(([0.0], np.cumsum(own[order.separators])))
    return own, running[order.sep_ptr[1:]] - running[order.sep_ptr[:-1]]


def _worst_variables(
    structure: Structure, order: Order, budget: Budget, cost: FloatArray, never: BoolArray
) -> list[int]:
    """Block variables to take out, one after the other, until the clusters of this order fit the budget."""
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
        sizes = np.exp2(np.minimum(bits, _MOST_BITS))
        if sizes.sum() <= budget.entries and np.exp2(np.minimum(message, _MOST_BITS)).sum() <= budget.kept:
            break
        # What is a millionth of the largest is no reason for a choice.
        heavy = sizes > max(1.0, float(sizes.max()) * 1e-6)
        saved = np.bincount(place, np.where(heavy, sizes, 0.0)[cluster], minlength=count) * share
        most = float(saved.max())
        if most <= 0.0:
            break
        touched = np.zeros(count, bool)
        near = np.flatnonzero(saved >= _NEARLY * most)
        for worst in near[np.argsort(-saved[near], kind="stable")][:_AT_ONCE].tolist():
            held = holds[holds_ptr[worst] : holds_ptr[worst + 1]]
            if touched[held].any():  # A variable before it has made the same clusters smaller.
                continue
            touched[held] = heavy[held]
            chosen.append(int(order.variables[worst]))
            share[worst] = 0.0
            bits[held] -= own[worst]
            message[held[held != worst]] -= own[worst]
            message[worst], bits[worst] = 0.0, 0.0  # Its own cluster is gone.
    return chosen or [int(order.variables[0])]
