"""The page docs/symmetries.md: its picture is drawn, and its network fails as measured."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def test_picture_is_drawn() -> None:
    pytest.importorskip("matplotlib")
    figure = runpy.run_path(str(DOCS / "figures" / "symmetries.py"))["draw"]()
    assert len(figure.axes) == 6


def test_dense_networks_over_states_fail_the_third_symmetry() -> None:
    measured = runpy.run_path(str(DOCS / "figures" / "bpnn_like.py"))["measured"]()
    errors = measured["BPNN-like"]
    assert max(errors["global"], errors["local variable"]) < 1e-12
    assert errors["variable assignment"] > 0.01
    assert max(measured["bp(damping=0.5)"].values()) < 1e-12
