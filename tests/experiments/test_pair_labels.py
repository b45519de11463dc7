"""Exact mean spins of pair models in torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import equifactor as ef
from experiments.pair_labels import means_by_enumeration, means_of_two_sides, means_on_grid

SPINS = np.array([-1.0, 1.0])


def exact(n: int, pairs: list[tuple[int, int]], couplings: np.ndarray, fields: np.ndarray) -> np.ndarray:
    factors = [([v], h * SPINS) for v, h in enumerate(fields)]
    factors += [(list(pair), j * np.outer(SPINS, SPINS)) for pair, j in zip(pairs, couplings, strict=True)]
    graph = ef.FactorGraph([2] * n, factors, log=True)
    return np.asarray(ef.solve(graph, "MAR", "exact").marginals.values.reshape(-1, 2) @ SPINS)


@pytest.mark.parametrize("strength", [0.5, 12.0])
def test_mean_spins_are_exact(strength: float) -> None:
    rng = np.random.default_rng(3)
    rows, columns = 2, 3
    fields = rng.normal(size=(2, rows * columns))
    cell = np.arange(rows * columns).reshape(rows, columns)
    across = list(zip(cell[:, :-1].ravel().tolist(), cell[:, 1:].ravel().tolist(), strict=True))
    down = list(zip(cell[:-1].ravel().tolist(), cell[1:].ravel().tolist(), strict=True))
    couplings = strength * rng.normal(size=(2, len(across) + len(down)))
    split, given = len(across), torch.tensor(couplings)
    on_grid = means_on_grid(
        given[:, :split].view(2, rows, columns - 1), given[:, split:].view(2, rows - 1, columns),
        torch.tensor(fields).view(2, rows, columns),
    )  # fmt: skip
    dense = torch.zeros(2, 6, 6, dtype=torch.float64)
    for k, (i, j) in enumerate([*across, *down]):
        dense[:, i, j] = dense[:, j, i] = given[:, k]
    enumerated = means_by_enumeration(dense, torch.tensor(fields))
    sides = list(itertools.product(range(2), range(2, 6)))
    two_sides = means_of_two_sides(
        torch.tensor(strength * fields[:, :, None])[:, :2] * torch.ones(4), torch.tensor(fields)
    )
    for k in range(2):
        want = exact(6, [*across, *down], couplings[k], fields[k])
        assert on_grid[k].reshape(-1).numpy() == pytest.approx(want, abs=1e-9)
        assert enumerated[k].numpy() == pytest.approx(want, abs=1e-9)
        want = exact(6, sides, np.repeat(strength * fields[k, :2], 4), fields[k])
        assert two_sides[k].numpy() == pytest.approx(want, abs=1e-9)
