from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import OptionError
from equifactor.generators import GENERATORS, asymmetric_grid, ising_grid, potts_grid
from equifactor.generators.grids import grid_edges
from equifactor.graph import FactorGraph
from equifactor.testing import assert_same_graph

GRIDS = [ising_grid, asymmetric_grid, potts_grid]


def neighbours(rows: int, cols: int, wrap: bool) -> set[frozenset[int]]:
    found = set()
    for r in range(rows):
        for c in range(cols):
            for dr, dc in ((0, 1), (1, 0)):
                r2, c2 = r + dr, c + dc
                if wrap:
                    r2, c2 = r2 % rows, c2 % cols
                if r2 < rows and c2 < cols and (r, c) != (r2, c2):
                    found.add(frozenset((r * cols + c, r2 * cols + c2)))
    return found


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 2), (2, 3), (3, 3), (4, 6)])
def test_edges(size: tuple[int, int], wrap: bool) -> None:
    edges = grid_edges(*size, wrap)
    assert {frozenset(e) for e in edges.tolist()} == neighbours(*size, wrap)
    assert len(edges) == len(neighbours(*size, wrap))  # each pair once


def test_ising_is_what_it_says() -> None:
    graph = ising_grid(2, 3, seed=5)
    b = graph.log_phi.reshape(-1, 2)[:6, 1]
    J = np.array([graph.log_table(a)[0, 0] for a in range(6, graph.num_factors)])
    spins = 2 * np.array(list(np.ndindex(*[2] * 6))) - 1
    energy = spins @ b + sum(j * spins[:, e[0]] * spins[:, e[1]] for j, e in zip(J, grid_edges(2, 3), strict=True))
    np.testing.assert_allclose(graph.log_score((spins + 1) // 2), energy, atol=1e-12)


def test_asymmetric_tables_are_those_of_the_paper() -> None:
    graph = asymmetric_grid(2, 2, seed=1)
    for a in range(4, graph.num_factors):
        t = graph.log_table(a)
        Jij, Jji = -t[0, 1] / 2, -t[1, 0] / 2
        assert t[0, 0] == pytest.approx(Jij + Jji)
        assert t[1, 1] == pytest.approx(Jij + Jji)


def test_potts_favours_or_disfavours_equal_neighbours() -> None:
    graph = potts_grid(2, 2, states=4, seed=1)
    pair = graph.log_table(4)
    assert pair.shape == (4, 4)
    np.testing.assert_array_equal(pair, pair[0, 0] * np.eye(4))
    assert graph.card.tolist() == [4] * 4


def test_standard_deviations() -> None:
    graphs = ising_grid(4, 4, field_std=0.25, coupling_std=1.5, count=2000, seed=3)
    log_phi = np.stack([g.log_phi for g in graphs])
    assert log_phi[:, 1:32:2].std() == pytest.approx(0.25, rel=0.03)
    assert log_phi[:, 32::4].std() == pytest.approx(1.5, rel=0.03)


@pytest.mark.parametrize("grid", GRIDS)
def test_one_many_and_prefix(grid: object) -> None:
    one = grid(3, 2, seed=9)  # type: ignore[operator]
    many = grid(3, 2, count=5, seed=9)  # type: ignore[operator]
    assert isinstance(one, FactorGraph)
    assert len(many) == 5
    assert len({id(g.structure) for g in many}) == 1
    assert_same_graph(one, many[0])
    for g, h in zip(many[:2], grid(3, 2, count=2, seed=9), strict=True):  # type: ignore[operator]
        assert_same_graph(g, h)
        assert g.name == h.name
    assert many[0] != many[1]
    assert one != grid(3, 2, seed=10)  # type: ignore[operator]
    with pytest.raises(ValueError, match="read-only"):
        many[1].log_phi[0] = 0.0


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"rows": 0}, "rows must be a whole number of at least 1, found 0"),
        ({"cols": -2}, "cols must be a whole number of at least 1, found -2"),
        ({"rows": 2.5}, "rows must be a whole number of at least 1, found 2.5"),
        ({"rows": True}, "rows must be a whole number"),
        ({"field_std": -1.0}, "field_std must be a number of at least 0, found -1.0"),
        ({"coupling_std": float("nan")}, "coupling_std must be a number of at least 0, found nan"),
        ({"coupling_std": "big"}, "coupling_std must be a number of at least 0, found 'big'"),
        ({"count": 0}, "count must be a whole number of at least 1, found 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, found -1"),
        ({"rows": 10**6, "cols": 10**6}, "one call makes at most 2^30"),
        ({"count": 10**12}, "one call makes at most 2^30"),
    ],
)
def test_refuses(grid: object, options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        grid(**{"rows": 2, "cols": 2, **options})  # type: ignore[operator]
    assert fragment in str(error.value)


def test_refuses_states() -> None:
    with pytest.raises(OptionError, match="states must be a whole number of at least 1, found 0"):
        potts_grid(2, 2, states=0)


def test_registry_names() -> None:
    assert list(GENERATORS) == [
        "ising",
        "asymmetric",
        "potts",
        "pairwise",
        "tree",
        "random",
        "ldpc",
        "ksat",
        "noisy-or",
        "network",
        "pedigree",
    ]
