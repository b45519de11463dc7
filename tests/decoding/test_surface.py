"""Rotated surface codes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor.base.errors import OptionError
from equifactor.decoding import Decoder, ErrorModel, surface_code
from equifactor.generators.parity_checks import null_space


def matrices(model: ErrorModel) -> tuple[np.ndarray, np.ndarray]:
    found = np.zeros((2, model.num_detectors + 1, model.num_errors), np.uint8)
    for out, ptr, targets in (
        (found[0], model.detector_ptr, model.detectors),
        (found[1], model.observable_ptr, model.observables),
    ):
        out[targets, np.repeat(np.arange(model.num_errors), np.diff(ptr))] = 1
    return found[0, :-1], found[1, 0]


def test_three_errors_are_the_fewest_that_no_check_sees() -> None:
    checks, observable = matrices(surface_code(3, 0.1))
    errors = np.array(list(itertools.product((0, 1), repeat=9)))
    unseen = errors[~(errors @ checks.T % 2).any(axis=1)]
    wrong = unseen[unseen @ observable % 2 == 1]
    assert wrong.sum(axis=1).min() == 3


@pytest.mark.parametrize("distance", [3, 5, 7])
def test_the_numbers_of_qubits_and_checks(distance: int) -> None:
    checks, observable = matrices(surface_code(distance, 0.1))
    assert checks.shape == ((distance**2 - 1) // 2, distance**2)
    assert len(null_space(checks)[0]) == (distance**2 + 1) // 2  # The checks are independent.
    assert observable.sum() == distance
    assert set(checks.sum(axis=1).tolist()) == {2, 4}


def test_larger_codes_are_better_below_the_threshold_and_worse_above() -> None:
    low, high = (
        [Decoder(surface_code(d, p), "relay").logical_error_rate(2000, seed=1).rate for d in (3, 7)]
        for p in (0.04, 0.16)
    )
    assert low[1] < 0.5 * low[0]
    assert high[1] > 1.1 * high[0]
    for wrong in (4, 1):
        with pytest.raises(OptionError):
            surface_code(wrong, 0.1)
