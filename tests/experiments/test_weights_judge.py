"""Making and judging small versions of the weights of the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import weights_judge
from experiments.experiment_commands import main
from experiments.network_files import shipped_folder
from experiments.weights_judge import judgements
from experiments.weights_training import KINDS, balancing_weights, mixture, weights_config


def test_every_family_of_the_mixture_has_its_own_seed() -> None:
    for kind in KINDS:
        texts = mixture(kind, "MAP", share=0.01)
        assert len({text.rpartition("seed=")[2] for text in texts}) == len(texts)
        assert all(", n=" in text for text in texts)
    assert mixture("fe-net", "MAR")[0] == "ising(4x4, coupling_std=0.3, n=300, seed=7000000)"


def test_families_of_a_small_error_weigh_more() -> None:
    weak, strong = (f"ising(3x3, coupling_std={c}, n=2, seed=1)" for c in (0.3, 4.0))
    weights = balancing_weights("fe-nbp", [weak, strong], 0.8)
    assert len(weights) == 4
    assert weights[0] == weights[1] > weights[2] == weights[3]


@pytest.mark.slow
def test_weights_are_judged_once_and_anew_when_they_change(tmp_path: Path, monkeypatch, capsys) -> None:
    config = weights_config()
    small = {"tiny": "ising(3x3, n=3)"}
    monkeypatch.setattr(weights_judge, "weights_config", lambda: {**config, "judged": {"MAR": small, "MAP": small}})
    for task in ("MAR", "MAP"):
        (run,) = judgements(task, shipped_folder(), None)
        assert run.generator.startswith("ising(3x3, n=3, seed=9")
        command = ["judge", task, "--out", str(tmp_path)]
        assert main(command) == 0
        assert "| tiny | 3 |" in capsys.readouterr().out
        content = (tmp_path / "results.json").read_text()
        assert main(command) == 0
        assert (tmp_path / "results.json").read_text() == content
        capsys.readouterr()
        assert main([*command, "--weights", str(tmp_path)]) == 1
        assert "made with other settings" in capsys.readouterr().err
    assert set(json.loads((tmp_path / "results.json").read_text())) == {"MAR", "MAP"}
