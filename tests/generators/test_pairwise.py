from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import OptionError
from equifactor.generators import pairwise_field, random_graph
from equifactor.testing import assert_same_graph


def pairs(graph) -> np.ndarray:
    return graph.structure.scope_vars[graph.num_vars :].reshape(-1, 2)


@pytest.mark.parametrize(
    ("num_vars", "degree"),
    [(4, 1), (4, 3), (10, 3), (9, 4), (30, 5), (8, 6), (6, 5), (200, 20), (50, 24), (100, 49), (30, 14)],
)
def test_regular_graphs_are_simple_and_regular(num_vars: int, degree: int) -> None:
    for seed in range(25 if num_vars == 4 else 3):
        found = pairs(pairwise_field(num_vars, degree=degree, seed=seed))
        assert (found[:, 0] < found[:, 1]).all()
        assert len(np.unique(found, axis=0)) == len(found)
        assert (np.bincount(found.ravel(), minlength=num_vars) == degree).all()


def test_regular_graphs_differ() -> None:
    seen = {pairs(pairwise_field(8, degree=3, seed=seed)).tobytes() for seed in range(20)}
    assert len(seen) > 15


def test_other_topologies() -> None:
    assert len(pairs(pairwise_field(7, topology="complete"))) == 21
    two_sides = pairs(pairwise_field(7, topology="bipartite"))
    assert len(two_sides) == 12
    assert (two_sides[:, 0] < 3).all()
    assert (two_sides[:, 1] >= 3).all()
    # 3 x 3 cells: 6 edges to the right, 6 downwards, 4 diagonals
    assert len(pairs(pairwise_field(9, topology="triangles"))) == 16
    assert pairs(pairwise_field(7, topology="triangles")).max() == 6


def test_tables() -> None:
    spin = pairwise_field(2, topology="complete", seed=1)
    J = spin.log_table(2)[0, 0]
    np.testing.assert_array_equal(spin.log_table(2), [[J, -J], [-J, J]])
    potts = pairwise_field(2, topology="complete", card=3, seed=1)
    np.testing.assert_array_equal(potts.log_table(2), potts.log_table(2)[0, 0] * np.eye(3))
    ragged = pairwise_field(12, card=(2, 4), seed=3)
    for a in range(12, ragged.num_factors):
        table = ragged.log_table(a)
        if table.shape != (2, 2):
            np.testing.assert_array_equal(table, table[0, 0] * np.eye(*table.shape))
    agreeing = pairwise_field(20, coupling_mean=3.0, coupling_std=0.1, seed=5)
    assert all(agreeing.log_table(a)[0, 0] > 2 for a in range(20, agreeing.num_factors))
    full = pairwise_field(40, topology="complete", tables="full", coupling_std=2.0, field_std=0.5, seed=4)
    cut = int(full.card.sum())
    assert np.std(full.log_phi[cut:]) == pytest.approx(2.0, rel=0.05)
    assert np.std(full.log_phi[:cut]) == pytest.approx(0.5, rel=0.2)


def test_structures_are_shared_and_graphs_do_not_depend_on_the_count() -> None:
    many = pairwise_field(10, structures=2, count=5, seed=7)
    assert many[0].structure is many[2].structure
    assert many[0].structure is not many[1].structure
    for one, other in zip(many[:3], pairwise_field(10, structures=2, count=3, seed=7), strict=True):
        assert_same_graph(one, other)
    assert not np.array_equal(many[0].log_phi, many[2].log_phi)
    drawn = random_graph(8, 10, structures=3, count=7, seed=2)
    assert drawn[0].structure is drawn[3].structure
    assert drawn[0].structure is not drawn[1].structure
    assert_same_graph(drawn[1], random_graph(8, 10, structures=3, count=2, seed=2)[1])
    assert_same_graph(drawn[1], random_graph(8, 10, structures=10**15, count=2, seed=2)[1])  # only two are drawn


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_vars": 5, "degree": 3}, "does not exist"),
        ({"num_vars": 4, "degree": 4}, "does not exist"),
        ({"num_vars": 4, "topology": "star"}, "topology"),
        ({"num_vars": 4, "structures": 0}, "structures"),
    ],
)
def test_mistakes(options, said) -> None:
    with pytest.raises(OptionError, match=said):
        pairwise_field(**options)
