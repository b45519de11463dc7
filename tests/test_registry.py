from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from equifactor import OptionError, parse_solver
from equifactor.registry import option, parse_value, register
from equifactor.solver import GraphSolver


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("bp", "bp"),
        ("bp()", "bp"),
        (" bp( damping = 0.5 ) ", "bp(damping=0.5)"),
        ("bp(damping=0.5, iterations=50, tolerance=1e-6)", "bp(iterations=50, damping=0.5)"),
        ("bp(iterations=1e2)", "bp(iterations=100)"),
        ("bp(tolerance=1e-9)", "bp(tolerance=1e-09)"),
        ("brute(limit=1024)", "brute(limit=1024)"),
    ],
)
def test_text_form_parses_and_prints(text: str, printed: str) -> None:
    solver = parse_solver(text)
    assert str(solver) == printed
    assert parse_solver(printed) == solver


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("brut", ["no solver 'brut'", "did you mean brute?", "bp"]),
        ("", ["cannot read the solver"]),
        ("bp(damping=0.5", ["cannot read the solver"]),
        ("BP", ["no solver 'BP'", "did you mean bp?"]),
        ("bp(damping=)", ["bp: damping must be a number, found ''"]),
        (None, ["cannot read the solver None"]),
        ("bp(dampin=0.5)", ["no option 'dampin'", "did you mean damping?"]),
        ("bp(damping=1.0)", ["damping", "below 1.0", "found 1.0"]),
        ("bp(damping=-0.1)", ["at least 0.0"]),
        ("bp(damping=nan)", ["damping", "found nan"]),
        ("bp(damping=much)", ["must be a number", "found much"]),
        ("bp(iterations=2.5)", ["must be a whole number", "found 2.5"]),
        ("bp(iterations=true)", ["must be a whole number", "found true"]),
        ("bp(damping=0.1, damping=0.2)", ["damping twice"]),
        ("bp(iterations=-1)", ["at least 0"]),
    ],
)
def test_mistakes_are_named(text: str, fragments: list[str]) -> None:
    with pytest.raises(OptionError) as error:
        parse_solver(text)
    for fragment in fragments:
        assert fragment in str(error.value)


def test_values() -> None:
    assert parse_value("3") == 3
    assert isinstance(parse_value("3"), int)
    assert parse_value("1e3") == 1000.0
    assert parse_value("True") is True
    assert parse_value("none") is None
    assert parse_value("'word'") == "word"


def test_a_new_solver_is_one_class() -> None:
    @register("test-only")
    @dataclass(frozen=True, kw_only=True)
    class TestOnly(GraphSolver):
        """Only for this test."""

        mode: Literal["fast", "slow"] = option("fast", "how")
        fancy: bool = option(False, "a switch")

        def run_one(self, graph, task, context):
            raise NotImplementedError

    assert str(parse_solver("test-only(fancy, mode=slow)")) == "test-only(mode=slow, fancy=true)"
    with pytest.raises(OptionError, match="one of fast, slow"):
        parse_solver("test-only(mode=medium)")
    from equifactor import registry as spec

    with pytest.raises(ValueError, match="two solvers"):
        register("bp")(TestOnly)
    del spec._REGISTRY["test-only"]
