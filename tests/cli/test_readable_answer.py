"""Evidence, questions and answers by name on the command line."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph, Result, read_graph, solve, write_graph
from equifactor.base.errors import ModelError, OptionError
from equifactor.cli.readable_answer import parse_evidence, parse_query, readable
from equifactor.generators import ising_grid

LAWN = Path(__file__).parents[2] / "examples" / "lawn.py"


@pytest.fixture
def lawn(tmp_path: Path) -> FactorGraph:
    (tmp_path / "lawn.bif").write_text(runpy.run_path(str(LAWN))["NETWORK"], encoding="utf-8")
    return read_graph(tmp_path / "lawn.bif")


def test_evidence_by_name_and_number(lawn: FactorGraph) -> None:
    assert parse_evidence("rain=no, lawn = very wet", lawn) == {"rain": "no", "lawn": "very wet"}
    assert parse_evidence("1=no", lawn) == {1: "no"}
    plain = FactorGraph([2, 3])
    assert parse_evidence("1=2,0=0,", plain) == {1: 2, 0: 0}
    odd = FactorGraph({"a,b": ["<5", ">=5"]})
    assert parse_evidence('"a,b=>=5"', odd) == {"a,b": ">=5"}
    assert parse_query("lawn, 0", lawn) == [3, 0]


@pytest.mark.parametrize("text", ["rain", "rain=", "=no", "rain=no,rain=yes", '"rain=no'])
def test_what_is_no_evidence_is_refused(lawn: FactorGraph, text: str) -> None:
    with pytest.raises(OptionError, match="Expected"):
        parse_evidence(text, lawn)


@pytest.mark.parametrize("text", ["snow=no", "rain=maybe", "rain=1", "9=no"])
def test_what_the_model_does_not_have_is_refused(lawn: FactorGraph, text: str) -> None:
    with pytest.raises(ModelError):
        lawn.condition(parse_evidence(text, lawn))


def test_a_question_by_name(command, lawn: FactorGraph) -> None:
    ran = command(
        "solve", "lawn.bif", "-e", "lawn=very wet,rain=no", "--query", "season,sprinkler", "--solver", "brute"
    )
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "variable   state   probability",
        "------------------------------",
        "season     spring     0.176471",
        "           summer     0.823529",
        "           autumn     0.000000",
        "           winter     0.000000",
        "sprinkler  off        0.000000",
        "           on         1.000000",
    ]


def test_a_question_in_json(command, lawn: FactorGraph) -> None:
    ran = command("solve", "lawn.bif", "-e", "rain=no", "--query", "lawn", "--json", "--solver", "brute")
    found = json.loads(ran.out)["query"]["lawn"]
    wanted = solve(lawn, "MAR", "brute", evidence={"rain": "no"}).marginals
    assert wanted is not None
    assert list(found) == ["dry", "damp", "very wet"]
    np.testing.assert_allclose(list(found.values()), wanted["lawn"])
    ran = command("solve", "lawn.bif", "--query", "lawn", "--json", "--solver", "brute", "--task", "MAP")
    assert json.loads(ran.out)["query"] == {"lawn": "dry"}


def test_names_on_a_terminal_and_uai_elsewhere(command, lawn: FactorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = command("solve", "lawn.bif", "--solver", "brute")
    assert ran.out.startswith("MAR\n4 4 0.25")
    monkeypatch.setattr("equifactor.cli.solve_command._to_terminal", lambda _: True)
    ran = command("solve", "lawn.bif", "--solver", "brute", "-e", "season=winter")
    assert "season" not in ran.out  # it is observed
    assert "lawn       dry" in ran.out


def test_a_wrong_question_is_one_sentence(command, lawn: FactorGraph) -> None:
    ran = command("solve", "lawn.bif", "--query", "snow")
    assert (ran.status, ran.out) == (3, "")
    assert "The model has no variable 'snow'; the names are season, rain, sprinkler, lawn" in ran.err


def test_other_answers(lawn: FactorGraph) -> None:
    assert readable(solve(lawn, "PR", "brute"), lawn).startswith("ln Z  ")
    assert readable(solve(lawn, "PR", "bp"), lawn).endswith("error of ln Z  not known\n")
    assert readable(solve(lawn, "MAP", "brute"), lawn, [0, 3]).splitlines()[-1].split() == ["lawn", "dry"]
    tiny = FactorGraph([2], [([0], [1.0, 1e-9])])
    assert "1.00e-09" in readable(solve(tiny, "MAR", "brute"), tiny)


def test_ln_z_on_a_terminal_has_its_bounds_and_error(
    command, lawn: FactorGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_graph(ising_grid(3, 3, seed=1), "grid.uai")
    assert command("solve", "grid.uai", "--task", "PR", "--solver", "trw").out.startswith("PR\n")
    monkeypatch.setattr("equifactor.cli.solve_command._to_terminal", lambda _: True)
    out = command("solve", "grid.uai", "--task", "PR", "--solver", "trw").out
    assert [line.partition("  ")[0] for line in out.splitlines()] == ["ln Z", "log10 Z", "upper bound of ln Z"]
    quality = {"log_z_error": 0.25, "lower_bound": -1.0, "upper_bound": 1.0}
    estimate = Result.of({**vars(solve(lawn, "PR", "brute")), **quality})
    assert readable(estimate, lawn).splitlines()[2:] == [
        "standard error of ln Z  0.25", "lower bound of ln Z  -1", "upper bound of ln Z  1"
    ]  # fmt: skip


def test_a_joint_by_name(command, lawn: FactorGraph) -> None:
    ran = command("solve", "lawn.bif", "-e", "lawn=very wet,rain=no", "--joint", "sprinkler,season")
    assert ran.status == 0
    assert ran.out.splitlines()[:5] == [
        "sprinkler  season  probability",
        "------------------------------",
        "off        spring     0.000000",
        "off        summer     0.000000",
        "off        autumn     0.000000",
    ]
    ran = command("solve", "lawn.bif", "-e", "rain=no", "--joint", "season,rain", "--query", "rain")
    titles = [line.split() for line in ran.out.splitlines()[::5][:2]]
    assert titles == [["variable", "state", "probability"], ["season", "rain", "probability"]]
    ran = command("solve", "lawn.bif", "--joint", "season,rain", "--json")
    joint = json.loads(ran.out)["joint"]
    assert joint["variables"] == ["season", "rain"]
    np.testing.assert_allclose(joint["probabilities"], solve(lawn).joint("season", "rain").values)


@pytest.mark.parametrize(
    ("args", "status", "sentence"),
    [
        (("--joint", "season,snow"), 3, "The model has no variable 'snow'"),
        (("--joint", "rain,rain"), 3, "Variable rain is named twice. Name it once."),
        (("--query", "rain,rain"), 3, "Variable rain is named twice. Name it once."),
        (("--query", ""), 2, "Expected names of variables"),
        (("-e", "rain"), 3, "rain: this file does not exist. Write observations by name as HR=HIGH,CO=LOW."),
        (("--joint", "rain", "--task", "MAP"), 2, "--joint needs probabilities"),
        (("--joint", "rain,lawn", "-e", "rain=1"), 3, "variable rain has no state '1'; its states are no, yes"),
        (("--joint", "rain,lawn", "-e", "rain=True"), 3, "variable rain has no state 'True'; its states are no, yes"),
    ],
)
def test_wrong_joints_are_one_sentence(command, lawn: FactorGraph, args: tuple, status: int, sentence: str) -> None:
    ran = command("solve", "lawn.bif", *args)
    assert (ran.status, ran.out) == (status, "")
    assert sentence in ran.err
