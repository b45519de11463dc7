"""`equifactor doctor`: an installation that works, and installations that do not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from equifactor import __version__
from equifactor.cli import installation_checks


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return the output of the solve in another process, without starting the process."""
    told: dict[str, object] = {
        "compile_seconds": 0.2, "cache": str(Path.cwd()), "cold_seconds": 0.3, "warm_seconds": 0.001, "error": ""
    }  # fmt: skip

    def tried(program: str) -> tuple[dict[str, object], str]:
        return {key: value for key, value in told.items() if key != "error"}, str(told["error"])

    monkeypatch.setattr(installation_checks, "_tried", tried)
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    return told


def test_a_sound_installation(command) -> None:
    ran = command("doctor", "--json")
    found = json.loads(ran.out)
    assert (ran.status, found["usable"], found["problems"]) == (0, True, [])
    assert found["equifactor"]["version"] == __version__
    assert found["kernels"]["compile_seconds"] > 0
    assert found["extras"]["torch"]["extra"] == "learned"
    assert found["weights"]["fe-net-mar"]["task"] == "MAR"


def test_in_words(command, trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIFACTOR_DATA", "nowhere")
    ran = command("doctor")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert "  first small solve  300 ms" in lines
    assert "  fe-nbp-map        fe-nbp for MAP, 4,865 parameters" in lines
    assert (
        "note: EQUIFACTOR_DATA: nowhere: there is no such folder. Fetch it with `equifactor download nowhere`." in lines
    )
    assert lines[-1] == "equifactor works here"


def test_kernels_that_are_not_compiled_yet(command, trial) -> None:
    del trial["cold_seconds"], trial["warm_seconds"]
    trial |= {"error": installation_checks._LATE, "cache": None}
    ran = command("doctor")
    assert ran.status == 0
    assert "note: kernels are not compiled yet" in ran.out
    assert "  none: no folder of this user can be written" in ran.out
    assert "set NUMBA_CACHE_DIR to a folder that you can write" in ran.out


def test_what_cannot_be_used_exits_1(command, trial, monkeypatch: pytest.MonkeyPatch) -> None:
    trial.clear()
    trial["error"] = "ImportError: llvmlite"
    ran = command("doctor")
    assert ran.status == 1
    assert "problem: kernels do not compile (ImportError: llvmlite): pip install --upgrade numba llvmlite" in ran.out
    monkeypatch.setattr(installation_checks, "is_installed", lambda package: package != "numba")
    ran = command("doctor")
    assert ran.status == 1
    assert "problem: numba must be installed: pip install --upgrade equifactor" in ran.out


def test_a_gpu_that_torch_does_not_see(command, trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "NVIDIA H200, 143771 MiB, 570.1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    trial["torch_sees"] = False
    out = command("doctor").out
    assert "  cuda:0  NVIDIA H200, 143771 MiB, driver 570.1" in out
    assert "does not see the GPU" in out
    trial |= {"torch_sees": True, "triton_seconds": 2.5}
    assert "  Triton  kernels run, the first after 2.5 s" in command("doctor").out


def test_compiling_beforehand(command, trial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran = []
    monkeypatch.setattr("equifactor.cli.kernel_warming.families", lambda: {"one": lambda: ran.append("one")})
    monkeypatch.setattr("equifactor.kernels.kernel_folders._instead", [])
    monkeypatch.setattr("equifactor.kernels.kernel_folders.SHIPPED", tmp_path / "compiled")
    assert command("doctor", "--warm").status == 0
    assert command("doctor", "--warm", "--everyone").status == 0
    assert ran == ["one", "one"]
    assert (tmp_path / "compiled").is_dir()
    assert command("doctor", "--everyone").status == 2


def test_how_many_kernels_are_ready(command, trial) -> None:
    lines = command("doctor").out.splitlines()
    assert any(re.match(r"  ready  +\d+ of \d+ kernels", line) for line in lines)
