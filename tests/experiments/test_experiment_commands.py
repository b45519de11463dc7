"""The program from end to end with --quick: marginals, MAP on a generated folder, stopped runs, mistakes."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
import typer

from equifactor.evaluation.provenance import provenance
from experiments.experiment_commands import app, main
from experiments.experiment_config import MARGINAL, load_marginal
from experiments.run_store import read_archive

QUICK = "BP,BP damped + seq-decoding,MPLP,best-of-grid BP + seq-decoding,auto,BPNN,FE-NBP"


def test_every_help_ends_with_an_example_of_its_command(capsys) -> None:
    command = typer.main.get_command(app)
    for name in command.commands:  # type: ignore[attr-defined]
        assert main([name, "--help"]) == 0
        examples = capsys.readouterr().out.partition("Example:\n")[2].strip().splitlines()
        mine = [shlex.split(line)[3:] for line in examples if line.strip().startswith("python -m experiments")]
        assert mine
        for words in mine:
            assert words[0] == name
            if name in MARGINAL and "--methods" in words:
                assert load_marginal(name).selected(words[words.index("--methods") + 1]).models
            assert command.get_command(None, name).make_context(name, words[1:])  # type: ignore[attr-defined]
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_results_name_the_command_as_one_types_it(monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/experiments/__main__.py", "ising", "--methods", "BP, T 10"])
    assert provenance()["command"] == "python -m experiments ising --methods 'BP, T 10'"
    monkeypatch.setattr("sys.argv", ["/somewhere/equifactor/__main__.py", "demo"])
    assert provenance()["command"] == "equifactor demo"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "ising" else [pytest.mark.slow]) for n in MARGINAL])
def test_the_quick_form_runs_end_to_end(name: str, tmp_path, capsys) -> None:
    experiment = load_marginal(name)
    rows = [experiment.classical[0].name, "FE-NBP"]
    assert main([name, "--quick", "--methods", ",".join(rows), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "| FE-NBP |" in said
    results = json.loads((tmp_path / "results.json").read_text())
    assert [r["name"] for r in results["runs"]] == rows
    assert all(0 < r["kl"] < 1 and 0 < r["rmse"] < 1 and r["graphs"] == 100 for r in results["runs"])
    assert {"command", "commit", "date", "torch"} <= set(results["provenance"])
    assert (tmp_path / "table.tex").read_text().startswith("\\begin{tabular}")
    if experiment.families:
        assert "## Other families of graphs, KL" in said
        assert all(r["families"].keys() == {f.name for f in experiment.families} for r in results["runs"])
    if experiment.step_factors:
        assert "## After more and fewer steps, KL" in said
        assert (tmp_path / "steps.png").is_file()
    # All runs are in the archive, and tables follow from it.
    assert len(read_archive(tmp_path / "runs.jsonl.xz")) == len(results["runs"]) + len(results["tuning"])
    assert not (tmp_path / "runs").exists()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert main([name, "--quick", "--methods", ",".join(rows), "--report-only", "--out", str(tmp_path)]) == 0
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}


def test_runs_of_other_settings_are_named_and_done_anew_when_asked(tmp_path, capsys) -> None:
    config = Path(__file__).parents[2] / "experiments" / "asymmetric" / "config.toml"
    other = tmp_path / "mine.toml"
    other.write_text(config.read_text().replace("seed=", "seed=1"))
    command = ["asymmetric", "--quick", "--methods", "BP", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    capsys.readouterr()
    for option in ([], ["--report-only"]):
        assert main([*command, "--config", str(other), *option]) == 1
        assert "BP: the run in" in capsys.readouterr().err
    assert main([*command, "--config", str(other), "--redo"]) == 0
    assert "| BP |" in capsys.readouterr().out


@pytest.mark.slow
def test_map_runs_end_to_end_and_again_without_solving(folder: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    command = ["uai", "--quick", "--data", str(folder), "--out", str(out)]
    assert main([*command, "--methods", QUICK]) == 0
    page = capsys.readouterr().out
    assert "| Grids (2 / 2) | Segment (2 / 2) |" in page
    assert "| best-of-grid BP + seq-decoding | " in page
    assert "BPNN on Segment: bpnn was made for variables of 2 states" in page
    assert "SRMP on Grids, seed 0: 0 of 2 models are solved" in page
    assert "## Cross-validation over all models" in page
    results = json.loads((out / "results.json").read_text())
    exact = results["cells"]["split"]["auto"]
    assert all(exact[c]["error"] == 0 and exact[c]["proven"] == 2 for c in ("Grids", "Segment"))
    assert {"command", "code", "date", "torch"} <= set(results["provenance"])
    assert {p["solver"] for p in results["curve"]} >= {"auto", "MPLP", "BP damped + seq-decoding"}
    assert [(d["collection"], d["isomorphic"]) for d in results["doubles"]] == [("Grids", []), ("Segment", [])]
    assert str(tmp_path) not in json.dumps(results["answers"])
    assert (out / "table.tex").read_text().startswith("\\begin{tabular}")
    assert (out / "anytime.png").stat().st_size > 0
    lines = (out / "runs" / "rows.jsonl").read_text()
    assert main([*command, "--methods", QUICK]) == 0
    assert (out / "runs" / "rows.jsonl").read_text() == lines  # Nothing was run again.
    # The archive alone gives the same results, without solved models and model files.
    texts = {name: (out / name).read_text() for name in ("results.json", "table.md", "table.tex")}
    (out / "runs" / "rows.jsonl").unlink()
    for model in (out / "models").iterdir():
        model.unlink()
    assert main([*command, "--methods", QUICK]) == 0
    assert texts == {name: (out / name).read_text() for name in texts}
    assert not (out / "runs" / "rows.jsonl").exists()
    # Another part is added to the same tables.
    capsys.readouterr()
    assert main([*command, "--methods", "SRMP", "--collections", "Grids", "--train", "no", "--parts", "split"]) == 0
    page = capsys.readouterr().out
    assert "SRMP on Grids, seed" not in page
    assert "| FE-NBP | " in page


def test_training_stops_at_its_time_and_goes_on(folder: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    command = ["uai", "--quick", "--data", str(folder), "--out", str(out), "--collections", "Grids"]
    command += ["--methods", "FE-NBP", "--train", "only", "--parts", "split"]
    assert main([*command, "--time-limit", "0"]) == 1
    assert "not started within the time limit. Run the same command again" in capsys.readouterr().err
    assert main(command) == 0
    assert len(list((out / "models").glob("FE-NBP-Grids-*.safetensors"))) == 1
    assert not list((out / "models").glob("*.checkpoint"))


def test_mistakes(folder: Path, capsys) -> None:
    assert main(["uai", "--data", str(folder), "--methods", "BPP"]) == 2
    assert "There is no method 'BPP'" in capsys.readouterr().err
    assert main(["uai", "--data", str(folder), "--train", "maybe"]) == 2
    assert main(["uai", "--data", str(folder), "--parts", "all"]) == 2
    assert "choose from: " in capsys.readouterr().err
    assert main(["uaii"]) == 2
    assert "No such command 'uaii'" in capsys.readouterr().err
    assert main(["ising", "--config", "experiments/uai/config.toml"]) == 2
    assert main(["judge", "PR"]) == 2
    assert main(["weights", "fe-net", "MAR", "--network", "3"]) == 2


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("EQUIFACTOR_DATA"), reason="EQUIFACTOR_DATA is not set")
def test_the_public_models(tmp_path: Path) -> None:
    command = ["uai", "--quick", "--out", str(tmp_path), "--collections", "Grids,DBN"]
    assert main([*command, "--methods", "BP,auto,FE-NBP", "--parts", "split,doubles"]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    for line in ("BP", "auto", "FE-NBP"):
        assert set(results["cells"]["split"][line]) == {"Grids", "DBN"}
    assert results["cells"]["split"]["auto"]["Grids"]["error"] < results["cells"]["split"]["BP"]["Grids"]["error"]
