"""The likeliest errors, proven."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor.base.errors import OptionError
from equifactor.decoding import Decoder, bicycle_code


def test_it_finds_what_enumeration_finds() -> None:
    rng = np.random.default_rng(4)
    H = rng.integers(2, size=(5, 10))
    H[0, :] |= H.sum(axis=0) == 0
    H = np.unique(H, axis=1)
    p = rng.uniform(0.02, 0.3, H.shape[1])
    errors = np.array(list(itertools.product((0, 1), repeat=H.shape[1])))
    weights, shots_of = errors @ np.log((1 - p) / p), (errors @ H.T) % 2
    shots = np.unique(shots_of, axis=0)[::3]
    best = [weights[(shots_of == s).all(axis=1)].min() for s in shots]
    L = rng.integers(2, size=(2, H.shape[1]))
    result = Decoder(H, p, L, method="optimal").decode(shots, corrections=True)
    assert result.proven is not None
    assert result.proven.all()
    np.testing.assert_allclose(result.weight, best, rtol=1e-4, atol=1e-4)
    assert result.corrections is not None
    assert ((result.corrections @ H.T) % 2 == shots).all()
    assert "100.00% proven" in repr(result)
    assert result.gap is not None
    flips_of = errors @ L.T % 2
    large = 0
    for n, shot in enumerate(shots):  # The gap is that of errors that were found, or less if few legs met the syndrome.
        same = (shots_of == shot).all(axis=1)
        other = weights[same & (flips_of != result.flips[n]).any(axis=1)].min()
        large += result.gap[n] > other - best[n] - 1e-3
    assert large > 0.8 * len(shots)


def test_the_bicycle_codes() -> None:
    for name, bits, logicals in (("bb72", 72, 12), ("bb90", 90, 8), ("bb108", 108, 8), ("bb144", 144, 12)):
        model = bicycle_code(name, 0.01)
        assert (model.num_errors, model.num_observables) == (bits, logicals)
    with pytest.raises(OptionError, match="did you mean bb144"):
        bicycle_code("bb145", 0.01)


@pytest.mark.slow
def test_most_shots_of_a_code_are_proven() -> None:
    found = Decoder(bicycle_code("bb144", 0.05), method="optimal").logical_error_rate(200, seed=1)
    assert found.result.proven is not None
    assert found.result.proven.mean() > 0.8
    assert found.rate < 0.08
