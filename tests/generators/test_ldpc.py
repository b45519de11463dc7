"""Codes, transmissions and decoding problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equifactor import FactorGraph, Parity, solve
from equifactor.base.errors import ModelError, OptionError
from equifactor.generators import BurstyChannel, LdpcCode, ldpc, ldpc_transmissions
from equifactor.solvers import lower
from equifactor.testing import assert_same_graph


def test_encoded_words_satisfy_every_check() -> None:
    code = LdpcCode.random(96, 48, seed=2)
    messages = np.random.default_rng(0).integers(2, size=(50, code.dimension))
    words = code.encode(messages)
    assert words.shape == (50, 96)
    assert not (words @ code.parity.T % 2).any()
    assert len(np.unique(words, axis=0)) == 50
    np.testing.assert_array_equal(code.encode(messages[3]), words[3])
    np.testing.assert_array_equal(words[:, code.message_bits], messages)


def test_codewords_and_only_they_have_positive_probability() -> None:
    code = LdpcCode.random(12, 6, seed=1)
    channel = BurstyChannel(snr_db=1.0)
    received = np.random.default_rng(0).normal(size=(1, 12))
    (graph,) = code.graphs(received, channel)
    words = np.array(list(np.ndindex(*[2] * 12)))
    scores = graph.log_score(words)
    valid = ~(words @ code.parity.T % 2).any(axis=1)
    np.testing.assert_array_equal(np.isfinite(scores), valid)
    likelihood = channel.log_likelihood(received[0])
    expected = likelihood[np.arange(12), words[valid]].sum(axis=1)
    np.testing.assert_allclose(scores[valid], expected)


@pytest.mark.parametrize(
    "rows",
    [
        [[0, 1], [2, 3, 4, 5]],  # was read as checks {0, 1, 2} and {3, 4, 5}
        [[0, 1, 2], [2], [2, 3, 4, 5]],
        [[4, 0], [1, 2, 3], [0, 1, 2, 3, 4, 5, 6]],
    ],
)
@pytest.mark.parametrize("kind", [list, np.uint8, bool, float])
def test_checks_of_unequal_size(rows: list[list[int]], kind: type) -> None:
    n = max(map(max, rows)) + 1
    parity = np.zeros((len(rows), n), int)
    for check, bits in enumerate(rows):
        parity[check, bits] = 1
    code = LdpcCode(parity.tolist() if kind is list else parity.astype(kind))
    channel = BurstyChannel(snr_db=1.0)
    received = np.random.default_rng(0).normal(size=(2, n))
    words = np.array(list(np.ndindex(*[2] * n)))
    valid = ~(words @ parity.T % 2).any(axis=1)
    likelihood = channel.log_likelihood(received)
    for graph, say in zip(code.graphs(received, channel), likelihood, strict=True):
        scores = graph.log_score(words)
        np.testing.assert_array_equal(np.isfinite(scores), valid)
        np.testing.assert_allclose(scores[valid], say[np.arange(n), words[valid]].sum(axis=1))
    messages = np.array(list(np.ndindex(*[2] * code.dimension)))
    assert {tuple(w) for w in code.encode(messages)} == {tuple(w) for w in words[valid]}
    assert [code.structure.scope(n + c).tolist() for c in range(len(rows))] == [sorted(bits) for bits in rows]


def test_random_irregular_codes_against_enumeration() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        n, m = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        parity = rng.integers(2, size=(m, n))
        parity[:, 0] = 1  # no check is empty
        parity[0] = 1  # no bit is free
        (graph,) = LdpcCode(parity).graphs(rng.normal(size=(1, n)), BurstyChannel())
        words = np.array(list(np.ndindex(*[2] * n)))
        np.testing.assert_array_equal(np.isfinite(graph.log_score(words)), ~(words @ parity.T % 2).any(axis=1))


@pytest.mark.parametrize(
    ("parity", "sentence"),
    [
        ([1, 1, 0], r"one row per check and one column per bit. Found an array of shape \(3,\)"),
        (np.zeros((0, 4)), r"Found an array of shape \(0, 4\)"),
        ([[1, 1], [1]], "not a matrix of zeros and ones: its rows have different lengths"),
        ([["1", "0"]], "not a matrix of zeros and ones: it holds text"),
        (None, "not a matrix of zeros and ones: it holds None"),
        ([[1, 1, 0], [0, 2, 1]], r"Check 1 has 2 at bit 1. Parity checks are zeros and ones"),
        ([[1, float("nan")]], "Check 0 has nan at bit 1"),
        ([[1, -1]], "Check 0 has -1 at bit 1"),
        ([[1, 1], [0, 0]], "Check 1 has no bits"),
        ([[1, 0, 1], [1, 0, 0]], "Bit 1 is not in any check"),
    ],
)
def test_refuses_parity(parity: Any, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        LdpcCode(parity)


def test_parity_is_its_own() -> None:
    parity = np.ones((1, 3), np.uint8)
    code = LdpcCode(parity)
    parity[0, 1] = 0
    assert code.parity.tolist() == [[1, 1, 1]]
    assert not code.parity.flags.writeable


def test_checks_of_any_size_are_parities() -> None:
    g = ldpc(99, 96)
    assert [g.factor(99 + c) for c in range(3)] == [Parity()] * 3
    assert g.structure.arity[99:].tolist() == [99] * 3
    bits = LdpcCode(np.ones((1, 1000))).structure
    assert (bits.num_entries, bits.num_edges) == (2002, 2000)


def test_lowered_checks_are_the_tables_that_codes_had() -> None:
    g = lower(ldpc(24, 12, burst_std=2.0, seed=3)).graph
    even = np.where(np.bitwise_count(np.arange(64)) % 2 == 0, 0.0, -np.inf).reshape([2] * 6)
    likelihoods = [g.log_table(a) for a in range(24)]
    scopes = [g.structure.scope(a).tolist() for a in range(36)]
    tables = FactorGraph([2] * 24, list(zip(scopes, likelihoods + [even] * 12, strict=True)), log=True)
    assert g == tables
    for task in ("MAR", "PR", "MAP"):
        ours, theirs = solve(ldpc(24, 12, burst_std=2.0, seed=3), task, "exact"), solve(tables, task, "exact")
        number = "log_score" if task == "MAP" else "log_z"
        assert getattr(ours, number) == getattr(theirs, number)
        if task == "MAR":
            np.testing.assert_array_equal(ours.marginals.values, theirs.marginals.values)


def test_a_long_code_needs_no_matrix() -> None:
    code = LdpcCode.random(30_000, 15_000, seed=1)
    assert np.bincount(code.bits).tolist() == [3] * 30_000
    assert code.structure.num_entries == 2 * 45_000


def test_what_was_sent_is_known_and_decodes_without_noise() -> None:
    sent = ldpc_transmissions(96, 48, channel=BurstyChannel(snr_db=40.0), codeword="random", count=5, seed=4)
    assert sent.codewords.shape == sent.received.shape == (5, 96)
    assert sent.codewords.any()
    np.testing.assert_array_equal((sent.received < 0).astype(int), sent.codewords)
    for graph, word in zip(sent.graphs, sent.codewords, strict=True):
        assert np.isfinite(graph.log_score(word))
        hard_bits = graph.log_phi[: 2 * 96].reshape(96, 2).argmax(axis=1)
        np.testing.assert_array_equal(hard_bits, word)


def test_one_many_and_prefix() -> None:
    many = ldpc(24, 12, burst_std=2.0, codeword="random", count=4, seed=7)
    assert len({id(g.structure) for g in many}) == 1
    assert_same_graph(ldpc(24, 12, burst_std=2.0, codeword="random", seed=7), many[0])
    for g, h in zip(many, ldpc(24, 12, burst_std=2.0, codeword="random", count=2, seed=7), strict=False):
        assert_same_graph(g, h)
    sent = ldpc_transmissions(24, 12, channel=BurstyChannel(burst_std=2.0), codeword="random", count=4, seed=7)
    assert_same_graph(sent.graphs[3], many[3])
    assert not ldpc_transmissions(24, 12, channel=BurstyChannel()).codewords.any()


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"n": 3}, "n must be a whole number of at least 4, found 3"),
        ({"k": 0}, "k must be a whole number of at least 1, found 0"),
        ({"k": 24}, "n - k is 0"),
        ({"k": 30}, "n - k is -6"),
        ({"k": 13}, "n - k must be at least 3 and divide 3n. With n = 24 and k = 13, n - k is 11"),
        ({"snr_db": float("inf")}, "snr_db must be a number of at least -100 and at most 100, found inf"),
        ({"burst_std": -1.0}, "burst_std must be a number of at least 0, found -1.0"),
        ({"burst_probability": 2.0}, "burst_probability must be a number of at least 0 and at most 1"),
        ({"decoder": "magic"}, "decoder must be one of gaussian, mixture, found 'magic'"),
        ({"codeword": "one"}, "codeword must be one of zero, random, found 'one'"),
        ({"count": 0}, "count must be a whole number of at least 1, found 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, found -1"),
        ({"count": 10**9}, "at most 2^30"),
    ],
)
def test_refuses(options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        ldpc(**{"n": 24, "k": 12, **options})
    assert fragment in str(error.value)


def test_refuses_words_of_the_wrong_length() -> None:
    code = LdpcCode.random(12, 6)
    with pytest.raises(ModelError, match="A message must have 6 bits"):
        code.encode(np.zeros(5, int))
    with pytest.raises(ModelError, match="each 0 or 1"):
        code.encode(np.full(code.dimension, 2))
    with pytest.raises(ModelError, match=r"Received words must have shape \[N, 12\], found \(12,\)"):
        code.graphs(np.zeros(12), BurstyChannel())
