"""`equifactor fit`: potentials from data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph
from equifactor.formats import read_graph, write_graph

DAYS = "rain,grass\nno,dry\nno,dry\nno,wet\nyes,wet\n"


@pytest.fixture(autouse=True)
def lawn(tmp_path: Path) -> None:
    """Write `lawn.bif` with uniform tables, and `days.csv`."""
    graph = FactorGraph(
        {"rain": ["no", "yes"], "grass": ["dry", "wet"]}, [(["rain"], [0.5] * 2), (["rain", "grass"], [0.5] * 4)]
    )
    write_graph(graph, tmp_path / "lawn.bif")
    (tmp_path / "days.csv").write_text(DAYS)


def test_counts_into_a_file(command, tmp_path: Path) -> None:
    ran = command("fit", "lawn.bif", "days.csv", "-o", "fitted.bif", "--prior", "none")
    assert ran.status == 0
    assert ran.out.startswith("fitted.bif: fitted\n  method")
    assert "counts(prior=none)" in ran.out
    fitted = read_graph(tmp_path / "fitted.bif")
    assert np.exp(fitted.log_table(0)) == pytest.approx([0.75, 0.25])
    assert np.exp(fitted.log_table(1)) == pytest.approx(np.array([[2 / 3, 1 / 3], [0, 1]]))
    assert fitted.structure.state_names == (("no", "yes"), ("dry", "wet"))


def test_an_existing_file_is_replaced_only_if_asked(command, tmp_path: Path) -> None:
    before = (tmp_path / "lawn.bif").read_bytes()
    ran = command("fit", "lawn.bif", "days.csv", "-o", "lawn.bif")
    assert ran.status == 2
    assert "lawn.bif: this file exists. Add --overwrite to replace it" in ran.err
    assert (tmp_path / "lawn.bif").read_bytes() == before
    assert command("fit", "lawn.bif", "days.csv", "-o", "lawn.bif", "--overwrite").status == 0
    assert (tmp_path / "lawn.bif").read_bytes() != before
    again = ("fit", "lawn.bif", "days.csv", "-o", "lawn.bif", "--method", "em", "--checkpoint", "run.npz")
    assert command(*again).status == 2
    assert command(*again, "--overwrite").status == 0
    assert command(*again).status == 0  # it continues from the checkpoint


def test_em_with_gaps_and_settings(command, tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text(DAYS + "yes,\n,dry\n")
    ran = command(
        "fit", "lawn.bif", "gaps.csv", "-o", "fitted.uai", "--set", "restarts=2", "--set", "iterations=30",
        "--prior", "k2", "--json", "--seed", "3", "--validation", "days.csv",
    )  # fmt: skip
    assert ran.status == 0
    told = json.loads(ran.out)
    assert told["method"] == "em(prior=k2, iterations=30, restarts=2)"
    assert told["status"] == "converged"
    assert told["rows"] == 6
    assert told["validation_log_likelihood"] < 0
    assert len(told["history"]) == told["iterations"] > 2


def test_hidden_tied_fixed_and_stdout(command, tmp_path: Path) -> None:
    (tmp_path / "grass.csv").write_text("grass\ndry\nwet\n")
    ran = command("fit", "lawn.bif", "grass.csv", "-o", "-", "--hidden", "rain", "--fixed", "0", "--tied", "1")
    assert ran.status == 0
    assert ran.out.startswith("MARKOV")
    assert "-: fitted" in ran.err
    for flags, words in (
        (("--hidden", "grass"), "Variable grass is listed in hidden"),
        (("--fixed", "a"), "--fixed takes numbers of factors"),
        (("--method", "counts"), "row 0 has no value of rain. Use the method em"),
        (("--method", "emm"), "did you mean em?"),
        (("--set", "iteration=3"), "did you mean iterations?"),
        (("--validation", "1.5"), "share of the 2 rows"),
    ):
        ran = command("fit", "lawn.bif", "grass.csv", "-o", "x.bif", *flags)
        assert ran.status in (2, 3)
        assert words in ran.err


def test_errors_have_file_line_and_column(command, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("rain,grass\nno,dry\nno,dyr\n")
    ran = command("fit", "lawn.bif", "bad.csv", "-o", "x.bif")
    assert ran.status == 3
    assert "bad.csv:3: column grass: variable grass has no state 'dyr'; did you mean dry?" in ran.err
    assert command("fit", "lawn.bif", "days.csv", "-o", "no/x.bif").status == 3
    assert command("fit", "none.bif", "days.csv", "-o", "x.bif").status == 3
    assert not (tmp_path / "x.bif").exists()


def test_a_stop_writes_the_best_so_far(command, tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text(DAYS + "yes,\n")
    flags = ("fit", "lawn.bif", "gaps.csv", "-o", "x.bif", "--set", "tolerance=0", "--checkpoint", "run.npz")
    ran = command(*flags, "--time-limit", "0")
    assert ran.status == 1
    assert "run it again with the same --checkpoint" in ran.err
    assert read_graph(tmp_path / "x.bif").num_vars == 2
    assert command(*flags).status == 0
