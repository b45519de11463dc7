"""The bursty channel: its noise, and the likelihood that the receiver assumes."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.generators import BurstyChannel


def test_noise_has_the_stated_strength() -> None:
    zeros = np.zeros((400, 500), int)
    rng = np.random.default_rng(0)
    plain = BurstyChannel(snr_db=6.0).transmit(zeros, rng) - 1.0
    assert plain.std() == pytest.approx(10 ** (-6 / 20), rel=0.01)
    channel = BurstyChannel(snr_db=6.0, burst_std=3.0, burst_probability=0.1)
    bursty = channel.transmit(zeros, rng) - 1.0
    assert bursty.var() == pytest.approx(channel.noise_std**2 + 0.1 * 9.0, rel=0.05)


def test_log_likelihood_is_a_density() -> None:
    y = np.linspace(-40.0, 40.0, 80_001)
    for decoder in ("gaussian", "mixture"):
        channel = BurstyChannel(snr_db=2.0, burst_std=4.0, burst_probability=0.2, decoder=decoder)
        density = np.exp(channel.log_likelihood(y))
        np.testing.assert_allclose(density.sum(axis=0) * (y[1] - y[0]), 1.0, rtol=1e-6)


def test_mixture_trusts_outliers_less() -> None:
    y = np.array([6.0])
    plain = BurstyChannel(burst_std=5.0).log_likelihood(y)[0]
    mixed = BurstyChannel(burst_std=5.0, decoder="mixture").log_likelihood(y)[0]
    assert 0 < mixed[0] - mixed[1] < plain[0] - plain[1]


def test_always_or_never_a_burst() -> None:
    y = np.array([0.3])
    always = BurstyChannel(burst_std=3.0, burst_probability=1.0, decoder="mixture").log_likelihood(y)
    never = BurstyChannel(burst_std=3.0, burst_probability=0.0, decoder="mixture").log_likelihood(y)
    assert np.isfinite(always).all()
    np.testing.assert_array_equal(never, BurstyChannel().log_likelihood(y))
