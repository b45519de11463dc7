"""Isomorphism: every relabelling is found, and graphs that are not isomorphic have none."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from hard_graphs import (
    cfi,
    circulant,
    hexagon,
    pairwise,
    random_regular,
    rook,
    shrikhande,
    torus,
    triangles,
)  # fmt: skip

from equifactor import FactorGraph, ModelError, OptionError, SolveError, generators
from equifactor.symmetry import Relabelling, canonical_form, graph_hash, isomorphism, relabel
from equifactor.testing import assert_same_graph, contract_graphs

GRAPHS = contract_graphs()


def plain(graph: FactorGraph) -> FactorGraph:
    """Return the graph without names."""
    return FactorGraph.trusted(
        FactorGraph(graph.card, graph.linear_factors()).structure,
        graph.log_phi.copy(),
        graph.observed,
    )


def check(g: FactorGraph, h: FactorGraph, expected: bool) -> None:
    """Check the answer, the relabelling that proves it, and that hash and canonical form agree with it."""
    r = isomorphism(g, h)
    assert (r is not None) == expected
    assert (graph_hash(g) == graph_hash(h)) == expected
    assert (canonical_form(g) == canonical_form(h)) == expected
    if r is not None:
        assert_same_graph(relabel(plain(g), r), plain(h))


@pytest.mark.parametrize("name", GRAPHS)
def test_every_relabelling_is_found(name: str) -> None:
    for seed in range(5):
        check(GRAPHS[name], relabel(GRAPHS[name], Relabelling.random(GRAPHS[name], seed=seed)), True)


def brute_force(g: FactorGraph, h: FactorGraph) -> bool:
    """Try every permutation of variables and of states; factors are compared as a multiset."""

    def factors(graph: FactorGraph) -> list:
        return sorted(
            (tuple(int(scope[k]) for k in order), tuple(np.transpose(t, order).ravel().tolist()))
            for scope, t in graph.linear_factors()
            for order in [np.argsort(scope).tolist()]
        )

    wanted = factors(h)
    base = Relabelling.identity(g)
    for variables in itertools.permutations(range(g.num_vars)):
        if g.card.tolist() != h.card[list(variables)].tolist():
            continue
        for states in itertools.product(*(itertools.permutations(range(d)) for d in g.card.tolist())):
            flat = np.array([x for s in states for x in s], np.int64)
            r = Relabelling(np.array(variables, int), base.factors, base.slots, flat, base.scope_ptr, base.state_ptr)
            moved = relabel(g, r)
            if factors(moved) == wanted:
                return True
    return False


def test_agrees_with_trying_everything() -> None:
    rng = np.random.default_rng(5)
    verdicts = []
    for n in range(60):
        card = rng.integers(1, 4, 3)
        scopes = [rng.permutation(3)[: rng.integers(0, 4)].tolist() for _ in range(rng.integers(0, 4))]
        tables = [rng.choice([0.0, 1.0, 2.0], [card[i] for i in s]) for s in scopes]
        g = FactorGraph(card, zip(scopes, tables, strict=True))
        h = relabel(g, Relabelling.random(g, seed=n))
        if n % 3 and h.structure.num_entries:  # Swap two values, which often but not always gives another model.
            phi = np.exp(h.log_phi)
            i, j = rng.integers(0, len(phi), 2)
            phi[[i, j]] = phi[[j, i]]
            h = h.with_potentials(phi)
        expected = brute_force(g, h)
        check(g, h, expected)
        verdicts.append(expected)
    assert 20 < sum(verdicts) < 57


HARD = {
    "triangles, hexagon": (triangles(), hexagon(), False),
    "rook, Shrikhande": (rook(), shrikhande(), False),
    "rook, rook": (rook(), rook(), True),
    "Shrikhande, Shrikhande": (shrikhande(), shrikhande(), True),
    "tori of one size": (torus(6, 6), torus(4, 9), False),
    "torus": (torus(12, 12), torus(12, 12), True),
    "circulants": (circulant(13, (1, 5)), circulant(13, (1, 3)), False),
    "equivalent circulants": (circulant(13, (1, 5)), circulant(13, (2, 3)), True),
    "random regular": (random_regular(100, seed=1), random_regular(100, seed=1), True),
    "two random regular": (random_regular(100, seed=1), random_regular(100, seed=2), False),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("table", [[[2, 1], [1, 2]], [[3, 1], [1, 2]], [[2, 1, 1], [1, 2, 1], [1, 1, 2]]])
def test_graphs_that_colours_cannot_tell_apart(name: str, table: list) -> None:
    first, second, expected = HARD[name]
    g, h = pairwise(*first, table), pairwise(*second, table)
    check(g, relabel(h, Relabelling.random(h, seed=7)), expected)


@pytest.mark.parametrize("size", [6, 20, 40])
def test_parity_constraints_that_differ_in_one_place(size: int) -> None:
    """The graphs of Cai, Fuerer and Immerman: colour refinement of any fixed dimension fails on them."""
    even, odd = cfi(size, twisted=False), cfi(size, twisted=True)
    check(even, relabel(odd, Relabelling.random(odd, seed=1)), False)
    check(odd, relabel(odd, Relabelling.random(odd, seed=2)), True)
    check(even, relabel(even, Relabelling.random(even, seed=3)), True)


def test_many_symmetries_of_one_graph() -> None:
    no_edges = FactorGraph([2] * 300)
    pairs = pairwise(400, [(2 * i, 2 * i + 1) for i in range(200)])
    star = pairwise(101, [(0, i) for i in range(1, 101)])
    complete = pairwise(20, itertools.combinations(range(20), 2))
    for graph in (no_edges, pairs, star, complete):
        check(graph, relabel(graph, Relabelling.random(graph, seed=1)), True)


def test_what_counts_and_what_does_not() -> None:
    graph = FactorGraph([2, 3], [([0, 1], [[1, 2, 3], [4, 5, 6]]), ([], 2.0)])
    named = FactorGraph({"a": 2, "b": 3}, [(["a", "b"], [[1, 2, 3], [4, 5, 6]]), ([], 2.0)], name="named")
    check(graph, named, True)
    check(graph, graph.with_factor([], 3.0), False)
    check(
        graph.with_factor([], 3.0), FactorGraph([3, 2], [([], 3.0), ([1, 0], [[1, 2, 3], [4, 5, 6]]), ([], 2.0)]), True
    )
    check(graph, FactorGraph([2, 3], [([0, 1], [[2, 4, 6], [8, 10, 12]]), ([], 1.0)]), False)  # scaled, though same Z
    check(graph, FactorGraph([2, 3, 1], [([0, 1], [[1, 2, 3], [4, 5, 6]]), ([], 2.0)]), False)
    twice = FactorGraph([2], [([0], [1, 2])] * 2)
    check(twice, FactorGraph([2], [([0], [1, 2]), ([0], [2, 1])]), False)
    check(twice, FactorGraph([2], [([0], [2, 1])] * 2), True)
    check(FactorGraph([]), FactorGraph([]), True)


def test_evidence_counts() -> None:
    graph = pairwise(3, [(0, 1), (1, 2)])
    check(graph.condition({0: 0}), graph.condition({2: 1}), True)
    check(graph.condition({0: 0}), graph.condition({1: 0}), False)
    check(graph.condition({0: 0}), graph, False)
    r = isomorphism(graph.condition({0: 0}), graph.condition({2: 1}))
    assert r is not None
    assert r.variables[0] == 2
    assert r.states[0] == 1


def test_minus_zero_is_zero() -> None:
    check(FactorGraph([2], [([0], [0.0, 1.0])], log=True), FactorGraph([2], [([0], [-0.0, 1.0])], log=True), True)


def test_tolerance_forgives_noise() -> None:
    graph = GRAPHS["hard zeros"]
    other = relabel(graph, Relabelling.random(graph, seed=1))
    noise = np.random.default_rng(1).uniform(-1e-12, 1e-12, len(other.log_phi))
    noisy = other.with_potentials(np.where(np.isneginf(other.log_phi), -np.inf, other.log_phi + noise), log=True)
    assert isomorphism(graph, noisy) is None
    r = isomorphism(graph, noisy, tolerance=1e-9)
    assert r is not None
    assert_same_graph(plain(relabel(graph, r)), plain(noisy), tolerance=2e-12)
    assert graph_hash(graph) != graph_hash(noisy)
    assert graph_hash(graph, digits=6) == graph_hash(noisy, digits=6)
    far = noisy.with_potentials(noisy.log_phi * 1.001, log=True)
    assert isomorphism(graph, far, tolerance=1e-9) is None


def test_tolerance_keeps_true_zeros_apart() -> None:
    zero, tiny = FactorGraph([2], [([0], [0.0, 1.0])]), FactorGraph([2], [([0], [1e-300, 1.0])])
    assert isomorphism(zero, tiny, tolerance=600.0) is None


def test_a_chain_of_values_is_not_guessed_at() -> None:
    """0, 1 and 2 are one group at tolerance 1.5, so the groups cannot distinguish them."""
    g = FactorGraph([3], [([0], [0.0, 1.0, 2.0])], log=True)
    h = FactorGraph([3], [([0], [1.9, 0.1, 1.1])], log=True)
    assert isomorphism(g, h, tolerance=0.2) is not None
    with pytest.raises(SolveError, match="too large to decide"):
        isomorphism(g, h, tolerance=1.0)
    assert isomorphism(g, FactorGraph([3], [([0], [2.5, 4.0, 4.5])], log=True), tolerance=0.4) is None


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf"), "1"])
def test_bad_tolerance(tolerance: float) -> None:
    with pytest.raises(OptionError, match="tolerance must be"):
        isomorphism(GRAPHS["tree"], GRAPHS["tree"], tolerance=tolerance)


def test_without_igraph_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    assert len(graph_hash(GRAPHS["loop"])) == 64  # no symmetries: nothing to search
    with pytest.raises(OptionError, match="pip install igraph"):
        graph_hash(pairwise(*hexagon()))


def test_what_is_no_graph_is_named() -> None:
    graph = generators.ising_grid(2, 2, seed=0)
    with pytest.raises(ModelError, match="Expected a FactorGraph"):
        isomorphism(graph, "model.uai")
