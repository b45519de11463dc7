"""Belief propagation corrected around loops against exact answers, and against plain BP where it must be the same."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from equifactor import FactorGraph, Status, generators, solve
from equifactor.answers import Marginals
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph.reduction import to_free_part
from equifactor.metrics import kl
from equifactor.solvers.regions.loop_balls import Balls, LoopyPart
from equifactor.testing import assert_equivariant

TIGHT = "tolerance=1e-11, iterations=500"


def ring(num: int, tail: int, seed: int, zeros: bool = False) -> FactorGraph:
    """Return a loop of variables with a tail and fields."""
    rng = np.random.default_rng(seed)
    pairs = [(i, (i + 1) % num) for i in range(num)] + [(num + k - 1 if k else 0, num + k) for k in range(tail)]
    card = rng.integers(2, 4, num + tail)
    factors = [([i, j], rng.uniform(0.05, 2.0, (card[i], card[j]))) for i, j in pairs]
    if zeros:
        for _, table in factors[::2]:
            table[0, 1] = 0.0
    factors += [([i], rng.uniform(0.1, 1.0, card[i])) for i in range(0, num + tail, 2)]
    return FactorGraph(card.tolist(), factors)


def balls_of(graph: FactorGraph, length: int, size: int = 1000) -> Balls:
    part = LoopyPart.of(to_free_part(graph).graph)
    balls = Balls.grow(part, np.full(graph.num_vars, length), size, 10**6)
    assert balls is not None
    return balls


def test_balls_that_would_take_too_long_are_not_grown() -> None:
    graph = ising_grid(5, 5, seed=0)
    part = LoopyPart.of(graph)
    assert Balls.grow(part, np.full(25, 8), 100, 10**6, seconds=1e-6) is None
    assert Balls.grow(part, np.full(25, 8), 100, 10**6, seconds=1.0) is not None


def test_trees_are_exact_at_once() -> None:
    tree = random_tree(30, card=(2, 4), zeros=0.2, seed=3)
    got, want = solve(tree, "MAR", "loop-bp(length=1)"), solve(tree, "MAR", "bp")
    assert got.status is Status.EXACT
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-6)
    assert got.log_z == pytest.approx(want.log_z, abs=1e-6)


@pytest.mark.parametrize("name", ["grid", "triples", "potts"])
def test_loops_of_two_are_belief_propagation_where_no_factors_share_two_variables(name: str) -> None:
    graph = {
        "grid": ising_grid(5, 4, coupling_std=0.5, seed=0),
        "triples": FactorGraph(
            [2] * 9,
            [(s, np.random.default_rng(sum(s)).uniform(0.2, 1, (2, 2, 2))) for s in _lines_of_a_square()],
        ),
        "potts": generators.potts_grid(3, 4, states=3, seed=2),
    }[name]
    got = solve(graph, "MAR", f"loop-bp(length=2, {TIGHT})")
    want = solve(graph, "MAR", "bp(damping=0.5, iterations=5000, tolerance=1e-11)")
    assert got.status is want.status is Status.CONVERGED
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-8)


def _lines_of_a_square() -> list[list[int]]:
    rows = [[3 * r, 3 * r + 1, 3 * r + 2] for r in range(3)]
    return rows + [[c, 3 + c, 6 + c] for c in range(3)]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("num", [3, 4, 7])
def test_a_single_loop_is_exact_at_its_length(num: int, zeros: bool) -> None:
    graph = ring(num, tail=3, seed=num, zeros=zeros)
    want = solve(graph, "MAR", "exact").marginals
    exact = solve(graph, "MAR", f"loop-bp(length={num}, {TIGHT})")
    assert exact.status.solved
    np.testing.assert_allclose(exact.marginals.values, want.values, atol=1e-9)
    shorter = solve(graph, "MAR", f"loop-bp(length={num - 1}, {TIGHT})")
    assert np.abs(shorter.marginals.values - want.values).max() > 1e-6


def test_several_loops_no_longer_than_the_length_are_exact() -> None:
    """A chain of triangles and squares that share single variables: factors of two and of three variables."""
    rng = np.random.default_rng(1)
    scopes = [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4, 5], [5, 6], [6, 3], [6, 7], [7, 8], [8, 9], [9, 7], [9, 10]]
    graph = FactorGraph([2] * 11, [(s, rng.uniform(0.05, 2.0, [2] * len(s))) for s in scopes])
    want = solve(graph, "MAR", "exact").marginals.values
    got = solve(graph, "MAR", f"loop-bp(length=3, {TIGHT})")
    np.testing.assert_allclose(got.marginals.values, want, atol=1e-9)


@pytest.mark.parametrize("seed", [1, 4])
def test_exact_once_the_balls_hold_everything(seed: int) -> None:
    graph = random_graph(9, 14, arity=(1, 3), card=(2, 3), zeros=0.1, seed=seed)
    got, want = solve(graph, "MAR", "loop-bp(length=30)"), solve(graph, "MAR", "exact")
    assert got.status is Status.EXACT
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-9)
    assert got.log_z == pytest.approx(want.log_z)


def test_balls_of_a_grid_are_its_loops() -> None:
    graph = ising_grid(9, 9, seed=0)
    centre, sizes = 40, {1: 5, 2: 5, 3: 5, 4: 9, 6: 21, 8: 37}
    for length, size in sizes.items():
        balls = balls_of(graph, length)
        assert balls.member_ptr[centre + 1] - balls.member_ptr[centre] == size
    assert not balls_of(graph, 8).whole.any()
    assert balls_of(graph, 40).whole.all()
    cut = balls_of(graph, 8, size=30)
    assert cut.length[centre] == 7
    assert np.diff(cut.member_ptr).max() <= 30


def test_longer_loops_are_better_and_say_so() -> None:
    graph = ising_grid(8, 8, coupling_std=0.8, seed=5)
    want = solve(graph, "MAR", "exact").marginals
    runs = [solve(graph, "MAR", f"loop-bp(length={length})") for length in (2, 4, 6, 8)]
    errors = [kl(want, run.marginals) for run in runs]
    assert all(later < 0.7 * earlier for earlier, later in itertools.pairwise(errors))
    estimates = [run.stats["error_estimate"] for run in runs]
    assert estimates[3] < estimates[1]
    truth = 0.5 * np.add.reduceat(np.abs(runs[3].marginals.values - want.values), want.ptr[:-1])
    assert truth.mean() < 3 * estimates[3]
    assert len(runs[3].stats["error_of_variable"]) == graph.num_vars
    assert runs[3].stats["lengths"] == [2, 4, 6, 8]
    json.dumps(runs[3].to_dict())


def test_evidence_and_zeros_keep_their_states() -> None:
    graph = random_graph(40, 60, arity=(1, 3), card=(2, 3), zeros=0.1, seed=2).condition({3: 1})
    got, want = solve(graph, "MAR", "loop-bp(length=4)"), solve(graph, "MAR", "exact")
    assert np.all(np.isfinite(got.marginals.values))
    assert got.marginals[3][1] == 1.0
    assert not np.any(got.marginals.values[want.marginals.values > 1e-6] == 0.0)
    same, other = np.eye(2), np.eye(2)[::-1]
    odd = FactorGraph([2] * 3, [([0, 1], same), ([1, 2], same), ([0, 2], other)])
    assert solve(odd, "MAR", "loop-bp").status is Status.ZERO_PROBABILITY


@pytest.mark.parametrize("options", ["length=4", "length=8, size=9"])
def test_numbers_of_variables_and_factors_do_not_matter(options: str) -> None:
    graphs = [
        ising_grid(5, 5, coupling_std=1.0, seed=1),
        random_graph(20, 30, arity=(1, 3), card=(2, 3), seed=3),
    ]
    assert_equivariant(f"loop-bp({options}, tolerance=1e-9)", graphs, trials=1)


def test_a_deadline_gives_the_best_so_far(driven_time) -> None:
    driven_time.tick = 0.001
    graph = ising_grid(20, 20, coupling_std=1.0, seed=0)
    result = solve(graph, "MAR", "loop-bp(length=100)", time_limit=0.5)
    assert result.answered
    assert result.seconds < 0.6  # the solver checks the clock at most a hundred times more
    assert np.all(np.isfinite(result.marginals.values))


def test_memory_is_bounded_and_the_same_call_gives_the_same_answer() -> None:
    graph = ising_grid(8, 8, coupling_std=1.0, seed=0)
    text = "loop-bp(memory_limit=0.0003)"
    first, again = solve(graph, "MAR", text), solve(graph, "MAR", text)
    assert first.stats["lengths"][-1] < 12 or first.stats["cut_balls"] > 0
    np.testing.assert_array_equal(first.marginals.values, again.marginals.values)
    assert isinstance(first.marginals, Marginals)
