"""Belief propagation in plain NumPy has the messages and answers of the kernels."""

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, Parity, solve
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph import compile
from equifactor.solvers.messages.bp_engine import BpEngine, BpSettings, new_engine
from equifactor.solvers.messages.numba_engine import NumbaEngine
from equifactor.solvers.messages.plain_engine import PlainEngine, applies_to, plain_bp_seconds
from equifactor.solving.solver import SolveContext
from equifactor.testing import contract_graphs
from tests.factors.random_factors import random_mixture

GRAPHS = contract_graphs()
MIXTURES = [random_mixture(np.random.default_rng(seed)) for seed in range(8)]
BATCHES = {
    **{name: [graph] for name, graph in GRAPHS.items()},
    "all contract graphs": list(GRAPHS.values()),
    "all kinds of factors": MIXTURES,
    "graphs without variables": [FactorGraph([]), FactorGraph([2]).condition({0: 1})],
}


def settings(semiring: str, damping: float = 0.0, tolerance: float = 1e-6) -> BpSettings:
    return BpSettings(semiring, "parallel", damping, tolerance, 0)


def check_equal(one: BpEngine, other: BpEngine) -> None:
    """Compare the messages and the answers of two engines."""
    np.testing.assert_allclose(one.messages(), other.messages(), rtol=1e-9, atol=1e-9)
    got, want = one.answers(), other.answers()
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-9)
    np.testing.assert_allclose(got.log_z, want.log_z, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(got.upper_bound, want.upper_bound, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("semiring", ["sum", "max"])
@pytest.mark.parametrize("name", BATCHES)
def test_messages_are_those_of_the_kernels(name: str, semiring: str, damping: float):
    flat = compile(BATCHES[name])
    assert applies_to(flat)
    one, other = (engine(flat, settings(semiring, damping)) for engine in (PlainEngine, NumbaEngine))
    check_equal(one, other)
    for count in (1, 1, 5):
        np.testing.assert_allclose(one.sweep(count), other.sweep(count), atol=1e-9)
        check_equal(one, other)


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_wide_tables_and_true_zeros(semiring: str):
    rng = np.random.default_rng(0)
    for magnitude in (100.0, 5000.0):
        graph = random_graph(8, 12, arity=(1, 3), card=(2, 4), zeros=0.2, seed=1)
        log_phi = np.where(np.isneginf(graph.log_phi), -np.inf, magnitude * rng.normal(size=len(graph.log_phi)))
        flat = compile(graph.with_potentials(log_phi, log=True))
        one, other = (engine(flat, settings(semiring)) for engine in (PlainEngine, NumbaEngine))
        one.sweep(7)
        other.sweep(7)
        check_equal(one, other)


def test_states_of_equal_belief_take_the_first():
    flat = compile(FactorGraph([3, 2], [([0], [1.0, 2.0, 2.0])]))
    assert PlainEngine(flat, settings("max")).answers().states.tolist() == [1, 0]


def test_parts_move_between_engines():
    flat = compile([ising_grid(3, 3, seed=seed) for seed in range(3)])
    one, other = PlainEngine(flat, settings("sum")), NumbaEngine(flat, settings("sum"))
    one.sweep(3)
    some = np.array([0, 2])
    other.put(some, one.take(some))
    second = PlainEngine(flat, settings("sum"))
    second.put(some, other.take(some))
    second.rest(some)
    second.put(np.array([1]), one.take(np.array([1])))
    np.testing.assert_allclose(second.messages(), one.messages(), atol=1e-14)


def test_without_a_tolerance_the_change_is_not_measured():
    engine = PlainEngine(compile(ising_grid(3, 3, seed=0)), settings("sum", tolerance=0.0))
    assert engine.sweep(2).tolist() == [np.inf]


def test_large_structured_factors_are_left_to_the_kernels():
    assert not applies_to(compile(FactorGraph([2] * 40, [(range(40), Parity())])))
    assert not applies_to(compile(FactorGraph([2] * 12, [(range(12), Clause())] * 40)))
    assert applies_to(compile(FactorGraph([2] * 5, [(range(5), Parity())])))
    assert not applies_to(compile(FactorGraph([1] * 70, [(range(70), np.ones(1))])))


def test_the_engine_is_chosen_by_cost(monkeypatch: pytest.MonkeyPatch):
    flat, context = compile(ising_grid(3, 3, seed=0)), SolveContext()
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "1")
    assert isinstance(new_engine(flat, settings("sum"), context, "auto"), PlainEngine)
    assert not isinstance(new_engine(flat, settings("sum"), context, "numba"), PlainEngine)
    in_order = BpSettings("sum", "sequential", 0.0, 1e-6, 0)
    assert not isinstance(new_engine(flat, in_order, context, "auto"), PlainEngine)
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "0")
    assert not isinstance(new_engine(flat, settings("sum"), context, "auto"), PlainEngine)
    assert 0.0 < plain_bp_seconds(flat, 10) < plain_bp_seconds(flat, 200)


def test_the_solver_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch):
    graphs = [ising_grid(4, 5, seed=0), random_tree(12, card=(2, 4), zeros=0.2, seed=1), MIXTURES[0], MIXTURES[1]]
    want = {task: solve(graphs, task, "bp(damping=0.2)") for task in ("MAR", "MAP")}
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "1")
    for task, others in want.items():
        for got, other in zip(solve(graphs, task, "bp(damping=0.2)"), others, strict=True):
            assert got.status is other.status
            if task == "MAP":
                assert got.log_score == pytest.approx(other.log_score)
                assert got.upper_bound == pytest.approx(other.upper_bound)
            else:
                assert got.log_z == pytest.approx(other.log_z, abs=1e-6)
                np.testing.assert_allclose(got.marginals.values, other.marginals.values, atol=1e-6)
