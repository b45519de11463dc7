"""Runs of experiments on marginals: stopped and resumed, interrupted, failed, tuned."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from dask_processes import Dask

from equifactor import FormatError, OptionError, SolveError
from equifactor.base.clock import Clock
from experiments import marginal_runs
from experiments.experiment_config import load_marginal
from experiments.marginal_page import tuning_table
from experiments.marginal_runs import MarginalRun, final_runs, tuning_runs
from experiments.run_store import Row, RunStore
from experiments.runner import Effort, finished_row, run_all


@pytest.mark.slow
def test_a_stopped_experiment_goes_on_without_repeating(tmp_path, monkeypatch) -> None:
    experiment, store = load_marginal("asymmetric").selected("BP,FE-NBP").quick(), RunStore(tmp_path)
    assert [run.line.name for run in final_runs(experiment, store)] == ["BP"]  # The network waits for its tuning.
    run_all(list(tuning_runs(experiment)), store, Effort())
    runs = list(final_runs(experiment, store))
    rows, trouble = run_all(runs, store, Effort(until=time.time() - 1))
    assert len(trouble) + len(rows) == 2
    first, none = run_all(runs, store, Effort())
    assert not none
    store.pack()
    monkeypatch.setattr(MarginalRun, "perform", None)
    again, _ = run_all(runs, RunStore(tmp_path), Effort())
    assert again == first


@pytest.mark.slow
def test_runs_side_by_side_give_the_rows_in_order(tmp_path) -> None:
    experiment, store = load_marginal("asymmetric").selected("BP,BP damped 0.5").quick(), RunStore(tmp_path)
    runs = list(final_runs(experiment, store))
    rows, trouble = run_all(runs, store, Effort(processes=2))
    assert not trouble
    assert [row["name"] for row in rows] == ["BP", "BP damped 0.5"]
    assert run_all(runs, store, Effort()) == (rows, [])


@pytest.mark.slow
def test_runs_on_a_cluster_give_the_rows_of_one_machine(dask: Dask, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))
    experiment, store = load_marginal("asymmetric").selected("BP,BP damped 0.5").quick(), RunStore(tmp_path / "there")
    dask.scheduler()
    dask.worker("one")
    rows, trouble = run_all(list(final_runs(experiment, store)), store, Effort(cluster=dask.address))
    assert not trouble
    here = RunStore(tmp_path / "here")
    expected, _ = run_all(list(final_runs(experiment, here)), here, Effort())
    assert [row["name"] for row in rows] == [row["name"] for row in expected]
    # The last digit depends on the number of threads of the process.
    assert [row["kl"] for row in rows] == pytest.approx([row["kl"] for row in expected], rel=1e-12)


def test_an_interrupted_run_is_no_result(tmp_path, monkeypatch) -> None:
    def interrupted(*given: object, **more: object) -> object:
        Clock.interrupts += 1
        return {}

    monkeypatch.setattr(Clock, "interrupts", 0)
    monkeypatch.setattr("equifactor.learning.training.train", interrupted)
    monkeypatch.setattr(marginal_runs, "_judge_solver", interrupted)
    experiment, store = load_marginal("asymmetric").selected("BP,FE-NBP").quick(), RunStore(tmp_path)
    for run in (*final_runs(experiment, store), *tuning_runs(experiment)):
        with pytest.raises(KeyboardInterrupt):
            run_all([run], store, Effort())
    assert not (tmp_path / "runs").exists()


def test_a_failed_run_is_named_and_the_others_go_on(tmp_path, monkeypatch) -> None:
    experiment, store = load_marginal("asymmetric").selected("BP,FE-NBP").quick(), RunStore(tmp_path)
    todo = [*final_runs(experiment, store), *tuning_runs(experiment)]

    def failing(run: MarginalRun, folder: Path, device: str, until: float | None) -> Row:
        if run is todo[0]:
            raise FormatError("no good")
        return {"name": run.line.name}

    monkeypatch.setattr(MarginalRun, "perform", failing)
    assert run_all(todo, store, Effort()) == ([{"name": "FE-NBP"}], ["BP: no good"])


def test_results_of_a_quick_copy_are_not_taken_for_those_of_the_experiment(tmp_path) -> None:
    experiment, store = load_marginal("asymmetric").selected("BP"), RunStore(tmp_path)
    (quick,), (full,) = final_runs(experiment.quick(), store), final_runs(experiment, store)
    run_all([quick], store, Effort())
    assert finished_row(full, store) is None
    rows, (sentence,) = run_all([full], store, Effort())
    assert not rows
    assert "made with other settings" in sentence


def test_the_learning_rate_that_validates_best_is_taken(tmp_path) -> None:
    experiment, store = load_marginal("ising").selected("FE-NBP", "50"), RunStore(tmp_path)
    for n, run in enumerate(tuning_runs(experiment)):
        store.add(run.key, {"configuration": run.configuration, "validation_kl": abs(n - 1)})
    assert experiment.tuning is not None
    assert {run.line.lr for run in final_runs(experiment, store)} == {experiment.tuning.lrs[1]}  # type: ignore[union-attr]


def test_a_rate_that_fails_only_loses(tmp_path, monkeypatch) -> None:
    experiment, store = load_marginal("ising").selected("FE-NBP", "50").quick(), RunStore(tmp_path)

    def failing(*given: object, **more: object) -> object:
        raise SolveError("the loss is not finite")

    monkeypatch.setattr("equifactor.learning.training.train", failing)
    (row,), trouble = run_all(list(tuning_runs(experiment)), store, Effort())
    assert not trouble
    assert row["validation_kl"] is None
    assert len(list(final_runs(experiment, store))) == 1
    assert "inf" in tuning_table([row])


@pytest.mark.slow
def test_networks_of_another_experiment_are_judged_anew_when_they_change(tmp_path) -> None:
    experiment = replace(load_marginal("ising").selected("FE-NBP", "50").quick(), tuning=None)
    ising, other = RunStore(tmp_path / "ising"), RunStore(tmp_path / "other")
    (trained,), _ = run_all(list(final_runs(experiment, ising)), ising, Effort())
    (run,) = final_runs(replace(experiment, models_from="ising"), other)
    (row,), _ = run_all([run], other, Effort())
    assert row["kl"] == trained["kl"]
    assert run_all([run], other, Effort()) == ([row], [])
    (model,) = (tmp_path / "ising" / "models").glob("*.safetensors")
    model.write_bytes(model.read_bytes() + b"x")
    assert "made with other settings" in run_all([run], other, Effort())[1][0]
    model.unlink()
    with pytest.raises(OptionError, match="Run python -m experiments ising first"):
        run.perform(tmp_path / "other", "cpu")
