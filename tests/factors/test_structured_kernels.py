"""Messages through factors of every kind against messages through the table of the same factor."""

import numpy as np
import pytest
from random_factors import KINDS, random_factor

import equifactor as ef
from equifactor.factors.structured_kernels import (
    kind_rows_of,
    structured_maximum,
    structured_messages,
    structured_reduction,
    update_structured,
)
from equifactor.factors.table_ranges import structured_ranges
from equifactor.graph.layout import layout_of


def table_messages(table, q, is_max):
    """Return the outgoing messages of a log table, one array per axis, and the reduction of all."""
    reduce = np.max if is_max else np.logaddexp.reduce
    sent = []
    for j in range(table.ndim):
        joint = table
        for i in range(table.ndim):
            if i != j:
                joint = joint + q[i].reshape([-1 if a == i else 1 for a in range(table.ndim)])
        sent.append(reduce(np.moveaxis(joint, j, 0).reshape(table.shape[j], -1), axis=1))
    return sent, reduce(sent[0] + q[0])


def incoming(rng, card, width):
    """Return one log message per variable; some messages have zeros, and a few have only zeros."""
    q = [rng.normal(size=d) * width for d in card]
    for values in q:
        values[rng.random(len(values)) < rng.choice([0.0, 0.3])] = -np.inf
    return q


def agree(one, two, width):
    """Return whether both are equal up to the rounding of the input, with the same zeros."""
    one, two = np.asarray(one), np.asarray(two)
    assert np.array_equal(np.isneginf(one), np.isneginf(two))
    possible = ~np.isneginf(one)
    np.testing.assert_allclose(one[possible], two[possible], rtol=0, atol=1e-11 * max(1.0, width))


def one_factor(rng, kind):
    while True:
        if kind in ("potts", "truncated_linear", "sparse"):
            card = tuple(rng.integers(1, 6, 2 if kind != "sparse" else rng.integers(2, 5)).tolist())
        else:
            card = (2,) * int(rng.integers(2, 8))
        factor = random_factor(rng, kind, card)
        if isinstance(factor, ef.factors.StructuredFactor):
            graph = ef.FactorGraph(list(card), [(range(len(card)), factor)])
            if graph.structure.kinds is not None:
                return card, graph


def trials(seed, kind, is_max, count):
    """Yield the tables of random factors, the first arguments of kernels, incoming messages and their width."""
    rng = np.random.default_rng(seed)
    for trial in range(count):
        card, graph = one_factor(rng, kind)
        flat = ef.solvers.compile(graph)
        layout, rows = layout_of(flat), kind_rows_of(flat, is_max)
        width = (0.3, 1.0, 30.0, 1000.0, 1e4)[trial % 5]
        factor = layout.factors, layout.slots, flat.log_phi, rows, 0
        yield graph.log_table(0), factor, incoming(rng, card, width), width


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_max", [False, True])
def test_messages_are_those_of_the_table(kind, is_max):
    with np.errstate(divide="ignore"):
        for table, factor, q, width in trials(0, kind, is_max, 150):
            sent, total = table_messages(table, q, is_max)
            values = np.concatenate(q)
            out = np.full_like(values, np.nan)
            args = *factor, values, out
            structured_messages(*args)
            agree(out, np.concatenate(sent), width)
            chosen = np.full(len(q), -1)
            agree(structured_reduction(*args, chosen, is_max), total, width)
            if is_max and total > -np.inf:
                structured_maximum(*args, chosen)
                score = table[tuple(chosen)] + sum(m[x] for m, x in zip(q, chosen, strict=True))
                agree(score, total, width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_max", [False, True])
def test_updates_are_normalised_messages_of_the_table(kind, is_max):
    with np.errstate(divide="ignore"):
        for table, factor, q, width in trials(1, kind, is_max, 100):
            sent, _ = table_messages(table, q, is_max)
            scales = [np.max(m) if is_max else np.logaddexp.reduce(m) for m in sent]
            sent = [m - s if s > -np.inf else m for m, s in zip(sent, scales, strict=True)]
            values = np.concatenate(q)
            zeros = np.isneginf(values)
            out = np.full_like(values, np.nan)
            update_structured(
                *factor, np.zeros_like(values), np.where(zeros, 0.0, values), zeros.astype(np.int64),
                np.empty_like(values), out, is_max,
            )  # fmt: skip
            agree(out, np.concatenate(sent), width)


def test_the_best_causes_of_a_long_noisy_or_are_found():
    rng = np.random.default_rng(2)
    for trial in range(12):
        arity = 13
        factor = ef.NoisyOr(rng.choice([0.0, 0.01]), rng.random(arity - 1) ** 0.1)
        graph = ef.FactorGraph([2] * arity, [(range(arity), factor)])
        flat = ef.solvers.compile(graph)
        layout, rows = layout_of(flat), kind_rows_of(flat, True)
        rare = rng.random(arity) * rng.choice([0.1, 1.0, 5.0])
        q = [np.array([0.0, -v]) for v in rare]  # being active costs every cause something
        q[0] = np.array([-5.0 * trial, 0.0])
        sent, total = table_messages(graph.log_table(0), q, True)
        values = np.concatenate(q)
        out, chosen = np.empty_like(values), np.empty(arity, np.int64)
        args = layout.factors, layout.slots, flat.log_phi, rows, 0, values, out
        structured_messages(*args)
        agree(out, np.concatenate(sent), 1.0)
        agree(structured_maximum(*args, chosen), total, 1.0)


def test_ranges_are_those_of_the_tables_or_wider():
    rng = np.random.default_rng(3)
    for kind in KINDS:
        for _ in range(30):
            _, graph = one_factor(rng, kind)
            flat = ef.solvers.compile(graph)
            table = graph.log_table(0)
            finite = table[table > -np.inf]
            wanted = float(np.ptp(finite)) if finite.size else 0.0
            found = structured_ranges(flat, flat.structured[0])[0]
            assert wanted - 1e-12 <= found < np.inf
