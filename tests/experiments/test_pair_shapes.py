"""Shapes of pair models that draw their own training graphs."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from experiments.pair_shapes import PairShape, Strengths, grid, pair_shapes, small, two_sides

WIDE = Strengths((0.3, 3.0), mean=0.5)
REGULAR = ef.generators.pairwise_field(6, degree=3, structures=2, count=2)


@pytest.mark.parametrize("shape", [grid(2, 3, 6, WIDE), two_sides(2, 3, 6, WIDE), small("regular", REGULAR, 7, WIDE)])
def test_targets_are_the_marginals_of_the_drawn_graphs(shape: PairShape) -> None:
    shape.prepare("cpu", 0, 1)
    flat, target = shape.next()
    assert len(flat.graphs) == shape.count == 6
    marginals = ef.solve(_graphs(shape), "MAR", "exact")
    assert target.numpy() == pytest.approx(np.concatenate([r.marginals.values for r in marginals]), abs=1e-5)


def _graphs(shape: PairShape) -> list[ef.FactorGraph]:
    """Return the graphs of the present batch."""
    tables = np.empty(len(shape.log_phi))
    tables[shape.order.numpy()] = shape.log_phi.numpy()
    parts = tables.reshape(shape.count, -1)
    return [ef.FactorGraph.trusted(g.structure, t) for g, t in zip(shape.flat.graphs, parts, strict=True)]


def test_held_out_graphs_do_not_depend_on_the_seed() -> None:
    first, second = grid(2, 2, 4, WIDE), grid(2, 2, 4, WIDE)
    first.prepare("cpu", 0, 1)
    second.prepare("cpu", 5, 1)
    assert np.array_equal(first.held_out[0][0].numpy(), second.held_out[0][0].numpy())
    assert not np.array_equal(first.next()[1].numpy(), second.next()[1].numpy())


def test_shapes_have_names_of_their_own() -> None:
    names = [shape.name for shape in pair_shapes()]
    assert len(set(names)) == len(names)
