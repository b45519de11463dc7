"""The set-up files agree with each other and contain nothing about the machine on which they were made."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_dependency_is_pinned_once() -> None:
    pins = re.findall(r"^([\w.-]+)==\S+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    names = [_plain(p) for p in pins]
    assert len(names) == len(set(names))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for group in project["optional-dependencies"].values() for d in group)]
    needed = {_plain(re.match(r"[\w.-]+", w)[0]) for w in wanted} - {"equifactor"}  # type: ignore[index]
    assert needed <= set(names)


def test_constraints_name_no_host_and_no_local_build() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "--" not in text.replace("--exclude-editable", "")
    assert "+" not in text


def test_ci_checks_style_builds_site_and_wheel_and_then_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert text.startswith("#!/usr/bin/env bash\nset -euo pipefail\n")
    for step in ("make docs ", "make wheel-check ", "make lint\n"):
        assert f"\n{step}" in text
    assert text.endswith("\nmake test\n")


def test_the_installed_package_is_tried_by_a_script() -> None:
    assert os.access(ROOT / ".ci" / "try-installed", os.X_OK)
    assert ".ci/try-installed" in (ROOT / "Makefile").read_text()


def test_one_version_everywhere() -> None:
    from equifactor import __version__

    version = __version__.removesuffix(".dev0")
    sections = re.findall(r"^## \[([\d.]+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0][0] == version
    assert (sections[0][1] == "unreleased") == (version != __version__)
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_names_what_there_is() -> None:
    latest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1].split("\n### Removed")[0]
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "equifactor").rglob("*.py"))
    known = {word for source in sources for word in re.findall(r"\w+", source)}
    for name in re.findall(r"`([^`]+)`", latest):
        if re.fullmatch(r"[\w.]+(\(\))?", name) and "/" not in name and not (ROOT / name).exists():
            words = [word for word in re.findall(r"\w+", name) if word not in ("equifactor", "jsonl", "xz")]
            assert known.issuperset(words), name
        elif re.fullmatch(r"[\w./]+", name):
            assert (ROOT / name).exists(), name


def test_the_same_interpreters_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    matrix = re.search(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert matrix
    assert re.findall(r"3\.\d+", matrix[1]) == named
    low, high = (int(p.split(".")[1]) for p in (named[0], named[-1]))
    assert project["requires-python"] == f">=3.{low},<3.{high + 1}"
    assert f"(3, {low}) <= sys.version_info[:2] <= (3, {high})" in (ROOT / "Makefile").read_text()
    assert f"Python 3.{low} to 3.{high}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench", "test-slow"])
def test_make_target_installs_first(target: str) -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert shown.returncode == 0, shown.stderr
    assert "-m venv" in shown.stdout
    extras = "learned,plot" if target == "demo" else "dev"
    assert f'-e ".[{extras}]" -c constraints.txt' in shown.stdout


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["solve", "--help"], ["solvers", "bp"], ["generate", "ising", "--rows", "3", "--cols", "3"]],
)
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    _check_imports(arguments)


def test_a_small_model_needs_neither_torch_nor_numba(tmp_path: Path) -> None:
    from equifactor import FactorGraph
    from equifactor.formats import write_graph

    model = tmp_path / "pair.uai"
    write_graph(FactorGraph([2, 2], [([0, 1], [[2.0, 1.0], [1.0, 2.0]])]), model)
    _check_imports(["solve", str(model)])


def _check_imports(arguments: list[str]) -> None:
    program = (
        "import sys; from equifactor.cli import main; status = main(sys.argv[1:]);"
        "print(sorted({'torch', 'numba', 'matplotlib', 'rich'} & set(sys.modules)), status, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stderr.strip().endswith("[] 0"), done.stderr


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- names ----------------------------------------------------------------------------------------------


@functools.cache
def _sources() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in (ROOT / "equifactor").rglob("*.py")}


def _twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def test_no_two_modules_share_a_name() -> None:
    names_only = [path.with_suffix(".py") for path in (ROOT / "equifactor").glob("*.pyi")]  # such as `ef.learned`
    files = [path for path in _sources() if not path.stem.startswith("__") and path not in names_only]
    folders = [path.parent for path in _sources() if path.stem == "__init__"]
    assert _twice([path.stem for path in files] + [folder.name for folder in folders]) == []


def test_a_class_name_means_one_thing() -> None:
    classes = (re.findall(r"^class (\w+)", text, re.MULTILINE) for text in _sources().values())
    assert _twice(name for names in classes for name in names) == []


def test_only_entry_points_take_more_than_eight_arguments() -> None:
    public = {
        "solve",
        "evaluate",
        "audit",
        "decode",
        "fit",
        "large",
        "train",
        "_train",  # the command
        "sample",
        "view",
        "pairwise_field",
        "random_graph",
        "random_network",
        "pedigree",
        "ldpc",
    }
    found = set()
    for text in _sources().values():
        if text.startswith("# mypy: ignore-errors"):
            continue  # a module of kernels
        if all(head.count(":") + head.count("=") <= 8 for head in re.findall(r"def \w+\((.*?)\) *->", text, re.DOTALL)):
            continue  # every argument has a type, so no function has more than eight
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                names = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
                if len([name for name in names if name not in ("self", "cls")]) > 8:
                    found.add(node.name)
    assert found == public
