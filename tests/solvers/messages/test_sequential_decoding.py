"""Sequential decoding of max-product messages."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, solve
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.solvers import compile
from equifactor.solvers.messages.sequential_decoding import sequential_states


def reference(graph: FactorGraph, messages: list[dict[int, np.ndarray]]) -> list[int]:
    """Decode by the definition: a stack over factors, the best belief that agrees, neighbours pushed."""
    factors = [graph.structure.scope(a).tolist() for a in range(graph.num_factors)]
    incoming = [[a for a, scope in enumerate(factors) if i in scope] for i in range(graph.num_vars)]
    states = [-1] * graph.num_vars
    visited: set[int] = set()
    for seed in range(len(factors)):
        if seed in visited:
            continue
        visited.add(seed)
        stack = [seed]
        while stack:
            a = stack.pop()
            belief = graph.log_table(a).copy()
            for axis, i in enumerate(factors[a]):
                from_others = sum((messages[b][i] for b in incoming[i] if b != a), np.zeros(graph.card[i]))
                if states[i] >= 0:
                    from_others = np.where(np.arange(graph.card[i]) == states[i], from_others, -np.inf)
                belief += from_others.reshape([-1 if n == axis else 1 for n in range(belief.ndim)])
            if np.isneginf(belief.max()):
                continue
            best = np.unravel_index(int(belief.argmax()), belief.shape)
            for i, x in sorted(zip(factors[a], best, strict=True)):
                if states[i] < 0:
                    states[i] = int(x)
                    new = [b for b in incoming[i] if b not in visited]
                    visited.update(new)
                    stack += new
    return states


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_it_follows_the_definition(zeros: float) -> None:
    rng = np.random.default_rng(0)
    for graph in random_graph(7, 10, arity=(1, 3), card=(2, 3), zeros=zeros, count=60, seed=3):
        flat = compile(graph)
        flat_messages = rng.normal(size=flat.num_edge_states)
        messages: list[dict[int, np.ndarray]] = [{} for _ in range(graph.num_factors)]
        for group in flat.groups:
            for j, edges in enumerate(group.edges):
                for a, i, m in zip(
                    group.factors, flat.var_of_edge[edges], group.message(flat_messages, j), strict=True
                ):
                    messages[a][int(i)] = m
        got = sequential_states(flat, flat_messages)
        want = np.array(reference(graph, messages))
        np.testing.assert_array_equal(got[want >= 0], want[want >= 0])
        assert np.all((got >= 0) & (got < graph.card))


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_trees_are_solved_with_ties(engine: str) -> None:
    for seed in range(4):
        tree = random_tree(10, card=(2, 3), zeros=0.2, seed=seed)
        got = solve(tree, "MAP", f"bp(decode=sequential, engine={engine})")
        assert got.log_score == pytest.approx(solve(tree, "MAP", "brute").log_score)
    equal = FactorGraph([2] * 6, [([i, i + 1], np.eye(2)) for i in range(5)])
    for decode in ("sequential", "argmax"):  # the best states of single variables cannot break this tie
        assert solve(equal, "MAP", f"bp(decode={decode}, engine={engine})").log_score == 0.0


def test_ties_on_loops_are_left_to_single_variables() -> None:
    differ = 1.0 - np.eye(2)
    chain = FactorGraph([2] * 4, [([i, i + 1], differ) for i in range(3)])
    ring = chain.with_factor([3, 0], differ)
    chained, looped = solve([chain, ring], "MAP", "bp")
    assert chained.log_score == 0.0
    assert looped.log_score == -np.inf  # the order of the model must not decide
    assert solve(ring, "MAP", "bp(decode=sequential)").log_score == 0.0


def test_engines_agree_on_a_grid() -> None:
    grid = ising_grid(6, 6, seed=1)
    specs = [f"bp(decode=sequential, iterations=20, engine={engine})" for engine in ("numba", "torch")]
    first, second = (solve(grid, "MAP", spec) for spec in specs)
    np.testing.assert_array_equal(first.assignment, second.assignment)


def test_a_contradiction_is_skipped_and_free_variables_are_answered() -> None:
    differ = 1 - np.eye(2)
    odd = FactorGraph([2, 2, 2, 3], [([0, 1], differ), ([1, 2], differ), ([0, 2], differ)])
    got = solve(odd, "MAP", "bp(decode=sequential)")
    assert got.assignment.shape == (4,)
    assert np.all((got.assignment >= 0) & (got.assignment < odd.card))
