"""Test models that are isomorphic to training models, also under other evidence or unary factors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph
from equifactor.generators import ising_grid
from experiments.experiment_config import load_map
from experiments.isomorphic_models import compute_hashes, isomorphic_models, remainder
from experiments.map_splits import splits_of
from experiments.run_store import RunStore


def test_doubles_are_found_under_other_numbers_and_other_evidence(make_folder, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pair, other = rng.normal(size=(2, 2, 3))
    base = FactorGraph([2, 3, 2], [((0, 1), pair), ((2, 1), other)], log=True)
    renumbered = FactorGraph([3, 2, 2], [((0, 1), other.T), ((2, 0), pair)], log=True)
    fields = base.with_factor((0,), [0.3, 0.7])
    assert remainder(base.with_factor((), 3.0)) == remainder(base)
    folder = make_folder({"Grids": [base, ising_grid(2, 2, seed=1), renumbered, fields]})
    store = RunStore(tmp_path)
    splits = splits_of(load_map("uai").selected(None, "Grids"), folder)[:1]
    assert "not looked for yet" in isomorphic_models(splits, store)[1][0]
    compute_hashes(splits, store)
    (found,), words = isomorphic_models(splits, store)
    assert not words
    assert found["isomorphic"] == ["g2"]
    assert found["same_larger_tables"] == ["g2", "g3"]


def test_unary_factors_are_multiplied_and_scales_do_not_count() -> None:
    pair = [[1.0, 2.0], [3.0, 5.0]]
    apart = FactorGraph([2, 2], [([0], [2.0, 1.0]), ([0], [3.0, 1.0]), ([0, 1], pair)])
    joined = FactorGraph([2, 2], [([0], [6.0, 1.0]), ([0, 1], pair)])
    scaled = FactorGraph([2, 2], [([0], [12.0, 2.0]), ([0, 1], np.multiply(pair, 4))])
    for other in (joined, scaled):
        assert remainder(other).log_phi == pytest.approx(remainder(apart).log_phi)
    assert np.exp(remainder(apart).log_table(1)) == pytest.approx([1.0, 1 / 6])
    assert remainder(apart.with_factor([0], [1.0, 2.0])) != remainder(apart)


def test_a_table_of_zeros_alone_stays_as_it_is() -> None:
    graph = FactorGraph([2], [([0], [1.0, 0.0]), ([0], [0.0, 1.0])])
    assert np.isneginf(remainder(graph).log_phi).all()
