"""The operations of every kind on rows against their definitions, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_factors import BINARY, KINDS, random_factor, rows_of, tables_of

from equifactor import FactorGraph
from equifactor.graph.kind_checks import check_kinds
from equifactor.graph.kinds import KINDS as REGISTERED
from equifactor.graph.kinds import kind_class, kind_name
from equifactor.graph.structured_factor import edge_state_ptr
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers import lower

pytestmark = pytest.mark.parametrize("kind", KINDS)
SEEDS = st.integers(0, 2**32 - 1)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
    np.testing.assert_allclose(np.where(np.isneginf(found), 0, found), np.where(np.isneginf(expected), 0, expected))


@given(seed=SEEDS)
def test_tables(kind: str, seed: int) -> None:
    rows = rows_of(np.random.default_rng(seed), kind)
    check_kinds(rows)
    cls = kind_class(int(rows.kind[0]))
    for n, table in enumerate(tables_of(rows)):
        same(cls.tables(rows.take(np.array([n])))[0], table)


@given(seed=SEEDS)
def test_the_object_of_a_row_gives_the_row(kind: str, seed: int) -> None:
    rows = rows_of(np.random.default_rng(seed), kind)
    for n in range(rows.num_factors):
        row = rows.take(np.array([n]))
        card = tuple(row.card.tolist())
        written = kind_class(int(row.kind[0])).of_row(card, row.log_values, row.words)
        values, words = written.row(card)
        np.testing.assert_allclose(values, row.log_values, rtol=1e-12, atol=1e-12)  # probabilities round
        np.testing.assert_array_equal(words, row.words)
        assert written == kind_class(int(row.kind[0])).of_row(card, row.log_values, row.words)


@given(seed=SEEDS)
def test_sliced(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, kind)
    states = np.where(rng.random(len(rows.card)) < 0.5, rng.integers(rows.card), -1)
    found = kind_class(int(rows.kind[0])).sliced(rows, states)
    check_kinds(found)
    for n, (table, fewer) in enumerate(zip(tables_of(rows), tables_of(found), strict=True)):
        own = slice(rows.scope_ptr[n], rows.scope_ptr[n + 1])
        expected = table[tuple(slice(None) if x < 0 else x for x in states[own])]
        free = rows.scope_vars[own][states[own] < 0].tolist()
        kept = found.scope_vars[found.scope_ptr[n] : found.scope_ptr[n + 1]].tolist()
        assert [i for i in free if i in kept] == kept  # variables that no longer matter may be left out
        missing = [free.index(i) for i in free if i not in kept]
        same(np.broadcast_to(np.expand_dims(fewer, tuple(missing)), expected.shape), expected)


@given(seed=SEEDS)
def test_unsupported(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, kind)
    first = edge_state_ptr(rows)
    possible = rng.random(int(first[-1])) < 0.7
    possible[first[:-1] + rng.integers(rows.card)] = True  # a variable without states is found elsewhere
    found = kind_class(int(rows.kind[0])).unsupported(rows, possible)
    for n, table in enumerate(tables_of(rows)):
        edges = range(rows.scope_ptr[n], rows.scope_ptr[n + 1])
        masks = [possible[first[e] : first[e + 1]] for e in edges]
        positive = table > -np.inf
        for j, e in enumerate(edges):
            others = positive
            for axis, mask in enumerate(masks):
                if axis != j:
                    shape = [-1 if axis == other else 1 for other in range(table.ndim)]
                    others = others & mask.reshape(shape)
            supported = others.any(axis=tuple(axis for axis in range(table.ndim) if axis != j))
            own = found[first[e] : first[e + 1]]
            np.testing.assert_array_equal(own[masks[j]], ~supported[masks[j]])


@given(seed=SEEDS)
def test_with_states_renumbered(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, kind)
    orders = [rng.permutation(d) for d in rows.card.tolist()]  # the new number of each state
    found = kind_class(int(rows.kind[0])).with_states(rows, np.concatenate(orders), rows.card)
    check_kinds(found)
    for n, (table, moved) in enumerate(zip(tables_of(rows), tables_of(found), strict=True)):
        own = orders[rows.scope_ptr[n] : rows.scope_ptr[n + 1]]
        same(moved[np.ix_(*own)], table)


@given(seed=SEEDS)
def test_with_states_struck_out(kind: str, seed: int) -> None:
    if kind in BINARY:
        return  # both states of a binary variable stay, or it is observed
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, kind)
    kept = [np.sort(rng.permutation(d)[: rng.integers(1, d + 1)]) for d in rows.card.tolist()]
    new = np.full(int(rows.card.sum()), -1)
    first = ptr_of(rows.card)
    for e, states in enumerate(kept):
        new[first[e] + states] = np.arange(len(states))
    card = np.array([len(states) for states in kept])
    found = kind_class(int(rows.kind[0])).with_states(rows, new, card)
    check_kinds(found)
    for n, (table, fewer) in enumerate(zip(tables_of(rows), tables_of(found), strict=True)):
        same(fewer, table[np.ix_(*kept[rows.scope_ptr[n] : rows.scope_ptr[n + 1]])])


@given(seed=SEEDS)
def test_with_slots(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, kind)
    orders = [rng.permutation(k) for k in rows.arity.tolist()]
    edge = np.concatenate([start + order for start, order in zip(rows.scope_ptr, orders, strict=False)])
    found = kind_class(int(rows.kind[0])).with_slots(rows, edge)
    check_kinds(found)
    np.testing.assert_array_equal(found.scope_vars, rows.scope_vars[edge])
    for table, moved, order in zip(tables_of(rows), tables_of(found), orders, strict=True):
        same(moved, table.transpose(order))


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_lowered_is_the_table(kind: str, semiring: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        card = (5, 4) if kind in ("potts", "truncated_linear") else (3,) * 5 if kind == "sparse" else (2,) * 7
        g = FactorGraph(card, [(range(len(card)), random_factor(rng, kind, card))])
        lowered = lower(g, semiring)
        total = np.zeros(lowered.graph.card)
        for a in range(lowered.graph.num_factors):
            scope = lowered.graph.structure.scope(a)
            table = lowered.graph.log_table(a).transpose(np.argsort(scope))
            shape = np.ones(total.ndim, int)
            shape[scope] = lowered.graph.card[scope]
            total = total + table.reshape(shape)
        flat = total.reshape(*card, -1)
        found = flat.max(axis=-1) if semiring == "max" else np.logaddexp.reduce(flat, axis=-1)
        expected = g.log_table(0)
        np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], expected[finite], atol=1e-12)


def test_every_kind_is_drawn(kind: str) -> None:
    drawn = {kind_name(int(rows_of(np.random.default_rng(0), name).kind[0])) for name in KINDS}
    assert drawn == {kind_name(n) for n in range(1, len(REGISTERED)) if kind_class(n).has_kernels}
