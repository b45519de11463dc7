"""`to_pyg` against PyTorch Geometric itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import equifactor as ef

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of the imports of PyTorch Geometric
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Batch
    from torch_geometric.nn import HeteroConv, SAGEConv
import torch

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

IN, OVER, OF = ("variable", "in", "factor"), ("factor", "over", "variable"), ("entry", "of", "factor")


def test_shapes_and_values(model: ef.FactorGraph) -> None:
    data = ef.interop.to_pyg(model, floor=None)
    s = model.structure
    assert data.validate()
    assert data["variable"].num_nodes == s.num_vars
    np.testing.assert_array_equal(data["variable"].card, s.card)
    assert (data["variable"].observed == -1).all()
    np.testing.assert_array_equal(data[IN].edge_index[0], s.scope_vars)
    np.testing.assert_array_equal(data[OVER].edge_index.flip(0), data[IN].edge_index)
    for a in range(s.num_factors):
        size, edges = int(data["factor"].table_size[a]), data[IN].edge_index[1] == a
        scope = data[IN].edge_index[0][edges][data[IN].slot[edges].argsort()]
        np.testing.assert_array_equal(scope, s.scope(a))
        row = data["factor"].log_table[a].numpy()
        np.testing.assert_allclose(row[:size].reshape(s.shape(a)), model.log_table(a), rtol=1e-6)
        assert not row[size:].any()


def test_ragged_tables_are_nodes(model: ef.FactorGraph) -> None:
    data = ef.interop.to_pyg(model, tables="ragged", floor=-20.0)
    assert data.validate()
    assert data["entry"].num_nodes == model.structure.num_entries
    np.testing.assert_allclose(data["entry"].log_value, np.maximum(model.log_phi, -20.0), rtol=1e-6)
    owner = data[OF].edge_index[1].numpy()
    np.testing.assert_array_equal(data["entry"].place, np.arange(len(owner)) - model.structure.table_ptr[owner])


def test_a_network_runs_on_a_batch_without_nan() -> None:
    graphs = [ef.generators.random_graph(8, 10, arity=(1, 3), card=(2, 3), zeros=0.3, seed=n) for n in range(3)]
    batch = Batch.from_data_list([ef.interop.to_pyg(g, width=27) for g in graphs])
    assert batch["variable"].num_nodes == 24
    assert batch[IN].edge_index[0].max() >= 16
    torch.manual_seed(0)
    layer = HeteroConv({IN: SAGEConv((1, 27), 8), OVER: SAGEConv((27, 1), 8)})
    out = layer({"variable": batch["variable"].card[:, None].float(), "factor": batch["factor"].log_table},
                {IN: batch[IN].edge_index, OVER: batch[OVER].edge_index})  # fmt: skip
    assert out["variable"].shape == (24, 8)
    assert torch.isfinite(out["variable"]).all()
    ragged = Batch.from_data_list([ef.interop.to_pyg(g, tables="ragged") for g in graphs])
    assert ragged[OF].edge_index[1].max() == ragged["factor"].num_nodes - 1


def test_evidence_and_other_kinds() -> None:
    g = ef.FactorGraph({"a": 2, "b": 2, "c": 2}, [(["a", "b", "c"], ef.Parity())])
    data = ef.interop.to_pyg(g.condition({"b": 1}))
    assert data["variable"].observed.tolist() == [-1, 1, -1]
    assert data[IN].edge_index[0].tolist() == [0, 2]
    assert data["factor"].log_table.tolist() == [[-30.0, 0.0, 0.0, -30.0]]


def test_what_is_refused() -> None:
    g = ef.generators.random_tree(4, card=3, seed=1)
    with pytest.raises(ef.ModelError, match="9 table entries, more than width=4"):
        ef.interop.to_pyg(g, width=4)
    with pytest.raises(ef.OptionError, match="'padded' or 'ragged', found 'flat'"):
        ef.interop.to_pyg(g, tables="flat")
    with pytest.raises(ef.OptionError, match="has no padded rows"):
        ef.interop.to_pyg(g, tables="ragged", width=3)
    with pytest.raises(ef.ModelError, match=r"A HeteroData needs its dense table, which has 2\^30 entries"):
        ef.interop.to_pyg(ef.FactorGraph([2] * 30, [(range(30), ef.Parity())]))
    wide = ef.FactorGraph([2] * 20, [(range(20), np.ones(2**20)), *[([i % 20], [1, 2]) for i in range(300)]])
    with pytest.raises(ef.ModelError, match='tables="ragged"'):
        ef.interop.to_pyg(wide)
