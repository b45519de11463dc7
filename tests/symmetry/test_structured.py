"""Relabelling, auditing and comparing graphs with factors of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor import Clause, Count, FactorGraph, ModelError, NoisyOr, Parity, Potts, SparseTable, Task, solve
from equifactor.solvers import compile
from equifactor.symmetry import (
    KINDS,
    Relabelling,
    audit,
    canonical_form,
    compared_factors,
    graph_hash,
    isomorphism,
    relabel,
)
from equifactor.symmetry.auditing import Trials
from tests.factors.random_factors import all_states, random_mixture, scores_from_tables

SEEDS = st.integers(0, 2**32 - 1)


def mixture(seed: int, evidence: bool = False) -> FactorGraph:
    """Return a random graph with a structured factor."""
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
        """Return the factor, variable and state [S, 3] of each edge state."""
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
        assert hasattr(carried, "marginals") == hasattr(direct, "marginals")
        if hasattr(carried, "marginals"):
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
    changed = graph.with_potentials(graph.log_phi - 0.25, log=True)
    one, two = (np.sort(np.nan_to_num(scores_from_tables(g), neginf=-1e9)) for g in (graph, changed))
    if not np.allclose(one, two):
        assert isomorphism(graph, changed) is None
        assert graph_hash(graph) != graph_hash(changed)


def test_how_a_factor_is_stated_does_not_count() -> None:
    pairs = [
        (Clause([1, 0, 1], 1.5), Count([-1.5, 0, 0, 0], [1, 0, 1])),
        (Clause([1, 0, 1]), Count([0, 0, 0, -np.inf], [0, 1, 0])),
        (Parity(odd=True), SparseTable([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]], [0.0] * 4)),
        (NoisyOr(0.5, [1.0, 0.25]), NoisyOr(0.5, [0.25, 1.0], [1, 1, 0])),
    ]
    for one, two in pairs:
        g, h = (FactorGraph([2] * 3, [(range(3), factor)]) for factor in (one, two))
        assert isomorphism(g, h) is not None
        assert canonical_form(g) == canonical_form(h)
        assert canonical_form(g).structure.kinds is None
        assert isomorphism(g, FactorGraph([2] * 3, [(range(3), g.log_table(0))], log=True), 1e-12) is not None
    large = [
        (Clause(weight=1.5), Count([-1.5] + [0] * 15)),
        (Clause(), Count([0] * 15 + [-np.inf], [0] * 15)),
        (NoisyOr(0.5, [1.0, 0.25] * 7), NoisyOr(0.5, [0.25, 1.0] * 7, [1, 1, 0] * 5)),
        (SparseTable(np.eye(15, dtype=int), [1.0] * 15), SparseTable(np.eye(15, dtype=int)[::-1], [1.0] * 15)),
        (SparseTable([[0] * 15, [1] * 15], [1.0, 0.5], 0.5), SparseTable([[1] * 15], [1.0], 0.5)),
    ]
    for one, two in large:
        g, h = (FactorGraph([2] * 15, [(range(15), factor)]) for factor in (one, two))
        assert isomorphism(g, h) is not None
        assert canonical_form(g) == canonical_form(h)
        assert graph_hash(g) == graph_hash(h) == graph_hash(canonical_form(g))


def large_graph(seed: int, num_vars: int = 15, arity: int = 13) -> FactorGraph:
    """Return a graph of large factors with few different values, so that it has symmetries."""
    rng = np.random.default_rng(seed)
    factors: list = [([i], rng.choice([0.0, 1.0], 2)) for i in range(num_vars) if rng.random() < 0.3]
    for _ in range(3):
        signs = rng.integers(0, 2, arity).tolist()
        half = rng.choice([0.0, 1.0, -np.inf], arity + 1)
        listed = np.unique(rng.integers(0, 2, (5, arity)), axis=0)
        place = int(rng.integers(arity))
        choices = [
            Clause(signs, None if rng.random() < 0.5 else 1.0),
            Count(half.tolist(), signs),
            Count((half + half[::-1]).tolist(), signs),
            NoisyOr(0.25, rng.choice([0.5, 1.0, 0.0], arity - 1).tolist(), signs, place=place),
            SparseTable(listed, rng.choice([0.0, 0.5, 1.0], len(listed)), 0.0),
        ]
        factors.append((rng.permutation(num_vars)[:arity].tolist(), choices[rng.integers(len(choices))]))
    return FactorGraph([2] * num_vars, factors, log=True)


@pytest.mark.slow
@given(st.integers(0, 10**6))
def test_large_factors_are_compared(seed: int) -> None:
    graph = large_graph(seed)
    other = relabel(graph, Relabelling.random(graph, seed=seed))
    assert graph_hash(graph) == graph_hash(other)
    form = canonical_form(graph)
    assert form == canonical_form(other) == canonical_form(form)
    x = np.random.default_rng(seed).integers(0, 2, (200, graph.num_vars))
    for tolerance in (0.0, 1e-9):
        for g, h in ((graph, other), (other, form)):
            r = isomorphism(g, h, tolerance)
            assert r is not None
            np.testing.assert_allclose(h.log_score(r.assignment(x)), g.log_score(x), rtol=1e-12, atol=1e-12)


def test_large_factors_that_differ_are_told_apart() -> None:
    k = 14
    steps = np.arange(k + 1.0)
    signs = [1] * 13 + [0]
    factors = [
        Clause(), Clause(weight=1.0), Count(steps), Count(-steps), Count(np.minimum(steps, 3)),
        NoisyOr(0.1, [0.5] * 13), NoisyOr(0.1, [0.5] * 12 + [0.25]), NoisyOr(0.2, [0.5] * 13),
        NoisyOr(0.1, [0.5] * 14, effect=True), NoisyOr(0.1, [0.5] * 14, effect=False),
        SparseTable([[0] * k], [1.0]), SparseTable([[0] * k], [1.0], 0.0), SparseTable([[0] * k, signs], [1.0, 1.0]),
        SparseTable([[0] * k, [1] * k], [1.0, 1.0]), SparseTable([[0] * k, [1] * k], [1.0, 2.0]),
    ]  # fmt: skip
    alone = [FactorGraph([2] * k, [(range(k), f)]) for f in factors]
    assert len({graph_hash(g) for g in alone}) == len(alone)
    assert all(isomorphism(alone[0], g) is None for g in alone[1:])
    # Swapping states can undo a change of one sign, but not a change in one of two factors over the same variables.
    pairs = [FactorGraph([2] * k, [(range(k), Clause()), (range(k), Clause(s, 1.0))]) for s in ([1] * k, signs)]
    assert isomorphism(*pairs) is None
    assert graph_hash(pairs[0]) != graph_hash(pairs[1])
    # A palindrome of values looks the same from both sides, other values do not.
    for values, same in ((steps * steps[::-1], True), (steps, False)):
        g, h = (
            FactorGraph([2] * k, [*(([i], [1, 2]) for i in range(k)), (range(k), Count(values, [sign] * k))])
            for sign in (1, 0)
        )
        assert (isomorphism(g, h) is not None) == same
        assert (graph_hash(g) == graph_hash(h)) == same


def test_a_tolerance_forgives_noise_in_large_factors() -> None:
    graph = large_graph(5)
    noise = np.random.default_rng(0).uniform(-1e-12, 0, graph.log_phi.shape)
    other = graph.with_potentials(graph.log_phi + noise, log=True)
    other = relabel(other, Relabelling.random(other, seed=1))
    assert isomorphism(graph, other) is None
    assert isomorphism(graph, other, 1e-9) is not None


def test_a_pair_of_labels_that_is_too_large_is_refused() -> None:
    graph = FactorGraph([300] * 2, [(range(2), Potts(1.0))])
    for compare in (graph_hash, canonical_form, lambda g: isomorphism(g, g)):
        with pytest.raises(ModelError, match=r"Factor 0 is a potts over 2 variables .* up to 2\^16"):
            compare(graph)


def test_claims_of_bp_hold_on_every_kind() -> None:
    graphs = [mixture(seed) for seed in range(12)]
    for finding in audit("bp", graphs, trials=Trials(1)):
        assert not finding.failed, f"{finding.violation.where}: {finding.violation.error}"
        assert finding.cases > 12


def test_audit_says_where_a_graph_was_lowered() -> None:
    unary = [([i], [1.0, 1.0 + 0.1 * i]) for i in range(9)]
    graph = FactorGraph([2] * 9, [*unary, (range(9), NoisyOr(0.1, np.linspace(0.1, 0.9, 8)))], name="net")
    (finding,) = audit("bpnn(untrained)", graph, "local variable", tasks=[Task.MAR])
    assert finding.violation.where == "marginals (MAR) of net lowered to tables"


def tiny_graph(rng: np.random.Generator) -> FactorGraph:
    """Return a graph of three or four binary variables and few factors, so that many of these are isomorphic."""
    num_vars, factors = int(rng.integers(3, 5)), []
    for _ in range(int(rng.integers(1, 3))):
        k = int(rng.integers(2, num_vars + 1))
        signs = rng.integers(0, 2, k).tolist()
        listed = np.unique(rng.integers(0, 2, (int(rng.integers(3)), k)), axis=0)
        choices = [
            Clause(signs, None if rng.random() < 0.5 else 1.0),
            Count(rng.choice([0.0, 1.0], k + 1).tolist(), signs),
            NoisyOr(0.5, rng.choice([0.5, 1.0, 0.0], k - 1).tolist(), signs, place=int(rng.integers(k))),
            SparseTable(listed, rng.choice([0.0, 1.0], len(listed)), float(rng.choice([0.0, -np.inf]))),
            Parity(bool(rng.integers(2)), tuple(rng.choice([0.0, 1.0], 2).tolist())),
        ]
        factors.append((rng.permutation(num_vars)[:k].tolist(), choices[rng.integers(len(choices))]))
    return FactorGraph([2] * num_vars, factors)


@pytest.mark.parametrize("count", [80, pytest.param(1000, marks=pytest.mark.slow)])
def test_what_stands_for_large_factors_says_what_tables_say(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(count)
    graphs = [tiny_graph(rng) for _ in range(count)]
    by_tables = [graph_hash(g) for g in graphs]
    monkeypatch.setattr(compared_factors, "MAX_TABLE", 1)  # Now all factors count as large.
    classes: dict[str, str] = {}
    for n, (graph, expected) in enumerate(zip(graphs, by_tables, strict=True)):
        found = graph_hash(graph)
        assert classes.setdefault(found, expected) == expected  # Hashes differ if the tables differ.
        other = relabel(graph, Relabelling.random(graph, seed=n))
        assert graph_hash(other) == found
        assert canonical_form(other) == canonical_form(graph)
        r = isomorphism(graph, other)
        assert r is not None
        x = all_states(graph)
        np.testing.assert_allclose(other.log_score(r.assignment(x)), graph.log_score(x), rtol=1e-12)
    assert len(classes) < 0.95 * count
    assert len(classes) < 1.2 * len(set(by_tables))  # Few equal functions have different forms.
