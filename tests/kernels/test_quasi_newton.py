"""L-BFGS: on a quadratic function with as many pairs as dimensions, the direction is Newton's direction."""

from __future__ import annotations

import numpy as np

from equifactor.kernels.quasi_newton import CurvaturePairs


def quadratic(seed: int, size: int) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(size, size))
    return a @ a.T + np.eye(size)


def test_without_pairs_the_direction_is_the_scaled_gradient() -> None:
    pairs, gradient = CurvaturePairs(3), np.array([1.0, -2.0])
    np.testing.assert_array_equal(pairs.direction(gradient), [-1.0, 2.0])
    np.testing.assert_array_equal(pairs.direction(gradient, np.array([2.0, 0.5])), [-2.0, 1.0])


def test_pairs_along_conjugate_steps_give_the_newton_direction() -> None:
    hessian = quadratic(0, 4)
    steps = np.linalg.eigh(hessian)[1].T  # These steps are conjugate.
    pairs = CurvaturePairs(4, [(s, hessian @ s) for s in steps])
    gradient = np.random.default_rng(1).normal(size=4)
    for scale in (None, np.array([1.0, 2.0, 0.5, 3.0])):
        np.testing.assert_allclose(pairs.direction(gradient, scale), -np.linalg.solve(hessian, gradient), rtol=1e-9)


def test_only_the_last_pairs_with_positive_curvature_are_kept() -> None:
    pairs = CurvaturePairs(2)
    for n in range(4):
        pairs.remember(np.array([1.0, float(n)]), np.array([1.0, float(n)]))
    pairs.remember(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    steps, changes = pairs.arrays(2)
    np.testing.assert_array_equal(steps, [[1.0, 2.0], [1.0, 3.0]])
    np.testing.assert_array_equal(steps, changes)
    again = CurvaturePairs(2, zip(steps, changes, strict=True))
    gradient = np.array([0.3, -0.7])
    np.testing.assert_array_equal(again.direction(gradient), pairs.direction(gradient))
    pairs.clear()
    assert len(pairs) == 0
    assert pairs.arrays(2)[0].shape == (0, 2)
