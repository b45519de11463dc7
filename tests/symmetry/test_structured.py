"""Relabelling, auditing and comparing graphs with factors of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor import (
    Clause,
    FactorGraph,
    Relabelling,
    canonical_form,
    compile,
    graph_hash,
    isomorphism,
    relabel,
    solve,
)
from equifactor.symmetry import KINDS
from tests.factors.random_factors import all_states, random_mixture, scores_from_tables

SEEDS = st.integers(0, 2**32 - 1)


def mixture(seed: int, evidence: bool = False) -> FactorGraph:
    """A random graph with a factor that is no table."""
    rng = np.random.default_rng(seed)
    while True:
        graph = random_mixture(rng)
        if evidence and rng.random() < 0.5:
            i = int(rng.integers(graph.num_vars))
            graph = graph.condition({i: int(rng.integers(graph.card[i]))})
        if graph.structure.kinds is not None:
            return graph


@given(SEEDS)
def test_scores_follow(seed: int) -> None:
    graph = mixture(seed, evidence=True)
    r = Relabelling.random(graph, seed=seed % 1000)
    other = relabel(graph, r)
    states = all_states(graph)
    found, expected = other.log_score(r.assignment(states)), graph.log_score(states)
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert sorted(other.structure.kinds.kind) == sorted(graph.structure.kinds.kind)


@given(SEEDS, st.sets(st.sampled_from(KINDS)), st.sets(st.sampled_from(KINDS)))
def test_inverse_and_composition(seed: int, first: set, second: set) -> None:
    graph = mixture(seed, evidence=True)
    r = Relabelling.random(graph, first, seed % 1000)
    once = relabel(graph, r)
    s = Relabelling.random(once, second, seed % 1000 + 1)
    assert relabel(once, r.inverse()) == graph
    assert relabel(graph, r.compose(s)) == relabel(once, s)


def test_names_move_along() -> None:
    names, states = ["a", "b", "c"], ["off", "on"]
    graph = FactorGraph(dict.fromkeys(names, states), [(names, Clause([1, 0, 1], 1.5))])
    r = Relabelling.random(graph, seed=3)
    other = relabel(graph, r)
    for x in all_states(graph):
        named = {names[i]: states[x[i]] for i in range(3)}
        assert other.log_score(named) == graph.log_score(named)


@given(SEEDS)
def test_messages_follow(seed: int) -> None:
    graph = mixture(seed)
    r = Relabelling.random(graph, seed=seed % 1000)
    source, target = compile(graph), compile(relabel(graph, r))

    def states(flat: object) -> np.ndarray:
        """The factor, variable and state [S, 3] of each edge state."""
        edge = flat.edge_of_edge_state
        x = flat.state_of_edge_state - flat.var_ptr[flat.var_of_edge[edge]]
        return np.stack((flat.factor_of_edge[edge], flat.var_of_edge[edge], x), axis=1)

    old = states(source)
    new_state = r.states[r.state_ptr[old[:, 1]] + old[:, 2]]
    renamed = np.stack((r.factors[old[:, 0]], r.variables[old[:, 1]], new_state), axis=1)
    np.testing.assert_array_equal(r.messages(renamed, source, target), states(target))


@given(SEEDS)
def test_answers_follow(seed: int) -> None:
    graph = mixture(seed)
    r = Relabelling.random(graph, seed=seed % 1000)
    for solver in ("exact", "brute", "bp(iterations=20, damping=0.1)"):
        carried, direct = r.result(solve(graph, "MAR", solver)), solve(relabel(graph, r), "MAR", solver)
        assert carried.graph == direct.graph
        assert (carried.marginals is None) == (direct.marginals is None)
        if carried.marginals is not None:
            assert carried.log_z == pytest.approx(direct.log_z, rel=1e-7, abs=1e-7)
            np.testing.assert_allclose(carried.marginals.values, direct.marginals.values, atol=1e-7)


@given(SEEDS)
def test_a_relabelled_graph_is_found_to_be_the_same(seed: int) -> None:
    graph = mixture(seed, evidence=True)
    other = relabel(graph, Relabelling.random(graph, seed=seed % 1000))
    assert graph_hash(graph) == graph_hash(other)
    assert canonical_form(graph) == canonical_form(other)
    r = isomorphism(graph, other)
    assert r is not None
    states = all_states(graph)
    np.testing.assert_allclose(other.log_score(r.assignment(states)), graph.log_score(states), rtol=1e-12, atol=1e-12)


@given(SEEDS)
def test_other_graphs_are_told_apart(seed: int) -> None:
    graph = mixture(seed)
    x = scores_from_tables(graph)
    log_phi = graph.log_phi - 0.25
    changed = graph.with_potentials(log_phi, log=True)
    y = scores_from_tables(changed)
    if not np.allclose(np.sort(np.nan_to_num(x, neginf=-1e9)), np.sort(np.nan_to_num(y, neginf=-1e9))):
        assert isomorphism(graph, changed) is None
        assert graph_hash(graph) != graph_hash(changed)
