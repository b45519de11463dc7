from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.errors import ModelError, OptionError
from equifactor.generators import BurstyChannel, LdpcCode, ldpc, ldpc_transmissions
from equifactor.generators.parity_checks import null_space
from equifactor.testing import assert_same_graph


def four_cycles(code: LdpcCode) -> int:
    shared = code.parity.astype(int) @ code.parity.T
    np.fill_diagonal(shared, 0)
    return int((shared * (shared - 1) // 2).sum() // 2)


@pytest.mark.parametrize("size", [(4, 1), (6, 3), (12, 6), (20, 8), (20, 17), (96, 48), (120, 60)])
def test_regular_without_repeated_edges(size: tuple[int, int]) -> None:
    n, k = size
    code = LdpcCode.random(n, k, seed=3)
    assert code.parity.shape == (n - k, n)
    assert set(code.parity.sum(axis=0).tolist()) == {3}
    assert set(code.parity.sum(axis=1).tolist()) == {3 * n // (n - k)}
    assert code.n == n
    assert code.dimension >= k


@pytest.mark.parametrize("size", [(96, 48), (200, 100), (1000, 500)])
def test_long_codes_have_no_four_cycles(size: tuple[int, int]) -> None:
    assert four_cycles(LdpcCode.random(*size, seed=1)) == 0


@given(seed=st.integers(0, 1000), rows=st.integers(1, 6), cols=st.integers(1, 9))
def test_null_space_is_all_codewords(seed: int, rows: int, cols: int) -> None:
    parity = np.random.default_rng(seed).integers(2, size=(rows, cols)).astype(np.uint8)
    generator, free = null_space(parity)
    assert not (generator @ parity.T % 2).any()
    words = np.array(list(np.ndindex(*[2] * cols)))
    num_codewords = int((~(words @ parity.T % 2).any(axis=1)).sum())
    assert 2 ** len(generator) == num_codewords
    np.testing.assert_array_equal(generator[:, free], np.eye(len(free)))


def test_encoded_words_satisfy_every_check() -> None:
    code = LdpcCode.random(96, 48, seed=2)
    messages = np.random.default_rng(0).integers(2, size=(50, code.dimension))
    words = code.encode(messages)
    assert words.shape == (50, 96)
    assert not (words @ code.parity.T % 2).any()
    assert len(np.unique(words, axis=0)) == 50
    np.testing.assert_array_equal(code.encode(messages[3]), words[3])


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


class TestChannel:
    def test_noise_has_the_stated_strength(self) -> None:
        zeros = np.zeros((400, 500), int)
        rng = np.random.default_rng(0)
        plain = BurstyChannel(snr_db=6.0).transmit(zeros, rng) - 1.0
        assert plain.std() == pytest.approx(10 ** (-6 / 20), rel=0.01)
        channel = BurstyChannel(snr_db=6.0, burst_std=3.0, burst_probability=0.1)
        bursty = channel.transmit(zeros, rng) - 1.0
        assert bursty.var() == pytest.approx(channel.noise_std**2 + 0.1 * 9.0, rel=0.05)

    def test_log_likelihood_is_a_density(self) -> None:
        y = np.linspace(-40.0, 40.0, 80_001)
        for decoder in ("gaussian", "mixture"):
            channel = BurstyChannel(snr_db=2.0, burst_std=4.0, burst_probability=0.2, decoder=decoder)
            density = np.exp(channel.log_likelihood(y))
            np.testing.assert_allclose(density.sum(axis=0) * (y[1] - y[0]), 1.0, rtol=1e-6)

    def test_mixture_trusts_outliers_less(self) -> None:
        y = np.array([6.0])
        plain = BurstyChannel(burst_std=5.0).log_likelihood(y)[0]
        mixed = BurstyChannel(burst_std=5.0, decoder="mixture").log_likelihood(y)[0]
        assert 0 < mixed[0] - mixed[1] < plain[0] - plain[1]

    def test_always_or_never_a_burst(self) -> None:
        y = np.array([0.3])
        always = BurstyChannel(burst_std=3.0, burst_probability=1.0, decoder="mixture").log_likelihood(y)
        never = BurstyChannel(burst_std=3.0, burst_probability=0.0, decoder="mixture").log_likelihood(y)
        assert np.isfinite(always).all()
        np.testing.assert_array_equal(never, BurstyChannel().log_likelihood(y))


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"n": 3}, "n must be a whole number of at least 4, found 3"),
        ({"k": 0}, "k must be a whole number of at least 1, found 0"),
        ({"k": 24}, "gives n - k = 0"),
        ({"k": 30}, "gives n - k = -6"),
        ({"k": 13}, "n - k of at least 3 that divides 3n; n = 24, k = 13 gives n - k = 11"),
        ({"n": 99, "k": 96}, "checks over 99 bits, tables of 2^99 entries"),
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
    with pytest.raises(ModelError, match="a message has 6 bits"):
        code.encode(np.zeros(5, int))
    with pytest.raises(ModelError, match="each 0 or 1"):
        code.encode(np.full(code.dimension, 2))
    with pytest.raises(ModelError, match=r"received words need shape \[N, 12\], found \(12,\)"):
        code.graphs(np.zeros(12), BurstyChannel())
