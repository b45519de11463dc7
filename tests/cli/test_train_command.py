"""`equifactor train`: a model file from the command line, and every failure in one sentence."""

from __future__ import annotations

import json
import signal

import pytest

from equifactor.cli import main
from equifactor.decoding import MemoryNetwork
from equifactor.learning.training import training_loop as loop

RUN = ["train", "fe-nbp", "--data", "ising(3x3, n=30)", "--epochs", "2", "--batch-size", "10", "--set", "steps=3"]


def test_a_model_is_trained_described_and_used(tmp_path, capsys) -> None:
    out, grid = tmp_path / "mine.safetensors", tmp_path / "grid.uai"
    assert main([*RUN, "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{out}: best in epoch ")
    assert "validation kl" in said.out
    lines = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1, 2]
    assert {"loss", "kl", "rmse", "best", "seconds", "graphs_per_second"} <= set(lines[1])
    assert main(["model", str(out)]) == 0
    assert "steps=3" in capsys.readouterr().out
    assert main(["generate", "ising", "--rows", "3", "--cols", "3", "-o", str(grid)]) == 0
    assert main(["solve", str(grid), "--task", "MAR", "--solver", str(out)]) == 0
    assert capsys.readouterr().out.startswith("MAR")
    assert main(["solve", str(grid), "--task", "MAP", "--solver", str(out)]) == 2
    assert "was trained for MAR and cannot do MAP" in capsys.readouterr().err


def test_a_run_cut_by_its_time_limit_says_how_to_go_on(tmp_path, capsys) -> None:
    out = tmp_path / "mine.safetensors"
    assert main([*RUN, "--out", str(out), "--time-limit", "0"]) == 1
    assert "add --resume to continue" in capsys.readouterr().err
    assert main([*RUN, "--out", str(out), "--resume"]) == 0
    assert "best in epoch" in capsys.readouterr().out


@pytest.mark.parametrize("task", ["MAR", "DECODE"])
def test_an_existing_model_file_is_replaced_only_on_request(task, tmp_path, capsys) -> None:
    out = tmp_path / "mine.safetensors"
    out.write_bytes(b"days of work")
    assert main([*RUN, "--task", task, "--out", str(out)]) == 2
    assert "this file exists" in capsys.readouterr().err
    assert out.read_bytes() == b"days of work"


def test_an_interrupted_run_exits_as_every_interrupted_command(tmp_path, monkeypatch) -> None:
    step = loop.Trainer._gradient_step

    def interrupted(self, *args):
        signal.raise_signal(signal.SIGINT)
        return step(self, *args)

    monkeypatch.setattr(loop.Trainer, "_gradient_step", interrupted)
    out = tmp_path / "mine.safetensors"
    assert main([*RUN, "--out", str(out)]) == 130
    assert out.is_file()


def test_a_run_that_learns_nothing_says_that_the_network_is_untrained(tmp_path, capsys) -> None:
    assert main([*RUN, "--out", str(tmp_path / "mine.safetensors"), "--lr", "0"]) == 0
    assert "best in epoch 0 (the untrained network" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["train", "fe-nbp", "--data", "nowhere", "--out", "m.safetensors"], 3, "no such folder"),
        (["train", "fe-nbp", "--data", "ising(3x3)", "--out", "m.pt"], 2, "must end in .safetensors"),
        ([*RUN, "--out", "m.safetensors", "--set", "depth"], 2, "NAME=VALUE"),
        ([*RUN, "--out", "m.safetensors", "--set", "depth=3"], 2, "no option 'depth'"),
        ([*RUN, "--out", "m.safetensors", "--schedule", "linear"], 2, "one of cosine, constant"),
        ([*RUN, "--out", "no/such/folder/m.safetensors"], 3, "no/such/folder"),
    ],
)
def test_mistakes(arguments, status, words, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == status
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_decoder_is_trained_on_a_code_that_its_file_names(command) -> None:
    small = ("--set", "steps=1", "--set", "shots=8", "--set", "pairs=1", "--set", "legs=2", "--set", "hidden=0")
    ran = command(
        "train", "learned-memory", "--task", "DECODE", "--data", "bb72:0.08", *small, "--out", "net.safetensors"
    )
    assert ran.status == 0, ran.err
    assert "validation cost" in ran.out
    assert MemoryNetwork.load("net.safetensors").card["codes"] == ["bb72:0.08"]
    decoded = command(
        "decode",
        "bb72",
        "--prior",
        "0.05",
        "--sample",
        "50",
        "--method",
        "learned-memory(weights=net.safetensors, legs=5)",
    )
    assert decoded.status == 0, decoded.err
    assert "logical error rate" in decoded.out
