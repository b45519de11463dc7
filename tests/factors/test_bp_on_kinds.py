"""Belief propagation on factors of every kind: the same run as on the tables of these factors, and exact on trees."""

import numpy as np
import pytest
from random_factors import as_tables, random_factor, random_mixture

import equifactor as ef
from equifactor.graph.reduction import without_impossible_states
from equifactor.solvers.messages.bp_engine import BpSettings
from equifactor.solvers.messages.numba_engine import NumbaEngine


def in_slow_tests(*schedules):
    """Mark schedules as slow: each compiles the messages of all kinds again, which takes half a minute."""
    return [pytest.param(schedule, marks=pytest.mark.slow) for schedule in schedules]


def possible_graph(seed):
    """Return a random graph without excluded states and without a factor that is zero everywhere."""
    rng = np.random.default_rng(seed)
    while True:
        (reduced,) = without_impossible_states([random_mixture(rng)])
        if reduced is not None and reduced.graph.structure.kinds is not None:
            return reduced.graph


def run(graph, semiring, schedule, sweeps, damping=0.2):
    settings = BpSettings(semiring, schedule, damping, 1e-9, 0)
    engine = NumbaEngine(ef.solvers.compile(graph), settings)
    change = engine.sweep(1)
    for _ in range(sweeps - 1):
        change = engine.sweep(1)
    return engine.answers(), change


def agree(one, two):
    one, two = np.nan_to_num(one, neginf=-1e9), np.nan_to_num(two, neginf=-1e9)
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("schedule", ["parallel", *in_slow_tests("sequential", "random")])
@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_the_run_is_that_of_the_tables(schedule, semiring):
    for seed in range(60):
        graph = possible_graph(seed)
        (found, change), (wanted, other) = (run(g, semiring, schedule, 5) for g in (graph, as_tables(graph)))
        agree(found.probabilities, wanted.probabilities)
        agree(change, other)
        if semiring == "sum":
            agree(found.log_z, wanted.log_z)
        else:
            agree(found.upper_bound, wanted.upper_bound)


@pytest.mark.slow
def test_the_residual_schedule_ends_where_the_parallel_one_does():
    count = 0
    for seed in range(40):
        graph = possible_graph(seed)
        (found, change), (wanted, other) = (run(graph, "sum", s, 200) for s in ("residual", "parallel"))
        if max(change.max(), other.max()) <= 1e-9:
            np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-6)
            np.testing.assert_allclose(found.log_z, wanted.log_z, atol=1e-6)
            count += 1
    assert count > 20


def random_tree(rng, num_factors=6):
    """Return factors of any kind, each of which shares one variable with earlier factors."""
    card, factors = [2], []
    for _ in range(num_factors):
        kind = str(rng.choice(["parity", "clause", "count", "noisy_or", "sparse", "at most"]))
        new = int(rng.integers(1, 4))
        scope = [int(rng.integers(len(card))), *range(len(card), len(card) + new)]
        card += [2] * new
        factors.append((rng.permutation(scope).tolist(), random_factor(rng, kind, (2,) * len(scope))))
    factors += [([i], rng.normal(size=2)) for i in range(len(card))]
    return ef.FactorGraph(card, factors, log=True)


@pytest.mark.parametrize("schedule", ["parallel", "sequential", *in_slow_tests("random", "residual")])
def test_trees_are_exact(schedule):
    for seed in range(25):
        graph = random_tree(np.random.default_rng(seed))
        exact, found = ef.solve(graph, "MAR", "exact"), ef.solve(graph, "MAR", f"bp(schedule={schedule})")
        if exact.status == "zero-probability":
            continue
        assert found.log_z == pytest.approx(exact.log_z, abs=1e-5)
        np.testing.assert_allclose(found.marginals.values, exact.marginals.values, atol=1e-5)
        best = ef.solve(graph, "MAP", "exact")
        for decode in ("argmax", "sequential"):
            found = ef.solve(graph, "MAP", f"bp(schedule={schedule}, decode={decode})")
            assert found.upper_bound >= best.log_score - 1e-9
        assert found.log_score == pytest.approx(best.log_score, abs=1e-4)


def test_upper_bounds_hold_for_every_graph():
    for seed in range(80):
        graph = random_mixture(np.random.default_rng(seed))
        best, found = ef.solve(graph, "MAP", "brute"), ef.solve(graph, "MAP", "bp(iterations=7)")
        if best.status != "zero-probability":
            assert found.upper_bound >= best.log_score - 1e-9
            assert found.log_score <= best.log_score + 1e-9


def test_batches_mix_graphs_with_and_without_kinds():
    graphs = [
        possible_graph(1),
        ef.generators.ising_grid(3, 3, seed=0),
        possible_graph(2),
        as_tables(possible_graph(3)),
    ]
    for task in ("MAR", "MAP"):
        together = ef.solve(graphs, task, "bp(iterations=6, tolerance=0)")
        alone = [ef.solve(g, task, "bp(iterations=6, tolerance=0)") for g in graphs]
        for one, two in zip(together, alone, strict=True):
            if task == "MAR":
                agree(one.marginals.values, two.marginals.values)
                agree(one.log_z, two.log_z)
            else:
                agree(one.upper_bound, two.upper_bound)


def test_brute_force_and_the_torch_engine_take_every_kind():
    pytest.importorskip("torch")
    for seed in range(5):
        graph = random_tree(np.random.default_rng(seed), 3)
        exact = ef.solve(graph, "MAR", "brute")
        if exact.status == "zero-probability":
            continue
        found = ef.solve(graph, "MAR", "bp(engine=torch)")
        np.testing.assert_allclose(found.marginals.values, exact.marginals.values, atol=1e-5)


@pytest.mark.parametrize("arity", [1000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_long_parities_and_clauses(arity):
    rng = np.random.default_rng(0)
    unary = [([i], np.array([0.0, v])) for i, v in enumerate(rng.normal(size=arity).tolist())]
    sign = np.prod(np.tanh(0.5 * np.array([table[1] for _, table in unary])))
    parity = ef.FactorGraph([2] * arity, [*unary, (range(arity), ef.Parity())], log=True)
    free = sum(np.logaddexp(0.0, table[1]) for _, table in unary)
    assert ef.solve(parity, "PR", "bp").log_z == pytest.approx(free + np.log((1 + sign) / 2), abs=1e-6)
    clause = ef.FactorGraph([2] * arity, [*unary, (range(arity), ef.Clause(np.zeros(arity, bool)))], log=True)
    found = ef.solve(clause, "MAP", "bp")
    assert found.log_score == pytest.approx(sum(max(0.0, table[1]) for _, table in unary))
    assert found.upper_bound == pytest.approx(found.log_score)
