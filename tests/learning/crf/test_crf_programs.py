"""The example programs of docs/crf.md beat networks without neighbours."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("tagging", ["--steps", "60"]),
        ("denoising", ["--size", "6", "--steps", "30", "--batch", "8"]),
        pytest.param("denoising", ["--size", "4", "--steps", "25", "--loss", "marginals"], marks=pytest.mark.slow),
    ],
)
def test_the_programs_learn(program: str, arguments: list[str]) -> None:
    right = list(runpy.run_path(str(ROOT / "examples" / f"{program}.py"))["main"](arguments).values())
    assert right[1] > right[0] + 0.02
    assert right[2] > right[0] + 0.02
