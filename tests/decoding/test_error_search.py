"""A beam search over sets of errors."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from equifactor.decoding import Decoder, ErrorModel, ShotSampler

EVERYTHING = "search(beam=2000, doubt=1e9, margin=60)"  # Searches all shots of a small code, and drops nothing.

SETS = np.array(list(itertools.product((0, 1), repeat=13)))


class Enumerated:
    """A random code with all sets of its errors."""

    def __init__(self, seed: int, largest: float = 0.2) -> None:
        rng = np.random.default_rng(seed)
        self.H = (rng.random((6, 13)) < 0.35).astype(int)
        self.H[0] |= self.H.sum(axis=0) == 0
        self.L = rng.integers(2, size=(2, 13))
        self.p = rng.uniform(0.02, largest, 13)
        self.model = ErrorModel.of_matrices(self.H, self.p, self.L)
        self.weights = SETS @ np.log((1 - self.p) / self.p)
        self.shots_of, self.flips_of = SETS @ self.H.T % 2, SETS @ self.L.T % 2
        self.shots = np.unique(self.shots_of, axis=0)

    def classes(self, shot: np.ndarray) -> dict[tuple[int, ...], tuple[float, float]]:
        """Return the least weight and the logarithm of the sum over all sets, by the flips of a class."""
        same = (self.shots_of == shot).all(axis=1)
        found = {}
        for flips in itertools.product((0, 1), repeat=2):
            own = self.weights[same & (self.flips_of == flips).all(axis=1)]
            if len(own):
                found[flips] = float(own.min()), float(np.logaddexp.reduce(-own))
        return found


@pytest.mark.parametrize("largest", [0.2, 0.9])  # Errors may be likelier than their absence.
def test_it_finds_the_lightest_errors_and_the_likeliest_class(largest: float) -> None:
    code = Enumerated(7, largest)
    by_sum = Decoder(code.model, EVERYTHING).decode(code.shots, corrections=True)
    by_weight = Decoder(code.model, EVERYTHING, sums=False).decode(code.shots, corrections=True)
    assert by_sum.gap is not None
    for n, shot in enumerate(code.shots):
        classes = code.classes(shot)
        assert by_weight.weight[n] == pytest.approx(min(w for w, _ in classes.values()), abs=1e-4)
        (best, flips), (other, _) = sorted(((total, f) for f, (_, total) in classes.items()), reverse=True)[:2]
        if best - other > 1.0:  # Sets that contain a smaller set with the same syndrome are not added.
            assert tuple(by_sum.flips[n].astype(int)) == flips
        if by_sum.iterations[n]:  # The gap of a shot that the channel explains is infinite.
            assert by_sum.gap[n] == pytest.approx(best - other, abs=0.7)
    for result in (by_sum, by_weight):
        assert result.converged.all()
        assert result.corrections is not None
        np.testing.assert_array_equal(result.corrections @ code.H.T % 2, code.shots)
        np.testing.assert_array_equal(result.corrections @ code.L.T % 2, result.flips)
        weights = result.corrections @ np.log((1 - code.p) / code.p)
        np.testing.assert_allclose(weights, result.weight, atol=1e-4)


def test_shots_with_priors_of_their_own_and_a_narrow_beam() -> None:
    code = Enumerated(3)
    shots = ShotSampler(code.model, 1).sample(0, 64)[0]
    priors = np.random.default_rng(2).uniform(0.02, 0.9, (64, 13))
    result = Decoder(code.model, EVERYTHING, sums=False).decode(shots, priors=priors)
    for n, shot in enumerate(shots):
        weights = SETS @ np.log((1 - priors[n]) / priors[n])
        assert result.weight[n] == pytest.approx(weights[(code.shots_of == shot).all(axis=1)].min(), abs=1e-3)
    for beam in (1, 2, 7):
        small = Decoder(code.model, f"search(beam={beam}, doubt=100)").decode(shots)
        pooled = Decoder(code.model, "pooled").decode(shots)
        assert (small.weight <= pooled.weight + 1e-4).sum() >= 60  # The likeliest class may have heavier errors.


def test_shots_that_are_sure_or_not_explicable_are_not_searched() -> None:
    result = Decoder([[1, 0, 0], [0, 0, 0]], 0.1, [[1, 0, 1]], method="search").decode([[1, 0], [0, 1], [0, 0]])
    assert result.converged.tolist() == [True, False, True]
    assert result.iterations[2] == 0
    code = Enumerated(1)
    shots = ShotSampler(code.model, 1).sample(0, 100)[0]
    pooled, search = (Decoder(code.model, method).decode(shots) for method in ("pooled", "search(doubt=0)"))
    np.testing.assert_array_equal(pooled.gap, search.gap)
    np.testing.assert_array_equal(pooled.flips, search.flips)


def test_threads_give_the_same_answers() -> None:
    code = Enumerated(2)
    shots = ShotSampler(code.model, 3).sample(0, 300)[0]
    one, three = (Decoder(code.model, EVERYTHING).decode(shots, threads=n, corrections=True) for n in (1, 3))
    np.testing.assert_array_equal(one.corrections, three.corrections)
    np.testing.assert_array_equal(one.gap, three.gap)
    assert three.decoded.all()


def test_shots_that_only_the_search_explains_have_small_gaps() -> None:
    code = Enumerated(1)
    settings = "iterations=1, legs=0"
    pooled, search = (Decoder(code.model, f"{name}({settings})").decode(code.shots) for name in ("pooled", "search"))
    hard = ~pooled.converged & search.converged
    assert search.gap is not None
    assert hard.sum() > 9
    assert search.gap[hard].max() <= 1.0


def test_more_observables_make_failures_likelier() -> None:
    code = Enumerated(1)
    few = Decoder(code.model, "search").decode(code.shots)
    many = dataclasses.replace(few, flips=np.tile(few.flips, (1, 6)))
    assert (many.failure >= few.failure).all()
    assert (many.failure > few.failure).any()
