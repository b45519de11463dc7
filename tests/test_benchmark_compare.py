"""The comparison of two checkouts: the order of measurements, and the differences that count as slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._alternate import HERE, checkout, compared, in_turn, spread


def test_checkouts_take_turns_and_the_first_round_is_not_counted() -> None:
    a, b = Path("a"), Path("b")
    visited: list[Path] = []

    def measure(tree: Path) -> dict[str, float]:
        visited.append(tree)
        return {"row": float(len(visited))}

    assert in_turn(measure, [a, b], 2) == {a: {"row": [4.0, 5.0]}, b: {"row": [3.0, 6.0]}}
    assert visited == [a, b, b, a, a, b]


def test_slower_means_beyond_the_spread() -> None:
    assert spread([2.0]) == 0.0
    assert spread([2.0, 3.0, 2.5]) == pytest.approx(0.25)
    assert spread([1.0, 1.1, 1.2, 9.0, 9.0, 9.0, 9.0, 9.0]) == pytest.approx(0.2)
    steady, noisy = [1.0, 1.0, 1.0], [1.0, 1.5, 1.6]
    assert compared([1.2, 1.2, 1.2], steady) == (1.2, 0.0, "SLOWER")
    assert compared([1.2, 1.2, 1.2], noisy)[2] == ""
    assert compared([0.5, 0.5, 0.5], noisy)[2] == "faster"
    assert compared([1.2, 1.2, 1.2], steady, least=0.3)[2] == ""


def test_a_checkout_is_recognised(tmp_path: Path) -> None:
    assert checkout(str(HERE)) == HERE
    with pytest.raises(SystemExit, match="not a checkout"):
        checkout(str(tmp_path))


def test_rows_are_measured() -> None:
    from benchmarks.compare import measure_here

    found = measure_here(["read a file", "exact MAR, 10x10"])
    assert set(found) == {"read a file, 20x20", "exact MAR, 10x10"}
    assert min(found.values()) > 0


def test_cold_commands_are_those_of_the_interpreter(tmp_path: Path) -> None:
    from benchmarks.cold import NUMPY, commands, write_models

    write_models(tmp_path)
    rows = commands(tmp_path)
    assert next(iter(rows)) == NUMPY
    assert all(command[1:3] == ["-m", "equifactor"] for name, command in rows.items() if "import" not in name)
