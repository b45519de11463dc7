"""The fast path for checks and clauses gives the same messages as the general engine on tables."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, Parity, solve
from equifactor.solvers import compile
from equifactor.solvers.messages import literal_engine
from equifactor.solvers.messages.bp_engine import BpSettings
from equifactor.solvers.messages.literal_engine import LiteralEngine
from equifactor.solvers.messages.numba_engine import NumbaEngine


def _random_graph(seed: int, num_vars: int = 10, strength: float = 1.0) -> FactorGraph:
    """Return checks and clauses of two to six variables, hard and weighted, with a constant and unary tables."""
    rng = np.random.default_rng(seed)
    factors: list = [([i], strength * rng.normal(size=2)) for i in range(num_vars)] + [([], 0.7)]
    for _ in range(int(rng.integers(1, 24))):
        scope = rng.permutation(num_vars)[: rng.integers(2, 7)].tolist()
        signs = rng.integers(0, 2, len(scope)).astype(bool)
        clause = Clause(signs, None if rng.random() < 0.5 else 2 * rng.normal())
        factors.append((scope, Parity(bool(rng.integers(2))) if rng.random() < 0.5 else clause))
    return FactorGraph([2] * num_vars, factors, log=True)


def _in_tables(graph: FactorGraph) -> FactorGraph:
    scopes = [graph.structure.scope(a).tolist() for a in range(graph.num_factors)]
    return FactorGraph(graph.card, [(s, graph.log_table(a)) for a, s in enumerate(scopes)], log=True)


@pytest.mark.parametrize("semiring", ["sum", "max"])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("strength", [1.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_it_agrees_with_tables(semiring: str, damping: float, strength: float) -> None:
    graphs = [_random_graph(seed, strength=strength) for seed in range(12)]
    settings = BpSettings(semiring, "parallel", damping, 1e-6, 0)  # type: ignore[arg-type]
    flat = compile(graphs)
    assert literal_engine.applies_to(flat)
    fast, general = LiteralEngine(flat, settings), NumbaEngine(compile([_in_tables(g) for g in graphs]), settings)
    for count in (1, 2, 5):
        fast.sweep(count)
        general.sweep(count)
        found, wanted = fast.answers(), general.answers()
        np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-9)
        if semiring == "sum":
            np.testing.assert_allclose(found.log_z, wanted.log_z, atol=1e-7)
        else:
            np.testing.assert_allclose(found.upper_bound, wanted.upper_bound, atol=1e-7)


@pytest.mark.parametrize("strength", [350.0, 1000.0, 5000.0])
@pytest.mark.parametrize("factor", [Clause(), Parity(odd=True), Clause(weight=-1000.0), Clause(weight=700.0)])
def test_ratios_beyond_linear_numbers(factor: Parity | Clause, strength: float) -> None:
    graph = FactorGraph([2] * 3, [([i], [0.0, -strength]) for i in range(3)] + [([0, 1, 2], factor)], log=True)
    found, wanted = solve(graph, solver="bp"), solve(graph, solver="brute")
    assert found.status == "converged"
    assert found.log_z == pytest.approx(wanted.log_z, abs=1e-9)
    np.testing.assert_allclose(np.concatenate(found.marginals), np.concatenate(wanted.marginals), atol=1e-9)


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_the_general_engine_goes_on_where_ratios_grow(damping: float) -> None:
    factors: list = [([i], [0.0, 90.0]) for i in range(12)]
    factors += [([i, (i + 1) % 12], Parity()) for i in range(12)]
    flat, settings = compile(FactorGraph([2] * 12, factors, log=True)), BpSettings("sum", "parallel", damping, 1e-6, 0)
    fast, general = LiteralEngine(flat, settings), NumbaEngine(flat, settings)
    for count in (1, 3, 9, 4):
        fast.sweep(count)
        general.sweep(count)
        found, wanted = fast.answers(), general.answers()
        np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-9)
        np.testing.assert_allclose(found.log_z, wanted.log_z, rtol=1e-12)
    assert fast.general is not None, "the ratios have outgrown the fast engine"


def test_a_batch_is_its_members() -> None:
    graphs = [_random_graph(seed, num_vars=7 + seed) for seed in range(5)]
    settings = BpSettings("sum", "parallel", 0.0, 1e-6, 0)
    together = LiteralEngine(compile(graphs), settings)
    together.sweep(4)
    alone = []
    for graph in graphs:
        engine = LiteralEngine(compile(graph), settings)
        engine.sweep(4)
        alone.append(engine.answers())
    found = together.answers()
    np.testing.assert_allclose(found.probabilities, np.concatenate([a.probabilities for a in alone]), atol=1e-12)
    np.testing.assert_allclose(found.log_z, np.concatenate([a.log_z for a in alone]), atol=1e-9)


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_graphs_of_many_parts(semiring: str) -> None:
    """Variables are renumbered by parts of the edges: of degree 0 to many, in checks and clauses."""
    rng, n = np.random.default_rng(0), 30_000
    hubs = [np.append(rng.integers(1, n, 4) // 2 * 2, 1) for _ in range(8_000)]
    scopes = [np.unique(scope) for scope in (*rng.integers(0, n, (12_000, 6)), *hubs) if len(np.unique(scope)) > 1]
    factors: list = [([i], row) for i, row in enumerate(rng.normal(size=(n, 2)))]
    factors += [(s.tolist(), Parity(bool(k % 3)) if k % 2 else Clause()) for k, s in enumerate(scopes)]
    flat = compile(FactorGraph([2] * (n + 5), factors, log=True))
    settings = BpSettings(semiring, "parallel", 0.0, 1e-6, 0)  # type: ignore[arg-type]
    fast, general = LiteralEngine(flat, settings), NumbaEngine(flat, settings)
    assert len(fast.literals.begun) > 2, "there is more than one part"
    for count in (1, 2):
        fast.sweep(count)
        general.sweep(count)
        np.testing.assert_allclose(fast.answers().probabilities, general.answers().probabilities, atol=1e-9)


def test_messages_are_in_flat_order() -> None:
    graph = _random_graph(3)
    flat = compile(graph)
    engine = LiteralEngine(flat, BpSettings("sum", "parallel", 0.0, 1e-6, 0))
    engine.sweep(3)
    total = np.bincount(flat.state_of_edge_state, engine.messages(), minlength=flat.num_states).reshape(-1, 2)
    p = engine.answers().probabilities.reshape(-1, 2)
    np.testing.assert_allclose(total[:, 1] - total[:, 0], np.log(p[:, 1] / p[:, 0]), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [Parity(), Parity(odd=True), Clause(), Clause(weight=1.0)])
def test_very_large_factors(factor: Parity | Clause) -> None:
    arity = 100_000
    bias = [([i], [0.0, 5.0 if i % 2 else -0.1]) for i in range(arity)]
    flat = compile(FactorGraph([2] * arity, [*bias, (range(arity), factor)], log=True))
    for semiring in ("sum", "max"):
        engine = LiteralEngine(flat, BpSettings(semiring, "parallel", 0.0, 1e-6, 0))  # type: ignore[arg-type]
        engine.sweep(2)
        assert np.isfinite(engine.answers().probabilities).all()


def test_other_graphs_are_left_to_the_general_engine() -> None:
    pair = ([0, 1], np.zeros((2, 2)))
    soft = ([0, 1, 2], Parity(log_values=(0.0, -1.0)))
    hard = ([0, 1, 2], Parity())
    assert literal_engine.applies_to(compile(FactorGraph([2] * 3, [hard], log=True)))
    for factors in ([hard, pair], [hard, soft]):
        assert not literal_engine.applies_to(compile(FactorGraph([2] * 3, factors, log=True)))
    assert not literal_engine.applies_to(compile(FactorGraph([2, 2, 2, 3], [hard], log=True)))
