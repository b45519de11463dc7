"""Numba against torch: the same messages after the same number of iterations; schedules; the binary fast path."""

from __future__ import annotations

import os

import numpy as np
import pytest

from equifactor import FactorGraph, OptionError, Status, Task, solve
from equifactor.data import collection
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph.layout import tables_of
from equifactor.solvers import compile
from equifactor.solvers.messages.binary_engine import BinaryEngine, applies_to
from equifactor.solvers.messages.bp import BeliefPropagation
from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
from equifactor.solvers.messages.numba_engine import NumbaEngine
from equifactor.solvers.messages.trw import Reweighting
from equifactor.solving.solver import SolveContext

LOOPY = {
    "ragged": random_graph(8, 10, arity=(1, 4), card=(2, 4), seed=1),
    "zeros": random_graph(8, 10, arity=(1, 4), card=(2, 4), zeros=0.3, seed=2),
    "pairs": random_graph(10, 14, arity=2, card=5, seed=3),
    "pairs with zeros": random_graph(10, 14, arity=2, card=(2, 5), zeros=0.3, seed=4),
    "binary": ising_grid(4, 5, seed=5),
    "strong": ising_grid(4, 5, coupling_std=40.0, seed=6),
    "wide": random_graph(7, 9, arity=(1, 3), card=(2, 3), strength=400.0, seed=7),
    "two or three states": random_graph(12, 40, arity=2, card=(2, 3), zeros=0.1, seed=9),
    "eleven states": random_graph(8, 13, arity=2, card=11, zeros=0.2, seed=10),
    "wide pairs": random_graph(8, 14, arity=2, card=5, strength=400.0, zeros=0.2, seed=11),
    "wide with zeros": random_graph(7, 9, arity=(1, 3), card=(2, 3), strength=400.0, zeros=0.3, seed=8),
}


@pytest.mark.parametrize("name", LOOPY)
@pytest.mark.parametrize("iterations", [1, 2, 7, 40])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_engines_agree(name: str, iterations: int, damping: float) -> None:
    for task in ("MAR", "MAP"):
        spec = f"bp(iterations={iterations}, damping={damping}, tolerance=0, engine="
        torch, numba = (solve(LOOPY[name], task, f"{spec}{engine})") for engine in ("torch", "numba"))
        assert torch.status == numba.status
        if task == "MAR":
            np.testing.assert_allclose(numba.marginals.values, torch.marginals.values, atol=1e-9)
            assert numba.log_z == pytest.approx(torch.log_z, rel=1e-9)
        else:
            assert numba.upper_bound == pytest.approx(torch.upper_bound, rel=1e-9)


@pytest.mark.parametrize("schedule", ["parallel", "sequential", "random", "residual"])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_every_schedule_is_exact_on_trees(schedule: str, damping: float) -> None:
    for seed in range(5):
        tree = random_tree(12, card=(2, 4), zeros=0.2 * (seed % 2), seed=seed)
        exact = solve(tree, "MAR", "exact")
        got = solve(tree, "MAR", f"bp(schedule={schedule}, damping={damping}, iterations=500, tolerance=1e-10)")
        assert got.status is Status.CONVERGED
        np.testing.assert_allclose(got.marginals.values, exact.marginals.values, atol=1e-8)
        assert got.log_z == pytest.approx(exact.log_z)


