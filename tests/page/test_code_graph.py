"""Codes on the page: observing the detectors of a code gives the probabilities of its errors."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor.cli import main
from equifactor.page.code_graph import is_code, read_code_graph
from equifactor.page.model_session import ModelSession

DEM = """error(0.1) D0
error(0.2) D0 D1 L0
error(0.3) D1
detector D2
"""
HAMMING = "7 3\n3 4\n1 1 2 1 2 2 3\n4 4 4\n1 0 0\n2 0 0\n1 2 0\n3 0 0\n1 3 0\n2 3 0\n1 2 3\n1 3 5 7\n2 3 6 7\n4 5 6 7\n"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.dem", True),
        ("a.DEM.gz", True),
        ("a.alist", True),
        ("a.stim", True),
        ("a.npz", True),
        ("a.uai", False),
        ("-", False),
    ],
)
def test_which_files_are_codes(name: str, code: bool) -> None:
    assert is_code(name) == code


def test_errors_given_detectors(tmp_path: Path) -> None:
    path = tmp_path / "small.dem"
    path.write_text(DEM)
    graph = read_code_graph(path)
    assert graph.structure.variable_names == ("E0", "E1", "E2", "D0", "D1", "D2", "L0")
    found = ef.solve(graph.condition({"D0": "fired", "D1": "quiet"}), "MAR", "exact").marginals
    assert found is not None
    priors, weights = (0.1, 0.2, 0.3), {}
    for errors in itertools.product((0, 1), repeat=3):
        if (errors[0] + errors[1]) % 2 == 1 and (errors[1] + errors[2]) % 2 == 0:
            weights[errors] = np.prod([p if e else 1 - p for p, e in zip(priors, errors, strict=True)])
    total = sum(weights.values())
    for k in range(3):
        assert found[k][1] == pytest.approx(sum(w for e, w in weights.items() if e[k]) / total)
    assert found["L0"][1] == pytest.approx(found["E1"][1])
    assert found["D2"][0] == 1.0


@pytest.mark.parametrize("suffix", ["alist", "npz"])
def test_the_words_of_a_matrix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"hamming.{suffix}"
    path.write_text(HAMMING)
    if suffix == "npz":
        np.savez(path, H=(np.arange(1, 8) >> np.arange(3)[:, None]) & 1)
    graph = read_code_graph(path)
    assert ef.solve(graph, "PR", "exact").log_z == pytest.approx(4 * np.log(2))
    assert graph.structure.variable_names == tuple(f"bit {i}" for i in range(7))


def test_the_errors_of_a_matrix_with_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "code.npz"
    np.savez(path, H=[[1, 1, 0], [0, 1, 1]], priors=[0.1, 0.2, 0.3], observables=[[0, 1, 0]])
    assert read_code_graph(path).structure.variable_names == ("E0", "E1", "E2", "D0", "D1", "L0")


def test_view_shows_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSession, "solvers", ["exact"])
    path, page = tmp_path / "small.dem", tmp_path / "page.html"
    path.write_text(DEM)
    assert main(["view", str(path), "-e", "D0=fired", "--solver", "exact", "--export", str(page)]) == 0
    (held,) = re.findall(r'id="equifactor-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    data = json.loads(held)
    assert data["graph"]["factors"]["kinds"].count("parity") == 3  # D2 alone is a table
    assert data["session"]["evidence"] == {"3": 1}
