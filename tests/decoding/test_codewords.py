"""Words over noisy channels."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding import BinarySymmetricChannel, ErasureChannel, WordDecoder, word_error_rates
from equifactor.show.plot import plot_error_rates


@functools.cache
def code() -> ef.generators.LdpcCode:
    """Return a random code of 24 bits."""
    return ef.generators.LdpcCode.random(24, 12, seed=1)


def test_likeliest_word_on_a_tree() -> None:
    parity = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    ratios = np.random.default_rng(1).normal(0.5, 2.0, (200, 5))
    words = np.array([w for w in itertools.product((0, 1), repeat=5) if not (parity @ w % 2).any()])
    result = WordDecoder(parity, "min-sum").decode(ratios)
    best = words[np.argmin(ratios @ words.T, axis=1)]
    assert result.converged.all()
    assert (result.corrections == best).all()


@pytest.mark.parametrize("arity", [2, 40, 150])
def test_one_check_of_many_bits(arity: int) -> None:
    p = np.random.default_rng(arity).uniform(0.0, 1.0, (50, arity)) ** 6
    others = np.stack([np.prod(np.delete(1 - 2 * p, i, axis=1), axis=1) for i in range(arity)], axis=1)
    odds = np.log(p / (1 - p) * (1 - others) / (1 + others))
    found = WordDecoder(np.ones((1, arity), int), "sum-product(iterations=1)").decode(np.log((1 - p) / p))
    clear = (np.abs(odds) > 1e-3) & (found.iterations > 0)[:, None]  # without the words that the channel alone decodes
    assert (found.corrections == (odds > 0))[clear].all()
    assert clear.mean() > 0.1


def test_bits_in_the_same_checks_and_in_none() -> None:
    decoder = WordDecoder([[1, 1, 0]])
    found = decoder.decode([[3.0, -1.0, -2.0], [-3.0, 1.0, np.inf]])
    assert found.corrections is not None
    assert found.corrections.tolist() == [[0, 0, 1], [1, 1, 0]]
    with pytest.raises(ModelError, match=r"log_ratios must be numbers in an array \[N, 3\]"):
        decoder.decode([[1.0]])


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (BinarySymmetricChannel(flip=0.01), BinarySymmetricChannel(flip=0.2)),
        (ErasureChannel(loss=0.1), ErasureChannel(loss=0.7)),
        (ef.generators.BurstyChannel(snr_db=6.0), ef.generators.BurstyChannel(snr_db=0.0, burst_std=3.0)),
    ],
)
def test_rates_grow_with_the_noise(good: object, bad: object) -> None:
    rows = list(word_error_rates(code(), [good, bad], ["sum-product", "min-sum"], words=300))  # type: ignore[list-item]
    assert [row.method for row in rows] == ["sum-product", "min-sum"] * 2
    assert rows[0].word_error_rate < 0.1 < 0.3 < rows[2].word_error_rate
    assert all(row.bit_error_rate <= row.word_error_rate for row in rows)
    assert rows[2].error == pytest.approx(np.sqrt(rows[2].word_error_rate * (1 - rows[2].word_error_rate) / 300))


def test_nothing_lost_is_nothing_wrong() -> None:
    for channel in (ErasureChannel(loss=0.0), BinarySymmetricChannel(flip=0.0)):
        assert next(word_error_rates(code(), [channel], words=50)).word_errors == 0
    with pytest.raises(OptionError):
        ErasureChannel(loss=2.0)


def test_the_picture() -> None:
    pytest.importorskip("matplotlib")
    ax = plot_error_rates({"bp": [(1.0, 100, 20), (2.0, 100, 0)], "osd": [(1.0, 100, 10)]}, x="SNR", log_x=True)
    assert ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bp", "osd"]
    with pytest.raises(ModelError, match="no error rates to draw"):
        plot_error_rates({})
