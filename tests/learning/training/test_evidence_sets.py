"""Evidence sets of one model as training data: what is observed, mistakes, and the comparison with BP."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, OptionError, generators, train, write_graph
from equifactor.cli import main
from equifactor.learned import EvidenceSets, read_card

GRID = generators.ising_grid(3, 3, seed=2)


def test_each_set_observes_a_share_or_the_named_variables() -> None:
    learned, others = EvidenceSets(GRID, 20, 0.3).graphs(0)
    assert len(learned) == 20
    assert 1 <= len(others) <= 5
    assert all(len(g.evidence) == 3 for g in learned + others)
    keys = {tuple(sorted(g.evidence.items())) for g in learned + others}
    assert len(keys) == len(learned + others)  # no set occurs twice
    learned, _ = EvidenceSets(GRID, 20, [0, 4, 8]).graphs(0)
    assert all(set(g.evidence) == {0, 4, 8} for g in learned)
    assert len(learned) <= 7  # of at most 8 different sets
    again, _ = EvidenceSets(GRID, 20, 0.3).graphs(1)
    assert {tuple(sorted(g.evidence.items())) for g in again} != keys


def test_states_are_drawn_from_the_model() -> None:
    sure = FactorGraph({"a": 2, "b": 2, "c": 8}, [(["a"], [0.0, 1.0]), (["b"], [0.5, 0.5]), (["c"], np.ones(8))])
    learned, _ = EvidenceSets(sure, 60, ["a", "c"]).graphs(0)
    assert {g.evidence[0] for g in learned} == {1}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"count": 2}, "must be 5 to 2147483648, found 2"),
        ({"observe": 1.5}, "a share above 0 and below 1"),
        ({"observe": [0]}, "2 different evidence sets, and at least 5"),
        ({"observe": range(9)}, "At least one variable must be observed, and at least one must remain"),
    ],
)
def test_mistakes_are_one_sentence(call: dict, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        EvidenceSets(GRID, **call).graphs(0)


@pytest.mark.parametrize("task", ["MAR", "MAP"])
def test_the_network_is_compared_with_bp_on_other_sets(task: str, tmp_path) -> None:
    out = tmp_path / "m.safetensors"
    done = train("fe-nbp", EvidenceSets(GRID, 10), task, out, start="shipped", epochs=1)
    name = "test kl" if task == "MAR" else "test error"
    assert done.metrics["test graphs"] == 2
    assert np.isfinite([done.metrics[name], done.metrics[f"{name} of BP"]]).all()
    assert read_card(out).metrics[name] == done.metrics[name]


def test_a_network_is_trained_on_one_model_from_the_command_line(tmp_path, capsys) -> None:
    model, out = str(tmp_path / "m.uai"), str(tmp_path / "m.safetensors")
    write_graph(GRID, model)
    run = ["train", "fe-nbp", "--model", model, "--start", "shipped", "--epochs", "1", "--out", out]
    assert main([*run, "--evidence-sets", "10", "--observe", "0,1,2,5"]) == 0
    assert "other evidence sets: kl " in capsys.readouterr().out
    assert main([*run, "--data", "ising(3x3)"]) == 2
    assert "either --data or --model; found both" in capsys.readouterr().err
