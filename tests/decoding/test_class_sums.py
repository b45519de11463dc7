"""Exact sums over all sets of errors that flip the same observables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor.base.errors import OptionError
from equifactor.decoding import Decoder, ErrorModel, ShotSampler, bicycle_code, surface_code


def summed(model: ErrorModel) -> np.ndarray:
    """Return the probability [2^D, 2^L] of every shot and flip, error by error."""
    D, L = model.num_detectors, model.num_observables
    p = np.zeros(2 ** (D + L))
    p[0] = 1.0
    places = np.arange(len(p))
    for e in range(model.num_errors):
        mask = sum(1 << int(d) for d in model.detectors[model.detector_ptr[e] : model.detector_ptr[e + 1]])
        mask += sum(1 << int(D + o) for o in model.observables[model.observable_ptr[e] : model.observable_ptr[e + 1]])
        p = (1 - model.priors[e]) * p + model.priors[e] * p[places ^ mask]
    return p.reshape(2**L, 2**D).T


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    H, L = (rng.random((6, 20)) < 0.3).astype(int), (rng.random((2, 20)) < 0.4).astype(int)
    H[:, :2] = 0  # Errors that flip no detector count as well.
    model = ErrorModel.of_matrices(H, rng.uniform(0.01, 0.7, 20), L).merged()[0]
    p = summed(model)
    shots = np.array(list(itertools.product((0, 1), repeat=6)))[:, ::-1]
    result = Decoder(model, "class").decode(shots)
    ordered = np.sort(p, axis=1)
    assert result.gap is not None
    np.testing.assert_array_equal(result.converged, ordered[:, -1] > 0.0)
    seen = ordered[:, -2] > 0.0
    np.testing.assert_allclose(result.gap[seen], np.log(ordered[seen, -1] / ordered[seen, -2]), atol=1e-6)
    np.testing.assert_array_equal(result.flips @ [1, 2], p.argmax(axis=1) * result.converged)
    nothing = np.log1p(-model.priors).sum()
    np.testing.assert_allclose(result.weight[seen], nothing - np.log(ordered[seen, -1]), atol=1e-5)


def test_a_surface_code_of_distance_3() -> None:
    model = surface_code(3, 0.12)
    p = summed(model)
    shots, flips = ShotSampler(model, 1).sample(0, 3000)
    place = shots @ (1 << np.arange(model.num_detectors))
    result = Decoder(model, "class").decode(shots)
    np.testing.assert_array_equal(result.flips[:, 0], p[place, 1] > p[place, 0])
    np.testing.assert_allclose(result.failure, p[place].min(axis=1) / p[place].sum(axis=1), atol=1e-9)
    assert abs(result.errors(flips).mean() - result.failure.mean()) < 0.02
    optimal = Decoder(model, "optimal(seconds=0)").decode(shots)
    assert result.errors(flips).sum() <= optimal.errors(flips).sum() + 5


def test_priors_of_their_own() -> None:
    model = surface_code(3, 0.1)
    priors = np.random.default_rng(1).uniform(0.01, 0.4, (20, model.num_errors))
    shots = ShotSampler(model, 2).sample(0, 20)[0]
    result = Decoder(model, "class").decode(shots, priors=priors)
    for n in range(20):
        own = Decoder(ErrorModel.of_edges(
            (model.num_detectors, 1), priors[n],
            (np.repeat(np.arange(model.num_errors), np.diff(model.detector_ptr)), model.detectors),
            (np.repeat(np.arange(model.num_errors), np.diff(model.observable_ptr)), model.observables),
        ), "class").decode(shots[n : n + 1])  # fmt: skip
        assert own.stated_gaps()[0] == pytest.approx(result.stated_gaps()[n], abs=1e-4)
    alone = Decoder(model, "class").decode(shots[:1], priors=priors[:1])
    assert alone.stated_gaps()[0] == pytest.approx(result.stated_gaps()[0], abs=1e-6)


def test_errors_that_are_certain_in_a_shot() -> None:
    result = Decoder([[1, 1, 0]], 0.1, [[1, 0, 1]], "class").decode([[1], [0]], priors=[[0, 1, 0.3], [1, 0.2, 0.3]])
    assert result.converged.tolist() == [True, True]
    assert result.flips.ravel().tolist() == [False, True]
    np.testing.assert_allclose(result.failure, 0.3, atol=1e-6)
    np.testing.assert_allclose(result.weight, [-np.log(0.7 / 0.7), -np.log(0.2 * 0.7 / (0.8 * 0.7))], atol=1e-5)


def test_a_code_without_open_errors() -> None:
    result = Decoder([[1, 0]], [1.0, 0.2], [[1, 1]], "class").decode([[1], [0]])
    assert result.converged.tolist() == [True, False]
    assert result.flips[0, 0]
    assert result.failure[0] == pytest.approx(0.2)


def test_what_it_cannot_do_is_one_sentence() -> None:
    with pytest.raises(OptionError, match=r"needs tables of 2\^.* Use the method search"):
        Decoder(bicycle_code("bb72", 0.05), "class")
    with pytest.raises(OptionError, match=r"needs tables of 2\^100"):
        Decoder(np.ones((1, 100), int), 0.1, np.eye(100, dtype=int), "class")
    with pytest.raises(OptionError, match="no observables"):
        Decoder([[1, 1]], 0.1, method="class")
    with pytest.raises(OptionError, match="flips, not errors"):
        Decoder(surface_code(3, 0.1), "class").decode(np.zeros((1, 4), bool), corrections=True)
