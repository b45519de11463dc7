"""Targets that are exact, cached, and never silently wrong."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from dask_processes import Dask

from equifactor import FactorGraph, OptionError, generators, solve, write_graph
from equifactor.base.clock import Clock
from equifactor.base.status import Task
from equifactor.learning.training import targets
from equifactor.learning.training.data_sources import read_source
from equifactor.learning.training.targets import with_targets


def test_a_folder_of_models_with_and_without_answers(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    graphs = generators.ising_grid(2, 3, count=3, seed=1)
    folder = tmp_path / "models"
    folder.mkdir()
    for n, graph in enumerate(graphs):
        write_graph(graph, folder / f"m{n}.uai")
    source = read_source(str(folder))
    assert len(source.graphs) == 3
    kept, wanted, left_out = with_targets(source, Task.MAR)
    assert not left_out
    for graph, target in zip(kept, wanted, strict=True):
        np.testing.assert_allclose(target, solve(graph, "MAR", "brute").marginals.values, atol=1e-9)
    assert len(list(targets.cache_folder().glob("*.npy"))) == 3
    monkeypatch.setattr(targets, "_exact", lambda graph: pytest.fail("it was in the cache"))
    again = with_targets(source, Task.MAR)[1]
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(wanted))


def test_the_best_score_is_the_optimum_of_small_graphs() -> None:
    source = read_source("ising(2x3, n=3)")
    kept, wanted, _ = with_targets(source, Task.MAP)
    for graph, target in zip(kept, wanted, strict=True):
        assert target.item() == pytest.approx(solve(graph, "MAP", "brute").log_score)


def test_graphs_without_a_known_score_are_left_out(monkeypatch) -> None:
    found = iter([1.5, -np.inf, None])
    monkeypatch.setattr(targets, "solve", lambda *given, **more: SimpleNamespace(log_score=next(found)))
    kept, wanted, left_out = with_targets(read_source("ising(2x2, n=3)"), Task.MAP)
    assert (len(kept), wanted[0].item()) == (1, 1.5)
    assert [s.split(": ")[1] for s in left_out] == ["no possible assignment was found"] * 2


def test_an_interrupted_answer_is_no_target(tmp_path, monkeypatch) -> None:
    def interrupted(*given: object, **more: object) -> SimpleNamespace:
        Clock.interrupts += 1
        return SimpleNamespace(log_score=0.0)

    monkeypatch.setattr(Clock, "interrupts", 0)
    monkeypatch.setattr(targets, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        with_targets(read_source("ising(2x2, n=3)"), Task.MAP)


def test_forced_variables_are_left_out_and_impossible_graphs_named() -> None:
    forced = FactorGraph([2, 2, 2], [([0], [0.0, 1.0]), ([0, 1], [[1, 2], [3, 4]]), ([1, 2], [[1, 2], [2, 1]])])
    impossible = FactorGraph([2], [([0], [0.0, 0.0])], name="nothing")
    kept, wanted, left_out = with_targets(read_source([forced, impossible]), Task.MAR)
    assert len(kept) == 1
    np.testing.assert_allclose(wanted[0], solve(forced, "MAR", "brute").marginals.values[2:])
    assert left_out == ["nothing: every assignment has probability zero"]
    with pytest.raises(
        OptionError, match=r"no graph can be used for training\. The first one is nothing: every assignment"
    ):
        with_targets(read_source([impossible]), Task.MAR)


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    graph = generators.ising_grid(2, 2, seed=0)
    (tmp_path / "models").mkdir()
    write_graph(graph, tmp_path / "models" / "m.uai")
    _, (answer,), left_out = with_targets(read_source(str(tmp_path / "models")), Task.MAR)
    assert not left_out
    np.testing.assert_allclose(answer, solve(graph, "MAR", "brute").marginals.values, atol=1e-9)


@pytest.mark.slow
def test_targets_from_a_cluster_are_those_of_one_machine(dask: Dask, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(targets, "_AT_ONCE", 3)
    (tmp_path / "models").mkdir()
    write_graph(generators.ising_grid(3, 3, seed=5), tmp_path / "models" / "m.uai")
    source = read_source(["ising(3x3, n=8)", str(tmp_path / "models")])
    here = {task: with_targets(source, task)[1] for task in (Task.MAR, Task.MAP)}
    for kept in targets.cache_folder().glob("*.npy"):
        kept.unlink()
    dask.scheduler()
    dask.worker("one")
    for task, wanted in here.items():
        _, found, left_out = with_targets(source, task, None, dask.address)
        assert not left_out
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(wanted))
    assert len(list(targets.cache_folder().glob("*.npy"))) == 2
