from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

import pytest

from equifactor import OptionError
from equifactor.base.options import parse_value
from equifactor.solvers import option, parse_solver, register
from equifactor.solving import registry
from equifactor.solving.registry import SOLVERS, solver_class
from equifactor.solving.solver import GraphSolver


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
        ("", ["Cannot read the solver"]),
        ("bp(damping=0.5", ["Cannot read the solver"]),
        ("BP", ["no solver 'BP'; write bp instead"]),
        ("junction-tree(width=3)", ["no solver 'junction-tree'; write exact instead"]),
        ("bp(damping=)", ["bp: damping must be a number, found ''"]),
        (None, ["Cannot read the solver None"]),
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


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_the_table_names_the_class_that_is_registered(name: str) -> None:
    cls = solver_class(name)
    assert cls.name == name
    assert SOLVERS[name] == f"{cls.__module__}:{cls.__qualname__}"


def test_a_name_of_the_table_is_taken_before_its_file_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registry._REGISTRY, "gibbs", raising=False)
    with pytest.raises(OptionError, match="Two solvers are called 'gibbs'"):
        register("gibbs")(type("Mine", (GraphSolver,), {}))


def test_the_registry_imports_neither_torch_nor_numba() -> None:
    program = (
        "import sys, equifactor.solving.registry as r; r.solver_names(); print({'torch', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "set()"


def test_missing_torch_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registry._REGISTRY, "nebp", raising=False)

    def fail(name: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(registry.importlib, "import_module", fail)
    with pytest.raises(OptionError, match=r'nebp needs torch: pip install "equifactor\[learned\]"'):
        solver_class("nebp")


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
    with pytest.raises(OptionError, match="Two solvers"):
        register("bp")(TestOnly)
    del registry._REGISTRY["test-only"]


def test_settings_are_keywords_or_text() -> None:
    assert parse_solver("bp", {"damping": 0.5}) == parse_solver("bp(damping=0.5)")
    assert parse_solver("bp(damping=0.5)", {"damping": 0.1}) == parse_solver(parse_solver("bp"), {"damping": 0.1})
    for spec in ("bp", parse_solver("bp")):
        with pytest.raises(OptionError, match="bp has no option 'dampin'; did you mean damping"):
            parse_solver(spec, {"dampin": 0.5})
