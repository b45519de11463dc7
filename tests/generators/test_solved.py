"""Models with known answers, compared with elimination on small sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from equifactor import OptionError, generators, solve
from equifactor.generators import SolvedModel

SMALL: list[Callable[[int], SolvedModel]] = [
    lambda seed: generators.ising_strip(3, 7, seed=seed),
    lambda seed: generators.ising_strip(5, 9, wrap=True, field_std=0.5, coupling_std=3.0, seed=seed),
    lambda seed: generators.ising_strip(2, 4, wrap=True, seed=seed),
    lambda seed: generators.ising_strip(1, 6, seed=seed),
    lambda seed: generators.planar_ising(4, 6, seed=seed),
    lambda seed: generators.planar_ising(7, 3, field_std=2.0, coupling_std=2.0, seed=seed),
    lambda seed: generators.planar_ising(2, 2, field_std=0.0, seed=seed),
    lambda seed: generators.glued_cliques(6, 5, seed=seed),
    lambda seed: generators.glued_cliques(3, 8, field_std=1.0, coupling_std=3.0, seed=seed),
    lambda seed: generators.glued_cliques(4, 2, seed=seed),
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("make", SMALL)
def test_answers_are_those_of_elimination(make: Callable[[int], SolvedModel], seed: int) -> None:
    model = make(seed)
    exact = solve(model.graph, solver="exact")
    assert exact.marginals is not None
    assert model.log_z == pytest.approx(exact.log_z, abs=1e-9 * model.graph.num_vars)
    assert model.known.any()
    for i in np.flatnonzero(model.known):
        np.testing.assert_allclose(model.marginals[i], exact.marginals[i], atol=1e-9)


def test_larger_ones_than_a_small_budget_of_elimination() -> None:
    for model in (generators.planar_ising(40, 40), generators.glued_cliques(3, 20), generators.ising_strip(16, 40)):
        assert solve(model.graph, solver="exact(memory_limit=0.0001)").status == "too-large"
        assert np.isfinite(model.log_z)
        assert np.all((model.marginals.values >= 0) & (model.marginals.values <= 1))


def test_two_roads_agree_on_a_wide_strip() -> None:
    """Compare determinant and transfer matrix on a strip with fields only on its first column, which is planar."""
    planar = generators.planar_ising(12, 30, seed=3)
    b = planar.graph.log_phi[: 2 * 360].reshape(12, 30, 2)[:, :, 1]
    J = planar.graph.log_phi[2 * 360 :].reshape(-1, 4)[:, 0]
    from equifactor.generators.strips import _transfer

    down = np.zeros((12, 30))
    down[:11] = J[12 * 29 :].reshape(11, 30)
    log_z, mean = _transfer(b, down, J[: 12 * 29].reshape(12, 29))
    assert planar.log_z == pytest.approx(log_z, abs=1e-8)
    np.testing.assert_allclose(
        2 * np.array([planar.marginals[30 * r][1] for r in range(12)]) - 1, mean[:, 0], atol=1e-9
    )


def test_bad_arguments() -> None:
    with pytest.raises(OptionError, match="rows must be at most 24"):
        generators.ising_strip(30, 5)
    with pytest.raises(OptionError, match="size must be at most 26"):
        generators.glued_cliques(2, 40)
    with pytest.raises(OptionError, match="rows"):
        generators.planar_ising(1, 5)
