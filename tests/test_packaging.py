"""Files that a build of the package needs are part of the repository."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


def needed() -> list[str]:
    """Return the files that a build reads: those of pyproject.toml, of its backend and of MANIFEST.in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build, about = project["build-system"], project["project"]
    backend = build["build-backend"].partition(":")[0].replace(".", "/") + ".py"
    files = ["pyproject.toml", "setup.py", "MANIFEST.in", about["readme"], *about["license-files"]]
    files += [f"{folder}/{backend}" for folder in build.get("backend-path", [])]
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    return files + [word for line in lines if line.startswith("include ") for word in line.split()[1:]]


@pytest.mark.parametrize("name", needed())
def test_a_file_of_the_build_is_in_the_repository(name: str) -> None:
    assert (ROOT / name).is_file()
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout")
    ignored = subprocess.run(["git", "check-ignore", "--no-index", "-q", name], cwd=ROOT, check=False).returncode
    if ignored == 128:
        pytest.skip("git cannot read this checkout")
    assert ignored == 1, f"{name} is ignored by git, so a clone does not have it"


def test_an_archive_of_the_sources_can_be_built() -> None:
    """What the backend reads is listed in MANIFEST.in, or setuptools adds it by itself."""
    folder = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["backend-path"][0]
    read = re.findall(r'_ROOT / "([\w.]+)"', (ROOT / folder / "kernel_backend.py").read_text(encoding="utf-8"))
    assert {*read} <= {"pyproject.toml", *needed()}
    assert "constraints.txt" in read


def test_kernels_are_compiled_with_the_packages_of_an_isolated_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", lambda **settings: None)
    script = runpy.run_path(str(ROOT / "setup.py"))
    command = script["BuildWithKernels"](setuptools.Distribution())
    command.build_lib = str(tmp_path / "lib")
    command._imported = lambda name: SimpleNamespace(PORTABLE={})
    started: list[dict[str, str]] = []
    monkeypatch.setattr(subprocess, "run", lambda *arguments, env, **settings: started.append(env))
    for isolated in ("overlay", ""):
        monkeypatch.setenv("PYTHONPATH", isolated)
        command._compile(str(tmp_path))
    assert [env["PYTHONPATH"].split(os.pathsep)[1:] for env in started] == [["overlay"], []]
