"""The configs of all experiments: every line can be built, and training and test graphs are disjoint."""

from __future__ import annotations

import re

import pytest

from equifactor import FormatError, OptionError
from equifactor.learning.training.data_sources import read_source
from equifactor.solvers import parse_solver
from equifactor.solvers.learned.network import build
from experiments.experiment_config import MAP, MARGINAL, load, load_map, load_marginal
from experiments.marginal_runs import final_runs, tuning_runs
from experiments.run_store import RunStore


@pytest.mark.parametrize("name", MARGINAL)
def test_every_line_of_every_experiment_can_be_built(name: str, tmp_path) -> None:
    experiment = load_marginal(name)
    assert experiment.name == name
    for line in experiment.models:
        build(line.kind, line.network)
    for solver in experiment.classical:
        for spec in solver.tune or (solver.solver,):
            parse_solver(spec)
    todo = [*tuning_runs(experiment), *final_runs(experiment, RunStore(tmp_path))]
    assert len({run.key for run in todo}) == len(todo)


@pytest.mark.parametrize("name", MARGINAL)
def test_training_test_and_tuning_graphs_never_meet(name: str) -> None:
    experiment = load_marginal(name)
    texts = [experiment.train.format(n=5, seed=1000 + seed) for seed in experiment.seeds]
    texts += [experiment.test, experiment.tune, *(t for f in experiment.families for t in (f.test, f.tune))]
    texts = [re.sub(r"n=\d+", "n=5", text) for text in texts]
    sets = [{g.log_phi.tobytes() for g in read_source(text).graphs} for text in texts]
    assert len(set.union(*sets)) == sum(len(s) for s in sets)


@pytest.mark.parametrize("name", MAP)
def test_every_map_line_can_be_built_and_every_published_number_has_one(name: str) -> None:
    experiment = load_map(name)
    lines = [m.name for m in experiment.methods]
    for method in experiment.methods:
        assert "," not in method.name
        for spec in method.specs():
            parse_solver(spec)
    for network in experiment.models:
        lines += [network.line(d) for d in network.decode]
        for variant in network.variants():
            build(network.kind, {**network.network, **variant})
    assert len(set(lines)) == len(lines)
    assert set(experiment.published) <= set(lines)
    assert all(parse_solver(spec) for spec in experiment.curve.solvers.values())
    grid = next(m for m in experiment.methods if m.name == "best-of-grid BP + seq-decoding")
    assert len(set(grid.specs())) == 21


def test_mistakes(tmp_path) -> None:
    with pytest.raises(OptionError, match="There is no experiment 'isng'"):
        load("isng")
    with pytest.raises(OptionError, match="There is no method 'FE-Nets'"):
        load_marginal("ising").selected("BP,FE-Nets")
    chosen = load_marginal("ising").selected("FE-GNN, D 32", "50,500")
    assert chosen.sizes == (50, 500)
    assert [line.name for line in chosen.models] == ["FE-GNN, D 32"]
    broken = tmp_path / "mine.toml"
    for text, match in (
        ("title = 3\n", "not the config of an experiment"),
        ('task = "MAP"\n', "not the config of a MAP experiment"),
        ("=", "TOML"),
    ):
        broken.write_text(text)
        with pytest.raises(FormatError, match=match):
            load(str(broken))
    with pytest.raises(OptionError, match="is an experiment on MAP"):
        load_marginal("uai")
