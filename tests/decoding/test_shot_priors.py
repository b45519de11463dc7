"""Priors and erasures that differ from shot to shot."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import ModelError
from equifactor.decoding import Decoder, ErrorModel, ShotSampler, WordDecoder, surface_code


@pytest.mark.parametrize("method", ["relay", "pooled", "bp-osd"])
def test_priors_of_a_shot_are_those_of_a_model_with_these_priors(method: str) -> None:
    rng = np.random.default_rng(1)
    one = surface_code(5, 0.1)
    H, L = np.zeros((12, 25), int), np.zeros((1, 25), int)
    H[one.detectors, np.repeat(np.arange(25), np.diff(one.detector_ptr))] = 1
    L[0, np.repeat(np.arange(25), np.diff(one.observable_ptr))] = 1
    H, L = np.hstack((H, H[:, :5])), np.hstack((L, L[:, :5]))  # Five errors are there twice and are merged.
    priors = rng.uniform(0.01, 0.3, (6, 30))
    priors[0, 3] = 0.8
    shots = rng.integers(2, size=(6, 12))
    result = Decoder(H, 0.1, L, method=method).decode(shots, priors=priors)
    for n in range(6):
        alone = Decoder(H, priors[n], L, method=method).decode(shots[[n]])
        assert result.flips[n] == alone.flips[0]
        np.testing.assert_allclose(result.weight[n], alone.weight[0], rtol=1e-5)
    shared = Decoder(H, 0.1, L, method=method).decode(shots, priors=priors[0])
    assert shared.weight[0] == pytest.approx(result.weight[0], rel=1e-6)


def test_erased_errors_are_free() -> None:
    decoder = Decoder([[1, 1, 0], [0, 1, 1]], [0.01, 0.02, 0.01], [[1, 0, 0]])
    shots = [[1, 1], [1, 1]]
    erasures = [[False, False, False], [True, False, True]]
    result = decoder.decode(shots, erasures=erasures)
    assert result.flips.ravel().tolist() == [False, True]
    assert result.weight == pytest.approx([np.log(0.98 / 0.02), 0.0], abs=1e-5)


def test_wrong_priors_are_refused() -> None:
    decoder = Decoder(ErrorModel.of_matrices([[1, 1, 1]], [0.1, 0.2, 0.0]))
    with pytest.raises(ModelError, match=r"must have the shape \[3\] or \[2, 3\]"):
        decoder.decode([[0], [1]], priors=[0.1, 0.1])
    with pytest.raises(ModelError, match="Error 2 has probability 0 in the model"):
        decoder.decode([[0], [1]], erasures=[False, False, True])
    with pytest.raises(ModelError, match="from 0 to 1"):
        decoder.decode([[0]], priors=[0.1, np.nan, 0.0])
    with pytest.raises(ModelError, match="truth values"):
        decoder.decode([[0]], erasures=[0, 2, 0])


@pytest.mark.parametrize("method", ["optimal", "pooled", "relay"])
def test_errors_that_are_certain_in_a_shot_explain_what_those_of_a_model_explain(method: str) -> None:
    H, L = [[1, 1, 0, 1, 1], [0, 1, 1, 0, 1]], [[1, 0, 0, 0, 1]]
    rng = np.random.default_rng(5)
    shots = rng.integers(2, size=(24, 2))
    priors = rng.choice([0.0, 1.0, 1e-9, 0.2, 0.6], size=(24, 5), p=[0.4, 0.2, 0.1, 0.2, 0.1])
    priors = np.where(priors == 0.2, rng.uniform(0.1, 0.3, (24, 5)), priors)  # so that no two sets are equally likely
    result = Decoder(H, 0.1, L, method=method).decode(shots, priors=priors, corrections=True)
    for n in range(24):
        alone = Decoder(H, priors[n], L, method=method).decode(shots[[n]], corrections=True)
        assert result.converged[n] == alone.converged[0]
        if result.proven is not None:
            assert result.proven[n] == alone.proven[0]
        if alone.converged[0]:
            np.testing.assert_allclose(result.weight[n], alone.weight[0], atol=1e-3)
            possible = np.where(result.corrections[n], priors[n], 1.0 - priors[n])
            assert possible.min() > 0.0
            assert result.flips[n] == alone.flips[0]
    assert 4 < result.converged.sum() < 22


def test_a_word_that_contradicts_known_bits_does_not_converge() -> None:
    decoder = WordDecoder([[1, 1, 0], [0, 1, 1]], "relay")
    result = decoder.decode([[np.inf, -np.inf, -3.0], [np.inf, -2.0, -3.0], [1e5, 1e5, -1e5], [-np.inf, 2.0, 3.0]])
    assert result.converged.tolist() == [False, True, True, True]
    assert result.corrections[1:].tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
    assert result.weight[3] == pytest.approx(5.0)


def test_the_errors_found_are_the_likeliest_of_the_shot() -> None:
    H, L = [[1, 1, 0]], [[1, 1, 1]]
    decoder = Decoder(H, [0.2, 0.1, 0.1], L, method="pooled")
    result = decoder.decode([[1], [0]], priors=[[0.0, 0.3, 1.0], [0.1, 0.3, 0.2]], corrections=True)
    assert result.corrections is not None
    assert result.corrections.tolist() == [[0, 1, 1], [0, 0, 0]]
    assert result.flips.ravel().tolist() == [False, False]  # Error 2 flips no detector, and is certain in shot 0.
    assert decoder.decode([[0]], priors=[0.1, 0.3, 0.9]).flips.tolist() == [[True]]


def test_search_does_the_same_for_one_shot_and_for_many() -> None:
    model = surface_code(7, 0.1)
    priors = np.random.default_rng(0).uniform(0.01, 0.4, (4, model.num_errors))
    shots = ShotSampler(model, 0).sample(0, 4)[0]
    decoder = Decoder(model, "search(doubt=1e9,beam=20)")
    result = decoder.decode(shots, priors=priors)
    for n in range(4):
        assert decoder.decode(shots[[n]], priors=priors[[n]]).iterations[0] == result.iterations[n]
