"""The command `view`: the page that it serves or writes, and input that it refuses in one sentence."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

import pytest

from equifactor import FactorGraph
from equifactor.page.model_session import ModelSession

pytestmark = pytest.mark.usefixtures("plain_numpy")


def test_it_serves_until_ctrl_c(process, grid: FactorGraph) -> None:
    with process("view", "grid.uai", "-e", "0=1", "--no-browser") as running:
        url = running.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}api/session", timeout=600) as reply:
            session = json.load(reply)
        assert session["title"] == "grid.uai"
        assert session["evidence"] == {"0": 1}
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=600)
    assert running.returncode == 0
    assert said == (
        "equifactor: open this address in a browser on this machine; Ctrl-C stops the server\n"
        "equifactor: the server has stopped\n"
    )


def test_export(command, grid: FactorGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSession, "solvers", ["exact"])
    ran = command("view", "grid.uai", "--export", "page.html")
    assert (ran.status, ran.err) == (0, "equifactor: the page was written to page.html\n")
    assert '"readonly":true' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_training_log(command, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"epoch": 0, "loss": null, "best": 0.5}\n')
    (tmp_path / "mine.safetensors").write_bytes(b"")
    for path in ("mine.jsonl", "mine.safetensors", "."):
        assert command("view", path, "--export", "page.html").status == 0
        assert '"training":{"runs":[{"name":"mine"' in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["nothing.uai"], 3, "nothing.uai: cannot read this file: there is no such file"),
        (["nothing.jsonl"], 3, "nothing.jsonl: cannot read this file: there is no such file"),
        (["nothing.safetensors"], 3, "the training log nothing.jsonl is missing beside it"),
        (["empty"], 3, "empty: expected a model file, a folder of results"),
        (["grid.uai", "--solver", "frob"], 2, "There is no solver 'frob'"),
        (["grid.uai", "-e", "0=7"], 3, "state 7 of variable 0 is out of range"),
        (["grid.uai", "-e", "none.evid"], 3, "none.evid: this file does not exist"),
        (["grid.uai", "--export", "none/page.html"], 3, "none/page.html: cannot write this file"),
        (["grid.uai", "--port", "99999"], 2, "--port"),
        (["mine.jsonl", "--solver", "bp"], 2, "--evidence, --solver and --sample need a model"),
    ],
)
def test_refusals(command, grid, tmp_path: Path, arguments: list[str], status: int, sentence: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine.jsonl").write_text('{"epoch": 0}\n')
    ran = command("view", *arguments, "--no-browser")
    assert ran.status == status, ran.err
    assert sentence in ran.err
    assert ran.err.count("\n") == 1
