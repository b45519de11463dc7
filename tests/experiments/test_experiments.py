"""Experiments end to end in their quick form, stopped and resumed, and their tables."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from equifactor import FormatError, OptionError, SolveError, parse_solver
from equifactor.cli import main
from equifactor.clock import Clock
from equifactor.solvers.learned.network import build
from equifactor.training.data_sources import read_source
from experiments import runs
from experiments.config import experiment_names, load, selected
from experiments.process_pool import perform_all
from experiments.runs import all_runs, tuning_runs
from experiments.tables_report import latex, lines_of, markdown, tuning_table


@pytest.mark.parametrize("name", experiment_names())
def test_every_line_of_every_experiment_can_be_built(name: str, tmp_path) -> None:
    experiment = load(name)
    for model in experiment.models:
        build(model.kind, model.network)
    for row in experiment.classical:
        for spec in row.tune or (row.solver,):
            parse_solver(spec)
    todo = [*tuning_runs(experiment), *all_runs(experiment, tmp_path)]
    assert len({run.key for run in todo}) == len(todo)


@pytest.mark.parametrize("name", experiment_names())
def test_training_test_and_tuning_graphs_never_meet(name: str) -> None:
    experiment = load(name)
    texts = [experiment.train.format(n=5, seed=1000 + seed) for seed in experiment.seeds]
    texts += [experiment.test, experiment.tune, *(t for f in experiment.families for t in (f.test, f.tune))]
    texts = [re.sub(r"n=\d+", "n=5", text) for text in texts]
    sets = [{g.log_phi.tobytes() for g in read_source(text).graphs} for text in texts]
    assert len(set.union(*sets)) == sum(len(s) for s in sets)


@pytest.mark.parametrize("name", [n for n in experiment_names() if load(n).models])
def test_the_quick_form_runs_end_to_end(name: str, tmp_path, capsys) -> None:
    rows = [load(name).classical[0].name, "FE-NBP"]
    assert main(["experiment", name, "--quick", "--methods", ",".join(rows), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "| FE-NBP |" in said
    results = json.loads((tmp_path / "results.json").read_text())
    assert [r["name"] for r in results["runs"]] == rows
    assert all(0 < r["kl"] < 1 and 0 < r["rmse"] < 1 and r["graphs"] == 100 for r in results["runs"])
    assert {"command", "commit", "date", "torch"} <= set(results["provenance"])
    assert (tmp_path / "table.tex").read_text().startswith("\\begin{tabular}")
    if load(name).families:
        assert "## Other families of graphs, KL" in said
        assert all(r["families"].keys() == {f.name for f in load(name).families} for r in results["runs"])
    if load(name).step_factors:
        assert "## After more and fewer steps, KL" in said
        assert (tmp_path / "steps.svg").is_file()


def test_a_stopped_experiment_goes_on_without_repeating(tmp_path) -> None:
    experiment = selected(load("asymmetric"), "BP,FE-NBP", None).quick()
    assert [run.row.name for run in all_runs(experiment, tmp_path)] == ["BP"]  # the network waits for its tuning
    perform_all(list(tuning_runs(experiment)), tmp_path, "cpu")
    runs = list(all_runs(experiment, tmp_path))
    rows, trouble = perform_all(runs, tmp_path, "cpu", time_limit=0.0)
    assert len(trouble) + len(rows) == 2
    first, none = perform_all(runs, tmp_path, "cpu")
    assert not none
    start = time.perf_counter()
    again, _ = perform_all(runs, tmp_path, "cpu")
    assert again == first
    assert time.perf_counter() - start < 1.0


def test_an_interrupted_run_is_no_result(tmp_path, monkeypatch) -> None:
    def interrupted(*given: object, **more: object) -> object:
        Clock.interrupts += 1
        return {}

    monkeypatch.setattr(Clock, "interrupts", 0)
    monkeypatch.setattr("equifactor.training.train", interrupted)
    monkeypatch.setattr(runs, "_classical", interrupted)
    experiment = selected(load("asymmetric"), "BP,FE-NBP", None).quick()
    for run in (*all_runs(experiment, tmp_path), *tuning_runs(experiment)):
        with pytest.raises(KeyboardInterrupt):
            runs.perform(run, tmp_path, "cpu")
    assert not (tmp_path / "runs").exists()


def test_a_failed_run_is_named_and_the_others_go_on(tmp_path) -> None:
    experiment = selected(load("asymmetric"), "BP,FE-NBP", None).quick()
    todo = [*all_runs(experiment, tmp_path), *tuning_runs(experiment)]

    def failing(run: runs.Run, folder: Path, device: str) -> dict[str, object]:
        if run is todo[0]:
            raise FormatError("no good")
        return {"name": run.row.name}

    assert perform_all(todo, tmp_path, "cpu", perform=failing) == ([{"name": "FE-NBP"}], ["BP: no good"])


def test_results_of_a_quick_copy_are_not_taken_for_those_of_the_experiment(tmp_path) -> None:
    experiment = selected(load("asymmetric"), "BP", None)
    (quick,), (full,) = all_runs(experiment.quick(), tmp_path), all_runs(experiment, tmp_path)
    runs.perform(quick, tmp_path, "cpu")
    with pytest.raises(OptionError, match="made with other settings"):
        runs.perform(full, tmp_path, "cpu")


def test_the_learning_rate_that_validates_best_is_taken(tmp_path) -> None:
    experiment = selected(load("ising"), "FE-NBP", "50")
    for n, run in enumerate(tuning_runs(experiment)):
        row = {"configuration": run.configuration, "validation_kl": abs(n - 1)}
        run.file(tmp_path).parent.mkdir(exist_ok=True)
        run.file(tmp_path).write_text(json.dumps(row))
    assert experiment.tuning is not None
    assert {run.row.lr for run in all_runs(experiment, tmp_path)} == {experiment.tuning.lrs[1]}


def test_a_rate_that_fails_only_loses(tmp_path, monkeypatch) -> None:
    experiment = selected(load("ising"), "FE-NBP", "50").quick()

    def failing(*given: object, **more: object) -> object:
        raise SolveError("the loss is not finite")

    monkeypatch.setattr("equifactor.training.train", failing)
    (row,), trouble = perform_all(list(tuning_runs(experiment)), tmp_path, "cpu")
    assert not trouble
    assert row["validation_kl"] is None
    assert len(list(all_runs(experiment, tmp_path))) == 1
    assert "inf" in tuning_table([row])


def test_networks_of_another_experiment_are_judged_anew_when_they_change(tmp_path) -> None:
    experiment = replace(selected(load("ising"), "FE-NBP", "50").quick(), tuning=None)
    perform_all(list(all_runs(experiment, tmp_path / "ising")), tmp_path / "ising", "cpu")
    (other,) = all_runs(replace(experiment, models_from="ising"), tmp_path / "other")
    row = runs.perform(other, tmp_path / "other", "cpu")
    assert row["kl"] == runs.perform(next(all_runs(experiment, tmp_path / "ising")), tmp_path / "ising", "cpu")["kl"]
    assert runs.perform(other, tmp_path / "other", "cpu") == row
    (model,) = (tmp_path / "ising" / "models").glob("*.safetensors")
    model.write_bytes(model.read_bytes() + b"x")
    with pytest.raises(OptionError, match="made with other settings"):
        runs.perform(other, tmp_path / "other", "cpu")
    other.file(tmp_path / "other").unlink()
    model.unlink()
    with pytest.raises(OptionError, match="run equifactor experiment ising first"):
        runs.perform(other, tmp_path / "other", "cpu")


def test_seeds_become_one_line_with_a_standard_error() -> None:
    rows = [
        {"name": "A", "size": 5000, "kl": kl, "kl_stderr": 0.03, "rmse": 0.5, "rmse_stderr": 0.0, "seconds": 2.0}
        for kl in (0.1, 0.18)
    ]
    (line,) = lines_of(rows)
    assert line.seeds == 2
    assert line.kl == pytest.approx(0.14)
    assert line.kl_stderr == pytest.approx(0.05)  # 0.03 over graphs and 0.04 over seeds
    experiment = load("asymmetric")
    assert "| A | 0.14000 +- 0.05000 | 0.5000 +- 0.0000 | 2 | 2 |  |" in markdown(experiment, [line])
    assert "A & $0.1400 \\pm 0.0500$" in latex(experiment, [line])


def test_mistakes(tmp_path) -> None:
    with pytest.raises(OptionError, match="there is no experiment 'isng'"):
        load("isng")
    with pytest.raises(OptionError, match="there is no method 'FE-Nets'"):
        selected(load("ising"), "BP,FE-Nets", None)
    assert selected(load("ising"), "FE-GNN, D 32", "50,500").sizes == (50, 500)
    broken = tmp_path / "mine.toml"
    broken.write_text("title = 3\n")
    with pytest.raises(FormatError, match="not an experiment"):
        load(str(broken))