@pytest.mark.parametrize("schedule", ["sequential", "random", "residual"])
@pytest.mark.parametrize("name", ["ragged", "zeros", "pairs", "binary"])
def test_schedules_share_their_fixed_point(schedule: str, name: str) -> None:
    spec = "bp(damping=0.5, iterations=5000, tolerance=1e-11, schedule="
    parallel = solve(LOOPY[name], "MAR", f"{spec}parallel)")
    other = solve(LOOPY[name], "MAR", f"{spec}{schedule})")
    assert parallel.status is other.status is Status.CONVERGED
    np.testing.assert_allclose(other.marginals.values, parallel.marginals.values, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_binary_residual_takes_the_same_steps(seed: int) -> None:
    """With one number per message or two, the updates come in the same order and give the same messages at any time.

    This holds without damping: a damped log message of two numbers is not normalised, and so has another residual.
    """
    flat = compile(random_graph(30, 60, arity=(1, 2), card=2, seed=seed))
    settings = BpSettings("sum", "residual", 0.0, 1e-3, 0)
    general, binary = NumbaEngine(flat, settings), BinaryEngine(flat, settings)
    for _ in range(5):
        np.testing.assert_allclose(binary.sweep(1), general.sweep(1), atol=1e-9)
        np.testing.assert_allclose(binary.answers().probabilities, general.answers().probabilities, atol=1e-9)


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_binary_residual_max_product_is_exact_on_trees(damping: float) -> None:
    for seed in range(5):
        tree = random_tree(20, card=2, seed=seed)
        assert applies_to(compile(tree))
        got = solve(tree, "MAP", f"bp(schedule=residual, damping={damping}, tolerance=1e-12)")
        assert got.status is Status.CONVERGED
        assert got.log_score == pytest.approx(solve(tree, "MAP", "exact").log_score)
        parallel = solve(tree, "MAP", "bp(tolerance=1e-12)")
        assert got.upper_bound == pytest.approx(parallel.upper_bound)


def test_binary_sweeps_do_not_depend_on_the_batch() -> None:
    """A graph gets the same answer, bit for bit, alone and anywhere in a batch longer than a chunk of factors."""
    graphs = [ising_grid(5, 6, coupling_std=3.0, seed=seed) for seed in range(30)]
    together = solve(graphs, "MAR", "bp(iterations=50, tolerance=0)")
    for graph, result in zip(graphs, together, strict=True):
        alone = solve(graph, "MAR", "bp(iterations=50, tolerance=0)")
        np.testing.assert_array_equal(alone.marginals.values, result.marginals.values)


def test_convergence_is_judged_undamped() -> None:
    """Strong damping makes steps small without being near a fixed point."""
    graph = ising_grid(5, 5, coupling_std=1.5, seed=0)
    result = solve(graph, "MAR", "bp(damping=0.999, iterations=50, tolerance=1e-2)")
    assert result.status is Status.ITERATION_LIMIT


def test_binary_fast_path_refuses_other_models() -> None:
    grid = ising_grid(3, 3, seed=0)
    assert applies_to(compile(grid))
    assert not applies_to(compile(grid.with_factor([0], [1.0, 0.0])))  # a zero
    assert not applies_to(compile(grid.with_factor([0, 1], [[0.0, 0.0], [0.0, 400.0]], log=True)))  # a wide table
    assert not applies_to(compile(grid.with_factor([0, 1, 2], np.ones((2, 2, 2)))))
    assert not applies_to(compile(FactorGraph([2, 2, 3], [([0, 1], np.ones((2, 2)))])))  # three states, no factor


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("EQUIFACTOR_DATA"), reason="EQUIFACTOR_DATA is not set")
def test_messages_of_impossible_states_do_not_overflow_into_zeros() -> None:
    """Around loops of hard constraints, messages once doubled with every sweep until the model seemed impossible."""
    graph = next(i for i in collection(name="MAR") if i.key.endswith("linkage_23")).graph()
    result = solve(graph, "MAR", "bp(iterations=500, damping=0.5, schedule=residual)")
    assert result.status is Status.CONVERGED


def test_random_schedule_follows_the_seed() -> None:
    graph = LOOPY["ragged"]
    spec = "bp(schedule=random, iterations=2, tolerance=0)"
    first, again, other = (solve(graph, "MAR", spec, seed=seed).marginals.values for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-9


def test_sequential_schedules_need_numba() -> None:
    with pytest.raises(OptionError, match="numba engine only"):
        solve(LOOPY["ragged"], "MAR", "bp(schedule=residual, engine=torch)")


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_growing_messages_never_become_zeros(damping: float) -> None:
    """Equality and exclusions around loops: the log messages of excluded states grow with every sweep."""
    equal = np.eye(3)
    graph = FactorGraph(
        [3, 3, 3],
        [
            ([2, 0], equal),
            ([1, 0], equal),
            ([1, 2], equal),
            ([1, 2], [[1, 0, 1], [1, 0, 1], [1, 1, 0]]),
            ([2, 1], [[1, 1, 1], [1, 1, 0], [0, 1, 1]]),
            ([0, 1], [[1, 0, 0], [0, 1, 1], [0, 1, 1]]),
        ],
    )
    settings = BpSettings("sum", "parallel", damping, 1e-6, 0)
    numba, torch = (new_engine(compile(graph), settings, SolveContext(), name) for name in ("numba", "torch"))
    for sweep in range(200):
        numba.sweep(1)
        torch.sweep(1)
        assert np.isfinite(numba.messages()).all()
        if sweep < 12:  # later, rounding errors have grown as well
            np.testing.assert_allclose(numba.messages(), torch.messages(), rtol=1e-6, atol=1e-6)


def test_every_graph_and_setting_has_arguments_of_the_same_types() -> None:
    """Numba compiles a loop again for a read-only array and for a whole number."""
    empty, one = compile(FactorGraph([2, 3], [])), compile(FactorGraph([2, 2], [([0, 1], [[1.0, 2.0], [3.0, 4.0]])]))
    assert tables_of(empty)[1].flags.writeable
    engine = BeliefPropagation(damping=0, tolerance=0, schedule="parallel").init(one, Task.MAP, SolveContext())
    assert isinstance(engine, BinaryEngine)
    assert engine.pairs.tables.flags.writeable
    assert type(engine.settings.damping) is type(engine.settings.tolerance) is float
    assert type(Reweighting(one, 4, 0, 0).damping) is float
