"""Shots that are drawn have the right probabilities."""

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
