"""Splitting variables into clones, and joining them again, within bounds on the tables."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.generators import ising_grid, random_graph
from equifactor.graph.structure import Structure
from equifactor.solvers.elimination.orders import random_state
from equifactor.solvers.regions.relaxation import Relaxation, SplitRule, TableLimits

STRUCTURES = {
    "grid": ising_grid(9, 9, seed=0).structure,
    "ragged": random_graph(40, 90, arity=(1, 4), card=(2, 5), seed=1).structure,
    "loose": random_graph(12, 3, arity=2, card=(2, 3), seed=2).structure,
}


def split(s: Structure, bound: float, seed: int = 0, noise: float = 0.1) -> Relaxation:
    return Relaxation.make(s, bound, np.ones(s.num_vars), SplitRule(2.0, noise), random_state(seed))


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("bound", [0, 4, 7, 50])
def test_every_clone_stands_for_its_variable_within_the_bound(name: str, bound: int) -> None:
    s = STRUCTURES[name]
    relaxation = split(s, bound)
    np.testing.assert_array_equal(relaxation.var_of_clone[relaxation.clone_of_edge], s.scope_vars)
    assert set(relaxation.var_of_clone.tolist()) == set(range(s.num_vars))
    factor_bits = np.log2(np.diff(s.table_ptr)).max()
    assert relaxation.largest <= max(bound, factor_bits) + 1e-6
    assert relaxation.exact == (not relaxation.num_splits.any())
    program = relaxation.program
    assert relaxation.memory >= 8 * program.message_sizes.sum()
    order = relaxation.order
    separators = np.diff(order.sep_ptr)
    assert len(separators) == len(relaxation.var_of_clone)


def test_a_bound_of_nothing_leaves_a_tree_of_factors() -> None:
    """Each independent cycle of a grid costs one split, which has the fixed points of belief propagation."""
    s = STRUCTURES["grid"]
    relaxation = split(s, 0)
    num_pairs = int((s.arity == 2).sum())
    assert relaxation.largest == 2.0
    assert relaxation.num_splits.sum() == num_pairs - s.num_vars + 1


def test_a_large_bound_splits_nothing_and_draws_depend_on_the_seed() -> None:
    s = STRUCTURES["grid"]
    assert split(s, 50).exact
    first, again, other = (split(s, 5, seed, noise=0.3).clone_of_edge for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_variables_of_little_worth_are_split_first() -> None:
    s = STRUCTURES["grid"]
    worth = np.where(np.arange(s.num_vars) % 2 == 0, 1.0, 0.01)
    dear, cheap = np.zeros(2), np.zeros(2)
    for seed in range(4):
        for n, prices in enumerate((np.ones(s.num_vars), worth)):
            splits = Relaxation.make(s, 6.0, prices, SplitRule(2.0, 0.1), random_state(seed)).num_splits
            dear[n] += splits[::2].sum()
            cheap[n] += splits[1::2].sum()
    assert dear[1] < 0.5 * dear[0]


@pytest.mark.parametrize("name", ["grid", "ragged"])
def test_joined_clones_stay_within_the_limits(name: str) -> None:
    s = STRUCTURES[name]
    before = split(s, 5)
    worth = np.ones(s.num_vars)
    limits = TableLimits(4 * before.entries, 1e9, before.largest + 2)
    after = before.merged(worth, limits, 10_000)
    assert after.num_splits.sum() < before.num_splits.sum()
    assert np.all(after.num_splits <= before.num_splits)
    assert after.entries <= limits.entries
    assert after.largest <= limits.largest + 1e-9
    np.testing.assert_array_equal(after.var_of_clone[after.clone_of_edge], s.scope_vars)
    np.testing.assert_array_equal(before.merged(worth, limits, 0).clone_of_edge, before.clone_of_edge)
    assert before.merged(worth, TableLimits(1e18, 1e18, 60.0), 10_000).exact
