"""The page docs/symmetries.md: its examples run, its picture is drawn, its network fails as measured."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "symmetries.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
def test_examples_run(example: str) -> None:
    names: dict[str, object] = {}
    exec(compile(example, "symmetries.md", "exec", dont_inherit=True), names)
    assert len(names) > 1  # it came to its end and made something


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", PAGE):
        assert (DOCS / target).is_file(), target


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
