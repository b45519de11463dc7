"""The models on which libraries are timed have the same distributions as the original models."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor.generators import random_graph

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "peers"))


@pytest.mark.parametrize("seed", range(3))
def test_reduced_model_has_the_same_marginals(tmp_path: Path, seed: int) -> None:
    from common import Model

    from benchmarks._models import reduced, save

    graph = random_graph(8, 16, arity=(1, 3), card=(2, 3), zeros=0.1, seed=seed).condition({2: 1})
    model = Model.load(str(save(tmp_path, "m", reduced(graph))))
    assert len({tuple(s) for s in model.scopes}) == len(model.scopes)
    factors = [([i], u) for i, u in enumerate(model.unary)] + list(zip(model.scopes, model.tables, strict=True))
    found = ef.solve(ef.FactorGraph(model.card, factors), "MAR", "brute").marginals
    exact = ef.solve(graph, "MAR", "brute").marginals
    assert found is not None
    assert exact is not None
    for ours, theirs in zip(found, [exact[int(i)] for i in graph.free_vars], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_batches_are_what_they_say(tmp_path: Path) -> None:
    from common import Batch

    from benchmarks._models import batch, save

    same, different = (Batch.load(str(save(tmp_path, str(s), batch(5, s)))) for s in (True, False))
    assert same.edges.shape == different.edges.shape == (5, 24, 2)
    assert (same.edges == same.edges[0]).all()
    assert not (different.edges == different.edges[0]).all()
    np.testing.assert_array_equal(same.log_pair()[0, 0], same.couplings[0, 0] * np.array([[1, -1], [-1, 1]]))


def test_scaling_measures_a_small_grid() -> None:
    from benchmarks.scaling import measure

    row = measure(500, "bp(tolerance=0)", "MAR", 1)
    assert row["edges"] == 460
    assert row["seconds"] > 0


def test_every_peer_has_a_script() -> None:
    from benchmarks._venvs import PEERS, SCRIPTS

    assert {p.stem for p in SCRIPTS.glob("run_*.py")} == {f"run_{p.name}" for p in PEERS} | {"run_equifactor"}
    assert "benchmarks" in sys.modules
