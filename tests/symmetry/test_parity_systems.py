"""Graphs of parities, whose states may be swapped in exponentially many ways."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor import Clause, Count, FactorGraph, ModelError, Parity, generators
from equifactor.symmetry import Relabelling, canonical_form, graph_hash, isomorphism, parity_systems, relabel
from equifactor.symmetry.binary_elimination import bits_of, dependencies, light_sums, masks_of, solve_rows
from tests.factors.random_factors import all_states


def assert_same(g: FactorGraph, h: FactorGraph, tolerance: float = 0.0) -> None:
    """Check that isomorphism, hash and canonical form agree, and that the relabelling keeps scores."""
    r = isomorphism(g, h, tolerance)
    assert r is not None
    x = np.random.default_rng(0).integers(0, 2, (50, g.num_vars))
    np.testing.assert_allclose(h.log_score(r.assignment(x)), g.log_score(x), rtol=1e-12, atol=1e-9)
    if not tolerance:
        assert graph_hash(g) == graph_hash(h)
        assert canonical_form(g) == canonical_form(h)


def assert_different(g: FactorGraph, h: FactorGraph) -> None:
    assert isomorphism(g, h) is None
    assert graph_hash(g) != graph_hash(h)
    assert canonical_form(g) != canonical_form(h)


def shuffled(graph: FactorGraph, seed: int) -> FactorGraph:
    return relabel(graph, Relabelling.random(graph, seed=seed))


def checks(scopes: list, odd: tuple[int, ...] = (), more: list | None = None) -> FactorGraph:
    """Return parities over these scopes, some of them odd."""
    num_vars = 1 + max(max(scope) for scope in scopes)
    return FactorGraph([2] * num_vars, [(s, Parity(a in odd)) for a, s in enumerate(scopes)] + (more or []))


def code(n: int, per_check: int, seed: int) -> list[list[int]]:
    bits = generators.LdpcCode.random(n, n - 3 * n // per_check, seed=seed).bits
    return bits.reshape(-1, per_check).tolist()


@pytest.mark.parametrize("per_check", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_codes_are_compared_without_enumerating_states(per_check: int) -> None:
    scopes = code(400, per_check, 1)
    g = checks(scopes)
    assert_same(g, shuffled(g, 3))
    turned = checks(scopes, odd=(0, 5, 7))  # Checks are independent, so swaps of states make all of them even.
    assert_same(g, turned)
    assert_different(g, checks(code(400, per_check, 2)))


def test_codes_with_channels_and_punctured_bits() -> None:
    rng = np.random.default_rng(0)
    scopes = code(300, 6, 1)
    likely = [([i], [0.9, 0.1]) for i in rng.permutation(300)[:200].tolist()]
    g = checks(scopes, (3,), likely)
    assert_same(g, shuffled(g, 1))
    other = [*likely[:-1], (likely[-1][0], [0.8, 0.2])]
    assert_different(g, checks(scopes, (3,), other))
    all_known = [([i], [0.9, 0.1]) for i in range(300)]
    assert_different(checks(scopes, (), all_known), checks(scopes, (3,), all_known))


def test_large_formulas_are_compared() -> None:
    g = generators.random_ksat(1000, ratio=4.2, k=3, seed=0)
    assert_same(g, shuffled(g, 1))


def test_one_parity_of_any_size() -> None:
    for k in (3, 13, 20, 200):
        g, h = checks([list(range(k))]), checks([list(range(k))], (0,))
        assert_same(g, h)
        assert_same(g, shuffled(g, k))
        weighted = [FactorGraph([2] * k, [(range(k), Parity(log_values=v))]) for v in ((1.0, 2.0), (2.0, 1.0))]
        assert_same(*weighted)
        assert_different(g, weighted[0])
        known = [([i], [1.0, 2.0]) for i in range(k)]
        assert_different(checks([list(range(k))], (), known), checks([list(range(k))], (0,), known))
        level = FactorGraph([2] * k, [(range(k), Parity(log_values=(1.0, 1.0)))])
        assert_different(level, weighted[0])
        assert_same(level, FactorGraph([2] * k, [(range(k), Count([1.0] * (k + 1)))]))


def test_tables_that_are_parities_count_as_such() -> None:
    scopes = code(96, 6, 1)
    even = np.where(np.bitwise_count(np.arange(64)) % 2 == 0, 1.0, 0.0).reshape([2] * 6)
    tables = FactorGraph([2] * 96, [(scope, even) for scope in scopes])
    assert_same(checks(scopes), shuffled(tables, 1))
    assert canonical_form(checks(scopes)).structure.kinds is None
    noisy = tables.with_potentials(tables.log_phi - np.random.default_rng(0).uniform(0, 1e-12, 64 * 48), log=True)
    assert isomorphism(tables, noisy) is None
    assert_same(shuffled(tables, 2), noisy, 1e-9)


def test_what_is_odd_in_all_counts() -> None:
    # Every variable is in two parities, so that the sum of all parities is empty, and no swap changes its turn.
    edges = list(itertools.combinations(range(6), 2))
    scopes = [[n for n, edge in enumerate(edges) if node in edge] for node in range(6)]
    none, one, two, other = (checks(scopes, odd) for odd in ((), (0,), (1, 4), (3,)))
    assert_same(none, two)
    assert_same(one, other)
    assert_different(none, one)
    # With two of these systems, it does not matter which one is odd, but it matters whether both are.
    both = scopes + [[n + 15 for n in scope] for scope in scopes]
    assert_same(checks(both, (0,)), checks(both, (7, 8, 9)))
    assert_different(checks(both, (0,)), checks(both, (0, 6)))
    # A count distinguishes the states of the variables of one parity, which gives its turn a meaning.
    marked = [([0, 1, 2, 3, 4], Count([0.0] * 5 + [1.0]))]
    assert_different(checks(both, (0,), marked), checks(both, (6,), marked))
    assert_different(checks(both, (0,), marked), checks(both, (5,), marked))
    assert_same(checks(both, (4,), marked), shuffled(checks(both, (5,), marked), 2))


def test_too_many_that_depend_on_each_other_are_tables() -> None:
    scopes = [[0, 1, 2, 3]] * 14
    assert_same(checks(scopes, (1, 2)), shuffled(checks(scopes, (4, 9)), 1))
    assert_different(checks(scopes, (1, 2)), checks(scopes, (1, 2, 3)))
    large = [list(range(20))] * 14
    with pytest.raises(ModelError, match=r"Factor 0 is a parity over 20 variables .* up to 2\^16"):
        graph_hash(checks(large))


def random_system(rng: np.random.Generator) -> FactorGraph:
    """Return a few parities over four variables, sometimes with a factor that distinguishes or ties states."""
    n = 4
    factors: list = []
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(2, n + 1))
        values = (0.0, 1.0) if rng.random() < 0.7 else (0.0, -np.inf)
        factors.append((rng.permutation(n)[:k].tolist(), Parity(bool(rng.integers(2)), values)))
    more = [
        ([1.0, 2.0], 1),
        ([1.0, 1.0], 1),
        ([[1.0, 1.0], [1.0, 2.0]], 2),
        ([[2.0, 1.0], [1.0, 2.0]], 2),
        (Clause(), 2),
        ([[[1.0, 1.0], [2.0, 2.0]], [[2.0, 2.0], [1.0, 1.0]]], 3),  # a parity of its first two variables
    ]
    for _ in range(int(rng.integers(0, 2))):
        table, k = more[rng.integers(len(more))]
        factors.append((rng.permutation(n)[:k].tolist(), table))
    return FactorGraph([2] * n, factors)


def least_of_all(graph: FactorGraph) -> list:
    """Return the smallest list of scopes and tables over all relabellings, by trying each of them."""
    n = graph.num_vars
    factors = [(graph.structure.scope(a).tolist(), graph.log_table(a)) for a in range(graph.num_factors)]
    found = None
    for order in itertools.permutations(range(n)):
        moved = []
        for scope, table in factors:
            new = [order[i] for i in scope]
            axes = np.argsort(new).tolist()
            moved.append((sorted(new), table.transpose(axes)))
        for swaps in itertools.product((1, -1), repeat=n):
            listed = sorted(
                (scope, table[tuple(slice(None, None, swaps[i]) for i in scope)].ravel().tolist())
                for scope, table in moved
            )
            if found is None or listed < found:
                found = listed
    return found


@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.slow)])
def test_systems_say_what_trying_all_relabellings_says(count: int) -> None:
    rng = np.random.default_rng(count)
    graphs = [random_system(rng) for _ in range(count)]
    hashes, expected = [], []
    for n, graph in enumerate(graphs):
        hashes.append(graph_hash(graph))
        expected.append(repr(least_of_all(graph)))
        other = shuffled(graph, n)
        assert graph_hash(other) == hashes[-1]
        assert canonical_form(other) == canonical_form(graph) == canonical_form(canonical_form(graph))
        r = isomorphism(graph, other)
        assert r is not None
        x = all_states(graph)
        np.testing.assert_allclose(other.log_score(r.assignment(x)), graph.log_score(x), rtol=1e-12)
    pairs = set(zip(hashes, expected, strict=True))
    assert len(pairs) == len(set(hashes)) == len(set(expected)) < count


def test_rows_of_ones_and_zeros() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        rows, columns = (int(rng.integers(1, 8)) for _ in range(2))
        matrix = rng.integers(0, 2, (rows, columns))
        masks, bit = masks_of(*np.nonzero(matrix), rows, columns)
        empty = [set(bits_of(n)) for n in range(1, 2**rows) if not (matrix[bits_of(n)].sum(axis=0) % 2).any()]
        basis = dependencies(masks)
        assert len(empty) == 2 ** len(basis) - 1
        light = light_sums(basis, 8)
        assert all(set(bits_of(total)) in empty for total in light)
        heaviest = max((total.bit_count() for total in light), default=0)
        assert len(light) == sum(len(own) <= heaviest for own in empty)
        assert len(dependencies(light)) == len(light) - len(basis)
        wanted = rng.integers(0, 2, rows) == 1
        chosen, all_met = solve_rows(masks, wanted)
        x = np.array([chosen >> b & 1 for b in bit.tolist()])
        reachable = [tuple(matrix @ np.array(y) % 2) for y in itertools.product((0, 1), repeat=columns)]
        best = min(reachable, key=lambda y: [a != b for a, b in zip(y, wanted.tolist(), strict=True)])
        assert tuple(matrix @ x % 2) == best
        assert all_met == (tuple(wanted.astype(int)) in reachable)
    assert light_sums([1] * 9, 8) is None
    assert parity_systems.parity_system(FactorGraph([2, 2], [([0, 1], Parity())])) is None
