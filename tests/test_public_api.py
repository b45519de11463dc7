"""The public names are those of `equifactor.__all__`, and every example keeps to them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import equifactor as ef
from equifactor.base import foreign_names

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "equifactor"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
    if path.is_file()
)
SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py"))


PARTS = [name for name in ef.__all__ if isinstance(getattr(ef, name), types.ModuleType)]


@pytest.mark.parametrize("name", ef.__all__)
def test_every_public_name_loads(name: str) -> None:
    value = getattr(ef, name)
    submodules = {module.name for module in pkgutil.iter_modules(ef.__path__)}
    assert name not in submodules or value is sys.modules[f"equifactor.{name}"]


@pytest.mark.parametrize("part", PARTS)
def test_every_name_of_a_part_loads(part: str) -> None:
    module = getattr(ef, part)
    assert all(hasattr(module, name) for name in _public(module))


@pytest.mark.parametrize("stub", [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.pyi")])
def test_a_stub_has_one_line_for_each_public_name(stub: str) -> None:
    lines = (PACKAGE / stub).read_text(encoding="utf-8").splitlines()
    names = [line.split()[-1] for line in lines if line.startswith("from ")]
    module = importlib.import_module(
        ".".join(["equifactor", *Path(stub).with_suffix("").parts]).removesuffix(".__init__")
    )
    assert sorted(names) == module.__all__
    assert len(set(names)) == len(names)


def test_the_front_door_is_small() -> None:
    assert len(ef.__all__) <= 56


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("canonical_form", "equifactor.symmetry.canonical_form"),
        ("from_pgmpy", "equifactor.interop.from_pgmpy"),
        ("load_model", "equifactor.learned.load_model"),
        ("parse_solver", "equifactor.solvers.parse_solver"),
        ("ManyResults", "equifactor.answers.ManyResults"),
        ("solve_many", "equifactor.solve(graph, evidence="),
        ("EvidenceRows", "equifactor.solve(graph, evidence="),
        ("io", "equifactor.formats"),
        ("training", "equifactor.train"),
    ],
)
def test_an_old_name_leads_to_the_new_one(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"{old} is now {new}")):
        getattr(ef, old)
    with pytest.raises(ImportError, match=re.escape(f"{old} is now {new}")):
        exec(f"from equifactor import {old}")
    assert not hasattr(ef, old)


def test_an_old_module_leads_to_the_new_place() -> None:
    for old, new in foreign_names.MODULES.items():
        for path in (old, f"{old}.results"):
            with pytest.raises(ModuleNotFoundError, match=re.escape(f"{old} is now {new}")):
                importlib.import_module(path)
        for name in re.findall(r"equifactor(?:\.\w+)+", new):
            assert hasattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])


@pytest.mark.parametrize("name", ["solvers.EvidenceRows", "solvers.learned.load_model", "solvers.learned.beliefs"])
def test_an_old_name_of_a_module_leads_to_the_new_one(name: str) -> None:
    module, _, own = name.rpartition(".")
    with pytest.raises(ImportError, match=re.escape(f"equifactor.{name} is now equifactor.")):
        exec(f"from equifactor.{module} import {own}")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("MarkovNetwork", "equifactor.FactorGraph"),
        ("DiscreteBayesianNetwork", "equifactor.BayesianNetwork"),
        ("TabularCPD", "(parents, table) in equifactor.BayesianNetwork"),
        ("LabelizedVariable", "equifactor.FactorGraph"),
        ("VariableElimination", 'equifactor.solve(graph, solver="exact")'),
        ("HMM", "equifactor.DynamicNetwork"),
        ("LazyPropagation", 'equifactor.solve(graph, solver="exact")'),
        ("BeliefPropagation", 'equifactor.solve(graph, solver="bp")'),
        ("JTree", 'equifactor.solve(graph, solver="exact")'),
        ("Mplp", 'equifactor.solve(graph, "MAP", "mplp")'),
        ("BIFReader", "equifactor.read_graph(path)"),
        ("BpOsdDecoder", "equifactor.decoding.Decoder(checks, priors, observables, method)"),
        ("BNLearner", "equifactor.fit(graph, data)"),
    ],
)
def test_a_name_of_another_package_leads_to_ours(name: str, place: str) -> None:
    text = re.escape(f"equifactor has no {name}: ") + ".*" + re.escape(place)
    with pytest.raises(AttributeError, match=text):
        getattr(ef, name)
    with pytest.raises(ImportError, match=text):
        exec(f"from equifactor import {name}")


def test_names_of_other_packages_are_not_ours_and_their_places_exist() -> None:
    names = [
        name for table in (foreign_names._PLACES, foreign_names._SOLVERS) for v in table.values() for name in v.split()
    ]
    assert len(set(names)) == len(names)
    assert not set(names) & set(ef.__all__)
    assert set(foreign_names._SOLVERS) <= set(ef.solvers.solver_names())
    for place in foreign_names._PLACES:
        for own in re.findall(r"equifactor\.(\w+)", place):
            assert own in ef.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ef.nothing


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, equifactor; print({'numpy', 'torch', 'numba', 'matplotlib', 'typer', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("page", PAGES)
def test_pages_and_examples_use_public_names_only(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    programs = [text] if page.endswith(".py") else _blocks(text)
    inline = [] if page.endswith(".py") else re.findall(r"`([^`\n]*\bef\.[^`\n]*)`", text)
    assert not [problem for program in [*programs, *inline] for problem in private_uses(program)]


@pytest.mark.parametrize("source", SOURCES)
def test_docstrings_use_public_names_only(source: str) -> None:
    tree = ast.parse((ROOT / source).read_text(encoding="utf-8"))
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, owners)]
    programs = [program for text in texts for program in (*_blocks(text), _doctest(text))]
    assert not [problem for program in programs for problem in private_uses(program)]


@pytest.mark.parametrize(
    ("program", "problems"),
    [
        ("import equifactor as ef\nef.solve; ef.generators.ising_grid; ef.symmetry.Relabelling.random", 0),
        ("from equifactor import solve, Task", 0),
        ("from equifactor.generators import ising_grid", 0),
        ("from equifactor.symmetry import relabel, nothing", 1),
        ("from equifactor.solving.registry import register", 1),
        ("import equifactor.solving.registry", 1),
        ("from equifactor import registry", 1),
        ("ef.graph.FactorGraph", 1),
        ("ef.generators.nothing", 1),
        ("ef.generators.grids", 1),
    ],
)
def test_private_uses_are_found(program: str, problems: int) -> None:
    assert len(list(private_uses(program))) == problems


def private_uses(program: str) -> Iterator[str]:
    """Return imports of `equifactor` and attributes of `ef` that are not public."""
    for path in re.findall(r"^\s*import\s+(equifactor\.[\w.]+)", program, re.MULTILINE):
        yield f"import {path}"
    for path, names in re.findall(
        r"^\s*from\s+(equifactor[\w.]*)\s+import\s+(\([^)]*\)|[^\n#]*)", program, re.MULTILINE
    ):
        part = path.removeprefix("equifactor").removeprefix(".")
        known = set(ef.__all__) if not part else _public(getattr(ef, part)) if part in ef.__all__ else set()
        for name in filter(None, (item.split(" as ")[0].strip() for item in names.strip("()").split(","))):
            if name not in known:
                yield f"from {path} import {name}"
    for first, second in re.findall(r"(?<![\w.])ef\.(\w+)(?:\.(\w+))?", program):
        if first not in ef.__all__:
            yield f"ef.{first}"
        elif second and isinstance(module := getattr(ef, first), types.ModuleType) and second not in _public(module):
            yield f"ef.{first}.{second}"


def _public(module: types.ModuleType) -> set[str]:
    """Return the names of a module: its `__all__`, or the functions and classes that it defines itself."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.getmodule(value) is importlib.import_module(module.__name__)
    }


def _blocks(text: str) -> list[str]:
    return re.findall(r"^ *```(?:python|pycon)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)


def _doctest(text: str) -> str:
    return "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", text, re.MULTILINE))
