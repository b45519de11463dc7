"""Drawn shots have the right probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import OptionError
from equifactor.decoding import Decoder, ErrorModel, ShotSampler


def test_errors_come_as_often_as_they_should() -> None:
    p = np.array([0.0, 0.001, 0.1, 0.5, 0.9, 1.0])
    model = ErrorModel.of_matrices(np.eye(6, dtype=int), p, np.tri(1, 6, 4, dtype=int))
    detectors, observables = ShotSampler(model, seed=1).sample(0, 20000)
    spread = np.sqrt(p * (1 - p) / 20000)
    assert (np.abs(detectors.mean(axis=0) - p) <= 4 * spread).all()
    assert (observables[:, 0] == detectors[:, :5].sum(axis=1) % 2).all()
    pairs = np.corrcoef(detectors[:, 1:5].T) - np.eye(4)
    assert np.abs(pairs).max() < 0.03


def test_a_shot_does_not_depend_on_how_many_are_drawn() -> None:
    model = ErrorModel.of_matrices(np.eye(5, dtype=int), 0.3, np.ones((1, 5), int))
    whole = ShotSampler(model, 3).sample(0, 3000)
    parts = ShotSampler(model, 3)
    for first, last in ((0, 10), (1000, 2100), (2999, 3000)):
        for a, b in zip(whole, parts.sample(first, last), strict=True):
            assert (a[first:last] == b).all()
    with pytest.raises(OptionError, match="seed"):
        ShotSampler(model, -1)


def test_the_rate_is_that_of_enumeration() -> None:
    decoder = Decoder([[1, 1, 0], [0, 1, 1]], 0.1, [[1, 0, 0]], method="min-sum")
    found = decoder.logical_error_rate(20000, seed=5)
    assert abs(found.rate - 0.028) < 4 * found.error
    assert "of 20000 shots" in str(found)
    never = Decoder([[1]], 0.1, [[1]], method="min-sum").logical_error_rate(1000)
    assert str(never).startswith("logical error rate below 0.003")


def slow_code() -> Decoder:
    """Return a decoder for which most shots take up to 2 iterations, and one in 60 takes all 40."""
    checks = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1, 0, 0, 0, 1, 1]])
    return Decoder(checks, 0.08, np.array([[1, 0, 1, 0, 1, 0]]), method="min-sum(iterations=40)")


def test_a_rate_that_is_stopped_counts_hard_shots_too(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shots are counted in the order in which they are drawn, and those that are undecided give a range."""
    monkeypatch.setattr("equifactor.decoding.lane_engine._WORK", 1)  # The clock is checked after every iteration.
    decoder = slow_code()
    whole = decoder.logical_error_rate(20000, seed=0)
    driven_time.tick = 1.0
    errors = shots = undecided = 0
    for seed in range(150):
        found = decoder.logical_error_rate(20000, seed=seed, time_limit=70.0, threads=1)  # threads share the clock
        assert found.shots < 2000
        full = decoder.logical_error_rate(found.shots, seed=seed)
        result, own = found.result, slice(found.shots)
        assert (result.decoded ^ result.undecided)[own].all()
        assert not (result.decoded | result.undecided)[found.shots :].any()
        assert result.undecided.sum() == found.undecided <= 16
        assert found.errors <= full.errors <= found.errors + found.undecided
        assert found.bounds[0] <= full.rate <= found.bounds[1] == found.rate
        same = np.where(result.decoded[own], full.result.iterations, 0)
        np.testing.assert_array_equal(result.iterations[own], same)
        assert not result.iterations[found.shots :].any()
        errors, shots, undecided = errors + found.errors, shots + found.shots, undecided + found.undecided
    low, high = errors / shots, (errors + undecided) / shots
    noise = 4 * np.hypot(whole.error, np.sqrt(high * (1 - high) / shots))
    assert low - noise < whole.rate < high + noise


def test_shots_in_flight_do_not_exceed_the_time_limit(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.decoding.lane_engine._WORK", 1)
    checks = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1, 0, 0, 0, 1, 1]])
    # No shot ends before 10^6 iterations, or 10^6 seconds, unless it has no errors.
    method = "min-sum(iterations=1000000, scale=1e-9)"
    decoder = Decoder(checks, 0.3, np.array([[1, 0, 1, 0, 1, 0]]), method=method)
    driven_time.tick = 0.1
    begin = driven_time.seconds
    found = decoder.logical_error_rate(1000, time_limit=20.0)
    assert driven_time.seconds - begin < 1.1 * 20.0 + 1.0 + 20 * driven_time.tick
    assert 0 < found.undecided == found.result.undecided.sum()
    assert found.rate == (found.errors + found.undecided) / found.shots
    assert f"and {found.undecided} were undecided at the time limit" in str(found)
    assert f"{found.undecided} undecided" in repr(found.result)
    assert not found.result.converged[found.result.undecided].any()


def test_seconds_do_not_include_loading_kernels(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = slow_code()
    prepare = decoder.engine.prepare

    def load(store: object) -> None:
        prepare(store)  # type: ignore[arg-type]
        driven_time.advance(60.0)

    monkeypatch.setattr(decoder.engine, "prepare", load)
    driven_time.tick = 0.001
    result = decoder.decode([[1, 0, 0]], time_limit=100.0)
    assert 0.0 < result.seconds < 1.0
    assert result.decoded.all()
    assert not decoder.decode([[1, 0, 0]], time_limit=10.0).decoded.any()  # the time limit includes it
