"""Networks trained on public models: stopped and resumed, the best variant, folds."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from equifactor import OptionError
from equifactor.data import collection
from equifactor.learning.training.data_sources import read_source
from equifactor.learning.training.training_loop import Trainer
from experiments import map_trainings
from experiments.experiment_config import load_map
from experiments.map_splits import splits_of
from experiments.map_trainings import MapTraining, final_trainings, variant_trainings
from experiments.run_store import RunStore
from experiments.runner import Effort, run_all


def test_a_run_cut_in_the_middle_ends_like_one_that_was_not(folder: Path, tmp_path: Path, monkeypatch) -> None:
    experiment = load_map("uai").selected("FE-NBP", "Grids").quick()
    experiment = replace(experiment, training={**experiment.training, "epochs": 6})
    split = splits_of(experiment, folder)[0]
    run = MapTraining(experiment, experiment.models[0], split, (("damping", 0.3),), 0)
    whole = run.perform(tmp_path / "whole", "cpu")
    store = RunStore(tmp_path / "cut")
    step, steps = Trainer._gradient_step, itertools.count(1)

    def cut_in_the_second_step(self, *args):
        self.clock.interrupted |= next(steps) == 2
        return step(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_gradient_step", cut_in_the_second_step)
        past_the_limit = itertools.count(0.0, 1e6).__next__
        patched.setattr(map_trainings, "time", SimpleNamespace(time=time.time, perf_counter=past_the_limit))
        rows, (sentence,) = run_all([run], store, Effort(until=time.time() + 1000))
    assert not rows
    assert "the time limit stopped the run in epoch" in sentence
    assert store.get(run.key) is None
    (again,), _ = run_all([run], store, Effort())
    assert again["validation_error"] == whole["validation_error"]
    assert again["epochs"] == whole["epochs"] == 6
    one, other = (run.weights(tmp_path / name).read_bytes() for name in ("whole", "cut"))
    assert one == other


def test_the_variant_that_validates_best_is_trained(folder: Path, tmp_path: Path) -> None:
    experiment, store = load_map("uai").selected("FE-NBP", "Grids").quick(), RunStore(tmp_path)
    splits = [s for s in splits_of(experiment, folder) if s.fold is None]
    assert not list(final_trainings(experiment, splits, store))
    for n, run in enumerate(variant_trainings(experiment, splits)):
        store.add(run.key, {"validation_error": 0.2 - 0.1 * n})
    (final,) = final_trainings(experiment, splits, store)
    assert dict(final.variant) == experiment.models[0].variants()[-1]
    other = replace(experiment, training={**experiment.training, "lr": 0.5})
    assert replace(final, experiment=other).key != final.key


def test_folds_hold_every_model_once_and_never_train_on_it(folder: Path) -> None:
    experiment = replace(load_map("uai").selected(None, "Grids,Segment"), folds={"Grids": 3})
    fixed, folds = (
        [s for s in splits_of(experiment, folder) if (s.fold is None) == want and s.collection == "Grids"]
        for want in (True, False)
    )
    assert len(fixed) == 1
    assert sorted(i.name for s in folds for i in s.test) == [f"g{n}" for n in range(6)]
    assert all(not set(s.train) & set(s.test) and len(s.train) == 4 for s in folds)
    index = json.loads((folder / "index.json").read_text())
    for record in index:
        record.pop("split")
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(OptionError, match="Grids: the index of the folder must have models of the splits"):
        splits_of(experiment, folder)


def test_instances_bring_their_known_scores_to_training(folder: Path) -> None:
    source = read_source(collection(folder, "Grids")[:3])
    assert source.text == "3 models of Grids"
    assert [i.map_log_score for i in source.instances if i] == [
        i.map_log_score for i in collection(folder, "Grids")[:3]
    ]
