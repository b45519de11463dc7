from __future__ import annotations

import numpy as np
import pytest
import torch

from equifactor import FactorGraph
from equifactor.base.errors import ModelError
from equifactor.factors import tensors
from equifactor.generators import asymmetric_grid, random_graph
from equifactor.questions.solve import solve
from equifactor.solvers import compile
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.table_features import centred, edge_tables
from equifactor.solvers.learned.wiring import wire


def test_tables_are_turned_to_the_receiver() -> None:
    table = np.array([[0.0, 1.0], [2.0, 5.0]])
    wiring = wire(compile(FactorGraph([2, 2], [([0, 1], table)], log=True)).to(), "sum")
    same, turned = (edge_tables(wiring, 2, 2, orient) + 2.0 for orient in (False, True))
    assert same.tolist() == [[0, 1, 2, 5], [0, 1, 2, 5]]
    assert turned.tolist() == [[0, 1, 2, 5], [0, 2, 1, 5]]


def test_smaller_tables_are_repeated_and_zeros_are_finite() -> None:
    wiring = wire(compile(FactorGraph([2, 2], [([0, 1], [[1.0, 1.0], [0.0, 1.0]])])).to(), "sum")
    rows = edge_tables(wiring, 2, 3, orient=True)
    assert rows[0].tolist() == [7.5] * 4 + [-22.5] * 2 + [7.5] * 2
    assert centred(torch.full((1, 3), -torch.inf)).tolist() == [[0.0, 0.0, 0.0]]


def test_larger_factors_need_the_bipartite_graph() -> None:
    flat = compile(random_graph(6, 4, arity=3, card=2, seed=1)).to(dtype="float64")
    with pytest.raises(ModelError, match=r"at most 2 variables, .* factor of 3\. Set graph=bipartite, or use fe-net"):
        build("ggnn")(flat)
    with pytest.raises(ModelError, match=r"factor of 3\. Raise its setting arity"):
        build("ggnn", {"graph": "bipartite"})(flat)
    out = build("ggnn", {"graph": "bipartite", "arity": 4}, seed=0).double()(flat)[-1]
    assert tensors.probabilities(flat, out).isfinite().all()


def test_symmetries_follow_the_settings() -> None:
    assert build("ggnn").symmetries == {"global"}
    assert build("ggnn", {"orient": True}).symmetries == {"global", "local variable"}
    assert build("ggnn", {"orient": True, "graph": "bipartite", "arity": 3}).symmetries == {"global"}


@pytest.mark.parametrize("kind", ["ggnn", "fgnn"])
def test_without_orientation_one_half_is_the_best_guess(kind: str) -> None:
    """Return two fields with opposite marginals that no unoriented network can distinguish (docs/baselines.md)."""
    grid = asymmetric_grid(3, 3, field_std=0.0, seed=0)
    scopes = [grid.structure.scope(a) for a in range(grid.num_factors)]
    tables = [grid.log_phi[slice(*grid.structure.table_ptr[a : a + 2])] for a in range(grid.num_factors)]
    reverse = [(s[::-1], t.reshape([2] * len(s))) for s, t in zip(scopes, tables, strict=True)]
    mirror = FactorGraph(grid.card, reverse, log=True)
    exact, opposite = (np.array(solve(g, "MAR", "exact").marginals) for g in (grid, mirror))
    np.testing.assert_allclose(exact, opposite[:, ::-1], atol=1e-12)

    def apart(orient: bool) -> float:
        network = build(kind, {"orient": orient}, seed=0).double()
        with torch.no_grad():
            one, other = (network(compile(g).to(dtype="float64"))[-1] for g in (grid, mirror))
        return (one - other).abs().max().item()

    assert apart(orient=False) < 1e-12
    assert apart(orient=True) > 1e-4
