"""A batch of one structure has the arrays that `compile` makes of its graphs."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from equifactor import FactorGraph
from equifactor.generators import random_graph
from equifactor.graph import compile, compiler
from equifactor.graph.repeated_graph import _ARRAYS, RepeatedGraph

NAMES = (*_ARRAYS, "log_phi", "entry_order")
SIZES = [f"num_{name}" for name in ("graphs", "vars", "states", "factors", "edges", "edge_states", "entries")]


def batches(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, list[FactorGraph]]:
    """Return a batch of five graphs both ways, and the graphs."""
    one = random_graph(7, 9, arity=(0, 3), card=(1, 4), seed=seed) if seed else FactorGraph([2, 3], [])
    draw = np.random.default_rng(seed)
    tables = draw.standard_normal((5, len(one.log_phi)))
    graphs = [one.with_potentials(np.where(table < -1.5, -np.inf, table), log=True) for table in tables]
    repeated = compile(graphs)
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "share_structure", lambda graphs: False)
        plain = compile(graphs)
    assert (type(repeated), type(plain) is RepeatedGraph) == (RepeatedGraph, False)
    return repeated, plain, graphs


def assert_same(one: Any, other: Any) -> None:
    """Assert that two compiled batches hold the same arrays."""
    assert [getattr(one, name) for name in SIZES] == [getattr(other, name) for name in SIZES]
    for name in NAMES:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, name
        assert isinstance(a, torch.Tensor) or a.flags.writeable == b.flags.writeable, name
        np.testing.assert_array_equal(a, b, err_msg=name)
    for g, h in zip(one.groups, other.groups, strict=True):
        assert (g.shape, g.entries, g.slots, g.edges) == (h.shape, h.entries, h.slots, h.edges)
        np.testing.assert_array_equal(g.factors, h.factors)
    for axis, ptr in other.graph_ptr.items():
        np.testing.assert_array_equal(one.graph_ptr[axis], ptr)
    assert one.has_zeros == other.has_zeros


@pytest.mark.parametrize("seed", range(4))
def test_arrays_are_those_of_any_batch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    repeated, plain, graphs = batches(seed, monkeypatch)
    assert_same(repeated.to("cpu", "float32"), plain.to("cpu", "float32"))  # before the arrays of NumPy are made
    chosen = np.array([1, 3])
    wanted = plain.edge_states_of(chosen)
    np.testing.assert_array_equal(repeated.edge_states_of(chosen), wanted)
    np.testing.assert_array_equal(repeated.edge_states_on(chosen, torch.device("cpu")), wanted)
    assert_same(repeated.subset(chosen), compile([graphs[1], graphs[3]]))
    assert_same(repeated, plain)
    copy = dataclasses.replace(repeated, has_zeros=True)
    assert copy.subset(chosen) is None
    np.testing.assert_array_equal(copy.edge_states_of(chosen), wanted)
    np.testing.assert_array_equal(copy.edge_states_on(chosen, torch.device("cpu")), wanted)
    np.testing.assert_array_equal(copy.to("cpu").var_of_edge, plain.var_of_edge)
    p = np.arange(float(plain.num_states))
    np.testing.assert_array_equal(repeated.marginals_of(p, 3).values, plain.marginals(p)[3].values)
