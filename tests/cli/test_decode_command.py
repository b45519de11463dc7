"""`equifactor decode`: shots from files and shots that are drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

DEM = "error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n"


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "code.dem").write_text(DEM)
    return "code.dem"


def test_the_rate_of_drawn_shots(command, code: str) -> None:
    ran = command("decode", code, "--sample", "5000", "--seed", "1", "--method", "min-sum")
    assert ran.status == 0
    first, second = ran.out.splitlines()
    assert first.startswith("logical error rate 0.0")
    assert first.endswith("of 5000 shots) by min-sum")
    assert "shots/s" in second
    row = json.loads(command("decode", code, "--sample", "5000", "--seed", "1", "--method", "min-sum", "--json").out)
    assert row["shots"] == 5000
    assert abs(row["errors"] / 5000 - 0.0280) < 0.006  # two or three of the three errors, by enumeration
    assert f"({row['errors']} of 5000" in first


@pytest.mark.parametrize("kind", ["01", "b8"])
def test_shots_from_a_file(command, code: str, kind: str, tmp_path: Path) -> None:
    shots = np.array([[1, 0], [1, 1], [0, 1], [0, 0]], np.uint8)
    content = np.packbits(shots, axis=1, bitorder="little").tobytes() if kind == "b8" else b"10\n11\n01\n00\n"
    (tmp_path / f"shots.{kind}").write_bytes(content)
    ran = command("decode", code, f"shots.{kind}", "-o", "flips.01", "--method", "min-sum")
    assert ran.status == 0
    assert (tmp_path / "flips.01").read_text() == "1\n0\n0\n0\n"
    assert "4 of 4 shots" in ran.err
    assert command("decode", code, f"shots.{kind}", "-o", "flips.b8").status == 0
    assert (tmp_path / "flips.b8").read_bytes() == b"\x01\x00\x00\x00"
    assert command("decode", code, f"shots.{kind}").out == "1\n0\n0\n0\n"


def test_wrong_use_is_one_sentence(command, code: str, tmp_path: Path) -> None:
    assert "--sample N" in command("decode", code).err
    (tmp_path / "shots.txt").write_text("10\n")
    assert "01 or b8" in command("decode", code, "shots.txt").err
    (tmp_path / "shots.01").write_text("100\n")
    ran = command("decode", code, "shots.01")
    assert ran.status == 3
    assert "a line of 2 digits" in ran.err
    (tmp_path / "shots.01").write_text("12\n")
    assert "found '2'" in command("decode", code, "shots.01").err
    assert "choose from: bp-osd" in command("decode", code, "--sample", "5", "--method", "x").err
    (tmp_path / "bare.dem").write_text("error(0.1) D0\n")
    assert "no observables" in command("decode", "bare.dem", "--sample", "5").err
