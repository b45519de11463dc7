"""`equifactor large`: beliefs of a file of edges."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import equifactor as ef

EDGES = np.array([[0, 1], [1, 2], [3, 1], [2, 4]], np.int32)


def test_the_command(command, tmp_path: Path) -> None:
    np.save(tmp_path / "edges.npy", EDGES)
    arguments = ("edges.npy", "--table", "0.7 0.3 0.2 0.8", "--priors", "0.3", "--iterations", "50")
    ran = command("large", *arguments, "-o", "beliefs.npy")
    assert (ran.status, ran.out) == (0, "")
    assert "4 edges, 5 variables: converged after" in ran.err
    expected = ef.large.solve(EDGES, [[0.7, 0.3], [0.2, 0.8]], priors=0.3, iterations=50)
    np.testing.assert_array_equal(np.load(tmp_path / "beliefs.npy"), expected.beliefs)
    about = json.loads(command("large", *arguments, "-o", "beliefs.npy", "--json").out)
    assert (about["status"], about["iterations"]) == ("converged", expected.iterations)
    early = json.loads(command("large", *arguments, "-o", "beliefs.npy", "--json", "--time-limit", "0").out)
    assert (early["status"], early["change"]) == ("time-limit", None)
    assert command("large", *arguments[:-1], "1", "-o", "beliefs.npy", "--strict").status == 1
    many = ("--table", "2 1 1 1 2 1 1 1 2", "--priors", "0.2 0.5 0.3", "-o", "beliefs.npy")
    assert command("large", "edges.npy", *many).status == 0
    expected = ef.large.solve(EDGES, np.eye(3) + 1.0, priors=[0.2, 0.5, 0.3])
    np.testing.assert_array_equal(np.load(tmp_path / "beliefs.npy"), expected.beliefs)
    assert "a .npy or .parquet file" in command("large", *arguments, "-o", "beliefs.csv").err
    assert "4, 9, 16 .. numbers" in command("large", "edges.npy", "--table", "1 2 3", "-o", "beliefs.npy").err


def test_beliefs_do_not_replace_the_model(command, tmp_path: Path) -> None:
    np.save(tmp_path / "edges.npy", np.array([[0, 1]]))
    ran = command("large", "edges.npy", "--table", "1 2 2 1", "-o", "edges.npy")
    assert ran.status == 2
    assert "the same command reads this file" in ran.err
    assert np.load(tmp_path / "edges.npy").tolist() == [[0, 1]]
