"""`equifactor model`, and model files in place of the name of a solver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equifactor import FactorGraph, __version__, solve


@pytest.fixture
def model(command, write_model) -> str:
    return write_model("mine.safetensors", hidden=8)


def test_in_words(command, model: str) -> None:
    out = command("model", model).out
    lines = {line[:18].strip(): line[18:].strip() for line in out.splitlines()[1:]}
    assert out.startswith("mine.safetensors\n")
    assert lines["kind"].startswith("fe-nbp: Belief propagation whose damping")
    assert "hidden=8" in lines["settings"]
    assert lines["task"] == "MAR, also used for PR"
    assert lines["trained on"] == "ising(4x4, n=10)"
    assert lines["measures"] == "kl 0.25"
    assert lines["gradient steps"] == "7"
    assert lines["symmetries"] == "global, local variable, variable assignment"
    assert lines["written by"] == f"equifactor {__version__}"


def test_as_json(command, model: str) -> None:
    ran = command("model", model, model, "--json")
    row, same = (json.loads(line) for line in ran.out.splitlines())
    assert row == same
    assert (row["kind"], row["task"], row["settings"]["hidden"], row["parameters"]) == ("fe-nbp", "MAR", 8, 129)
    assert row["metrics"] == {"kl": 0.25}
    assert row["symmetries"] == ["global", "local variable", "variable assignment"]


def test_what_is_no_model_exits_3_with_one_sentence(command, model: str, grid: FactorGraph) -> None:
    Path("cut.safetensors").write_bytes(Path(model).read_bytes()[:-5])
    for file, words in (("none", "no such file"), ("grid.uai", "not a model file"), ("cut.safetensors", "truncated")):
        ran = command("model", file)
        assert ran.status == 3
        assert words in ran.err
        assert len(ran.err.strip().splitlines()) == 1


def test_solve_takes_model_files(command, model: str, grid: FactorGraph) -> None:
    ran = command("solve", "grid.uai", "--solver", f"{model}(iterations=4)", "--json")
    row = json.loads(ran.out)
    assert row["solver"] == "fe-nbp(iterations=4, weights=mine.safetensors)"
    assert row["log_z"] == pytest.approx(solve(grid, "MAR", row["solver"]).log_z)
    wrong = command("solve", "grid.uai", "--solver", model, "--task", "MAP")
    assert wrong.status == 2
    assert "was trained for MAR and cannot do MAP" in wrong.err


@pytest.mark.slow
def test_evaluate_compares_model_files_with_solvers(command, model: str) -> None:
    assert command("generate", "ising", "--rows", "3", "--cols", "3", "--count", "2", "-o", "grids").status == 0
    arguments = ("evaluate", "grids", "--task", "MAR", "--solver", model, "--solver", "bp", "--jobs", "2", "-o", "out")
    ran = command(*arguments)
    assert ran.status == 0, ran.err
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert {r["solver"] for r in rows} == {"fe-nbp(weights=mine.safetensors)", "bp"}
    assert all(r["answered"] for r in rows)
