"""Kernels are compiled in the background after a first command, once, unless somebody has switched that off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equifactor.cli import background_compiling
from equifactor.cli.background_compiling import compile_in_background
from equifactor.kernels import compile_costs


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of processes that would have been started."""
    commands: list[list[str]] = []

    def start(command: list[str], **options: Any) -> None:
        assert options["start_new_session"]
        commands.append(command)

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("EQUIFACTOR_BACKGROUND")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(compile_costs, "seconds_to_compile", lambda *families, native=False: 30.0)
    monkeypatch.setattr(background_compiling.subprocess, "Popen", start)
    return commands


@pytest.mark.skipif(background_compiling.os.name != "posix", reason="priorities of POSIX")
def test_one_process_is_started(started: list[list[str]]) -> None:
    compile_in_background()
    compile_in_background()
    assert len(started) == 1
    assert started[0][1:3] == ["-m", "equifactor.cli.kernel_warming"]


@pytest.mark.parametrize(("name", "value"), [("EQUIFACTOR_BACKGROUND", "0"), ("CI", "true")])
def test_it_can_be_switched_off(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    compile_in_background()
    assert not started


def test_nothing_is_started_where_nothing_is_missing(started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_costs, "seconds_to_compile", lambda *families, native=False: 0.5)
    compile_in_background()
    assert not started


@pytest.mark.skipif(background_compiling.os.name != "posix", reason="priorities of POSIX")
def test_portable_kernels_are_replaced_once(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kernels of a wheel are ready for answers, and some are worth compiling for this processor."""
    monkeypatch.setattr(compile_costs, "seconds_to_compile", lambda *families, native=False: 30.0 if native else 0.0)
    compile_in_background()
    assert [command[3:] for command in started] == [["bp"]]
    (tmp_path / "equifactor" / "background").unlink()
    compile_in_background()
    assert len(started) == 1
