"""Index arrays over table entries are made only when somebody asks for them; large tables are not copied."""

from dataclasses import replace

import numpy as np
import pytest

import equifactor as ef
from equifactor.graph import compile


def _mixed() -> ef.FactorGraph:
    """Return tables of four shapes in mixed order, a constant and structured factors."""
    rng = np.random.default_rng(0)
    shapes = [(2, 3), (3,), (2, 3), (2,), (), (3, 2)]
    scopes = [[0, 1], [1], [2, 3], [0], [], [1, 2]]
    factors = [(scope, rng.random(shape) + 0.1) for scope, shape in zip(scopes, shapes, strict=True)]
    factors.insert(2, ([0, 2], ef.Parity()))
    factors.append(([0, 2], ef.Clause([0, 1])))
    return ef.FactorGraph([2, 3, 2, 3], factors)


@pytest.mark.parametrize("count", [1, 3])
def test_entries_know_their_factor_and_their_place(count: int) -> None:
    graphs = [_mixed(), ef.generators.ising_grid(2, 3, seed=1), _mixed()][:count]
    flat = compile(graphs)
    own = np.concatenate([g.log_phi for g in graphs])
    np.testing.assert_array_equal(flat.log_phi, own[flat.entry_order])
    sizes = np.concatenate([np.diff(g.structure.table_ptr) for g in graphs])
    np.testing.assert_array_equal(flat.factor_of_entry, np.repeat(np.arange(len(sizes)), sizes)[flat.entry_order])
    pieces = flat.split(flat.log_phi, "entries")
    for piece, graph in zip(pieces, graphs, strict=True):
        np.testing.assert_array_equal(piece, graph.log_phi)


def test_copies_of_a_batch_of_one_structure_keep_them() -> None:
    graph = ef.generators.ising_grid(3, 3, seed=1)
    batch = compile([graph, graph.with_potentials(graph.log_phi + 1.0, log=True)])
    copy = replace(batch, has_zeros=True)
    np.testing.assert_array_equal(copy.entry_order, batch.entry_order)
    np.testing.assert_array_equal(copy.factor_of_entry, batch.factor_of_entry)


def test_tables_in_flat_order_are_not_copied() -> None:
    graph = ef.generators.potts_grid(3, 3, states=3, seed=0)
    flat = compile(graph)
    assert np.shares_memory(flat.log_phi, graph.log_phi)
    assert "entry_order" not in vars(flat)
    assert "factor_of_entry" not in vars(flat)
