"""Training on few shapes of graphs, on a CPU and without captured steps."""

from __future__ import annotations

from functools import partial

import numpy as np

from equifactor.solvers.learned.model_files import load_model
from experiments import trust_graphs
from experiments.pair_shapes import Strengths, grid
from experiments.shape_training import ShapeRecipe, ShapeTraining
from experiments.sharp_shapes import SharpFamily, SharpShape


def test_a_run_takes_steps_on_both_kinds_of_shapes_and_writes_a_model(tmp_path) -> None:
    family = SharpFamily("colourings", 6, partial(trust_graphs.colourings, states=2))
    sharp = SharpShape("colourings", family.graphs())
    recipe = ShapeRecipe({"steps": 2, "channels": 2, "hidden": 4, "tables": 2}, device="cpu", seed=1)
    run = ShapeTraining(recipe, [grid(2, 2, 4, Strengths((0.3, 3.0)), pool=1), sharp])
    before = run.judged()
    for shape in run.shapes:
        assert np.isfinite(float(run.step(shape, 1e-2)))
    assert set(before) == {"grid 2x2", "colourings"}
    assert run.judged() != before
    run.save(tmp_path / "own.safetensors", {"score": 0.5})
    network, card = load_model(tmp_path / "own.safetensors")
    assert card.updates == 2
    assert card.parameters == sum(p.numel() for p in network.parameters())
