"""Without torch all formats and all solvers except the baselines work; other code explains how to install torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("without_torch.py")
LEARNED = {"bpnn", "fgnn", "ggnn", "nebp"}
IN_TORCH = {
    "BPLayer", "Beliefs", "CRF", "CRFAnswer", "ChainCRF", "Network", "NetworkState", "Replay", "beliefs", "load_model",
    "Wiring", "log_scores", "save_model",
}  # fmt: skip
SENTENCE = 'needs torch: pip install "equifactor[learned]"'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("without_torch")
    done = subprocess.run([sys.executable, PROGRAM], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_public_names(report: dict[str, Any]) -> None:
    assert report["names"] == {name: f"{name} {SENTENCE}" for name in IN_TORCH}


def test_solvers(report: dict[str, Any]) -> None:
    found = report["solvers"]
    assert {name for name, tasks in found.items() if "error" in tasks} == LEARNED
    assert all(found[name] == {"error": f"{name} {SENTENCE}"} for name in LEARNED)
    assert {name for name, tasks in found.items() if "skipped" in tasks} <= {"ganak", "toulbar2"}
    assert found["fe-net"] == {"MAR": "iteration-limit", "PR": "iteration-limit", "MAP": "converged"}
    assert found["auto"] == {"MAR": "exact", "PR": "exact", "MAP": "optimal"}


def test_formats(report: dict[str, Any]) -> None:
    assert len(report["formats"]) == 10


def test_commands(report: dict[str, Any]) -> None:
    for line, (status, out, err) in report["commands"].items():
        assert status == 0, f"{line}: {err}"
        assert (SENTENCE in out) == (line in ("doctor", "solvers")), line


def test_sentences(report: dict[str, Any]) -> None:
    for line, (status, _, err) in report["sentences"].items():
        assert status == 2, line
        assert SENTENCE in err
        assert len(err.strip().splitlines()) == 1
