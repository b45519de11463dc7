"""Edges, priors and beliefs in files: every form gives the same model, and wrong files are errors in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.large.large_files import read_edges, read_priors

EDGES = np.array([[0, 1], [1, 2], [3, 1], [2, 4]], np.int32)
TABLE = [[0.7, 0.3], [0.2, 0.8]]


def solved(edges: Any = EDGES, table: Any = TABLE, **settings: Any) -> ef.large.LargeResult:
    return ef.large.solve(edges, table, threads=1, **{"priors": 0.3, "iterations": 5, **settings})


def test_forms_of_edges(tmp_path: Path) -> None:
    expected = solved().log_odds
    np.save(tmp_path / "edges.npy", EDGES)
    np.save(tmp_path / "wide.npy", EDGES.astype(np.int64))
    np.save(tmp_path / "columns.npy", np.asfortranarray(EDGES))
    for k in (0, 1):
        np.save(tmp_path / f"{k}.npy", EDGES[:, k])
    pair = (tmp_path / "0.npy", tmp_path / "1.npy")
    files = [tmp_path / f"{name}.npy" for name in ("edges", "wide", "columns")]
    for source in (EDGES.tolist(), EDGES.astype(np.uint8), (EDGES[:, 0], EDGES[:, 1]), pair, *files):
        np.testing.assert_array_equal(solved(source).log_odds, expected)


def test_forms_of_priors(tmp_path: Path) -> None:
    priors = np.array([0.3, 0.3, 0.9, 0.5, 0.5, 0.5])
    np.save(tmp_path / "priors.npy", priors)
    expected = solved(priors=priors)
    assert len(expected.beliefs) == 6
    np.testing.assert_array_equal(solved(priors=tmp_path / "priors.npy").log_odds, expected.log_odds)
    assert len(solved(num_variables=9).beliefs) == 9


def test_forms_of_priors_with_more_states(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table, row = np.eye(3) + 0.5, [0.2, 0.5, 0.3]
    expected = solved(table=table, priors=row)
    assert expected.beliefs.shape == (5, 3)
    np.testing.assert_array_equal(solved(table=table, priors=[row] * 5).log_odds, expected.log_odds)
    assert (solved(table=table, priors=None).log_odds == solved(table=table, priors=np.ones((5, 3))).log_odds).all()
    some = {"node": [4, 0], "a": [0.9, 0.2], "b": [0.1, 0.5], "c": [0.0, 0.3]}
    parquet.write_table(arrow.table(some), tmp_path / "priors.parquet")
    expected = solved(table=table, priors=[[0.2, 0.5, 0.3], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0.9, 0.1, 0.0]])
    found = solved(table=table, priors=tmp_path / "priors.parquet", prior_columns=["node", "a", "b", "c"])
    np.testing.assert_array_equal(found.log_odds, expected.log_odds)
    found.save(tmp_path / "beliefs.parquet")
    read = parquet.read_table(tmp_path / "beliefs.parquet").to_pydict()
    np.testing.assert_array_equal(np.float32(read["belief_2"]), found.beliefs[:, 2])
    np.testing.assert_array_equal(np.float32(read["log_odds_0"]), found.log_odds[:, 0])
    with pytest.raises(ef.OptionError, match="prior_columns must name the variable and 3 columns"):
        solved(table=table, priors=tmp_path / "priors.parquet", prior_columns=["node", "a"])


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    pairs = np.concatenate((EDGES, rng.permuted(np.tile(np.arange(5), (60, 1)), axis=1)[:, :2]))
    tables, numbers = [TABLE, [[0.5, 0.1], [0.9, 0.8]]], rng.integers(0, 2, len(pairs))
    columns = {"kind": numbers, "from": pairs[:, 0], "to": pairs[:, 1]}
    parquet.write_table(arrow.table(columns), tmp_path / "edges.parquet", row_group_size=7)
    some = {"node": [4, 0], "fraud": [0.9, 0.2]}
    parquet.write_table(arrow.table(some), tmp_path / "priors.parquet")
    expected = solved(pairs, tables, table_of_edge=numbers, priors=[0.2, 0.5, 0.5, 0.5, 0.9])
    found = solved(
        tmp_path / "edges.parquet", tables, columns=["from", "to", "kind"], priors=tmp_path / "priors.parquet"
    )
    np.testing.assert_array_equal(found.log_odds, expected.log_odds)
    found.save(tmp_path / "beliefs.parquet")
    read = parquet.read_table(tmp_path / "beliefs.parquet").to_pydict()
    np.testing.assert_array_equal(np.float32(read["belief"]), found.beliefs)
    # Parts of the rows, as several processes read them.
    from equifactor.large.large_files import read_edges

    parts = [read_edges(tmp_path / "edges.parquet", None, ["from", "to"], (rank, 3))[0] for rank in range(3)]
    np.testing.assert_array_equal(np.concatenate([part.second for part in parts]), pairs[:, 1])
    with pytest.raises(ef.OptionError, match=r"there is no column 'to_'\. The columns are \['kind', 'from', 'to'\]"):
        solved(tmp_path / "edges.parquet", columns=["from", "to_"])
    whole = (tmp_path / "edges.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ef.FormatError, match="not a Parquet file"):
        solved(tmp_path / "cut.parquet")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"edges": EDGES[:, :1]}, "one array with two columns, one row for each edge, found the shape"),
        ({"edges": (EDGES[:, 0], EDGES[1:, 1])}, "two arrays of one length"),
        ({"edges": EDGES * 0.5}, "the ends of edges must be whole numbers, found float64"),
        ({"edges": EDGES - 1}, "numbered from 0 to at most"),
        ({"edges": EDGES.astype(np.int64) + 2**31}, "numbered from 0 to at most"),
        ({"edges": [[0, 1], [2, 2]]}, "Edge 1 joins variable 2 with itself"),
        ({"edges": "missing.npy"}, "missing.npy: cannot read this file: there is no such file"),
        ({"edges": __file__}, "not a complete .npy file"),
        ({"columns": ["a", "b"]}, "columns have names only in Parquet files"),
        ({"table": [[1.0, 0.0], [1.0, 1.0]]}, "must be a positive finite number"),
        ({"table": np.ones((3, 2))}, "must have the shape"),
        ({"table": np.ones((17, 17))}, "with K from 2 to 16 states"),
        ({"table": "a"}, "rows of positive numbers, found 'a'"),
        ({"table": np.ones((3, 3))}, "priors must be a row of 3 weights for each variable"),
        ({"table": np.ones((3, 3)), "priors": np.ones((5, 2))}, "priors must be a row of 3 weights for each variable"),
        ({"table": np.ones((3, 3)), "priors": np.ones((4, 3))}, "There are 4 priors, but an edge names variable 4"),
        ({"table": np.ones((3, 3)), "priors": np.eye(5)[:, :3]}, "the prior of variable 3 is .* weights of at least 0"),
        ({"table": np.ones((2, 2, 2))}, "There are 2 tables. State the table of each edge"),
        ({"table_of_edge": [0, 0, 1, 0]}, "An edge has table 1, but tables are numbered from 0 to 0"),
        ({"table_of_edge": [0]}, "a number from 0 to 255 for each of the 4 edges"),
        ({"priors": [0.5, 0.5]}, "There are 2 priors, but an edge names variable 4"),
        ({"priors": [0.5] * 4 + [float("nan")]}, "the prior of variable 4 is nan"),
        ({"priors": 1.5}, "from 0 to 1"),
        ({"priors": "priors.npy"}, "priors.npy: cannot read this file"),
        ({"num_variables": 3}, "num_variables must be a whole number from 5"),
        ({"damping": 1.0}, "damping must be at least 0 and below 1"),
        ({"bits": 8}, "bits must be 16 or 32, found 8"),
        ({"iterations": -1}, "iterations must be a whole number of at least 0"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_wrong_models(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ef.EquifactorError, match=message):
        solved(**settings)


def test_a_damaged_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "edges.parquet"
    parquet.write_table(arrow.table({"a": np.arange(9, dtype=np.int32), "b": np.arange(9, dtype=np.int32) + 1}), path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        for read in (lambda: read_edges(path, None, None, (0, 1)), lambda: read_priors(path, None, 2)):
            try:
                read()
            except ef.EquifactorError:
                refused += 1
    assert refused > 20
