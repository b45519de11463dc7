"""Data of any form become one array of state numbers, or an error with the row and column."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equifactor import EquifactorError, FactorGraph, FormatError, ModelError
from equifactor.learning.fitting.data_rows import DataRows, read_data

GRAPH = FactorGraph(
    {"rain": ["no", "yes"], "grass": ["dry", "wet"]}, [(["rain"], [1, 1]), (["rain", "grass"], [1] * 4)]
)
NUMBERED = FactorGraph({"a": ["1", "2"], "b": ["0", "1"]}, [(["a"], [1, 1]), (["a", "b"], [1] * 4)])
PLAIN = FactorGraph([2, 3], [([0], [1, 1]), ([0, 1], [1] * 6)])
WANTED = [[0, 0], [1, -1], [-1, 1]]


class Series(list):
    """The part of a pandas series that the reader uses."""

    dtype = object

    def factorize(self) -> tuple[np.ndarray, list]:
        seen = [v for v in dict.fromkeys(self) if v is not None]
        return np.array([-1 if v is None else seen.index(v) for v in self]), seen


class Frame(dict):
    """The part of a pandas frame that the reader uses."""

    @property
    def columns(self) -> list[str]:
        return list(self)


@pytest.mark.parametrize(
    "data",
    [
        np.array(WANTED),
        np.array([[0, 0], [1, np.nan], [np.nan, 1]]),
        np.array([["no", "dry"], ["yes", None], [None, "wet"]], object),
        np.ma.MaskedArray([[0, 0], [1, 0], [0, 1]], [[0, 0], [0, 1], [1, 0]]),
        WANTED,
        [{"rain": "no", "grass": "dry"}, {"rain": "yes"}, {"rain": None, "grass": "wet"}],
        [{"rain": 0, "grass": 0.0}, {"rain": 1, "grass": float("nan")}, {"grass": 1.0}],
        {"grass": ["dry", "", "wet"], "rain": ["no", "yes", None]},
        {"grass": np.array([0.0, np.nan, 1.0]), "rain": ["no", "yes", float("nan")]},
        Frame(rain=Series(["no", "yes", None]), grass=Series(["dry", None, "wet"])),
    ],
    ids=["ints", "floats", "objects", "masked", "lists", "dicts", "numbers", "columns", "mixed", "frame"],
)
def test_every_form_reads_the_same(data: object) -> None:
    table = read_data(GRAPH, data)
    assert table.states.tolist() == WANTED
    assert table.weights.tolist() == [1.0] * 3
    assert not table.is_complete
    assert not table.hidden.any()


def test_pandas_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"rain": ["no", "yes", None], "grass": ["dry", None, "wet"]})
    assert read_data(GRAPH, frame).states.tolist() == WANTED
    assert read_data(GRAPH, frame.astype("category")).states.tolist() == WANTED
    assert read_data(GRAPH, frame.astype(object)).states.tolist() == WANTED
    whole = pandas.DataFrame({"rain": [0, 1, 1], "grass": [True, False, True]})
    assert read_data(FactorGraph({"rain": 2, "grass": 2}), whole).states.tolist() == [[0, 1], [1, 0], [1, 1]]
    with pytest.raises(ModelError, match="data: two columns are called 'rain'"):
        read_data(GRAPH, pandas.concat([frame, frame[["rain"]]], axis=1))
    assert read_data(GRAPH, pandas.DataFrame(np.array(WANTED)[:1])).states.tolist() == WANTED[:1]  # columns 0 and 1
    numbers = pandas.DataFrame({"rain": [0, 1, None], "grass": pandas.array([0, None, 1], dtype="Int64")})
    assert read_data(GRAPH, numbers).states.tolist() == WANTED


def test_files(tmp_path: Path) -> None:
    text = "grass,rain\ndry,no\n,yes\n\nwet,NaN\n"
    (tmp_path / "days.csv").write_text(text)
    (tmp_path / "days.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "days.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("days.csv", "days.tsv", "days.csv.gz"):
        assert read_data(GRAPH, tmp_path / name).states.tolist() == WANTED
    (tmp_path / "plain.csv").write_text("0,1\n1,2\n0.0,\n")
    assert read_data(PLAIN, str(tmp_path / "plain.csv")).states.tolist() == [[1, 2], [0, -1]]
    (tmp_path / "long.csv").write_text("0,1\n" + "1,2\n0,\n" * 1_500)  # more than one block of rows
    assert read_data(PLAIN, tmp_path / "long.csv").states.tolist() == [[1, 2], [0, -1]] * 1_500
    (tmp_path / "numbers.csv").write_text("a,b\n1,0\n2.0,1.0\n")  # text is a name, and 2.0 can only mean the state 2
    assert read_data(NUMBERED, tmp_path / "numbers.csv").states.tolist() == [[0, 0], [1, 1]]


def test_a_variable_without_a_column_is_hidden() -> None:
    table = read_data(GRAPH, {"grass": ["dry", "wet"]})
    assert table.hidden.tolist() == [True, False]
    assert read_data(GRAPH, {"grass": ["dry"]}, hidden=["rain"]).hidden.tolist() == [True, False]
    with pytest.raises(ModelError, match="Variable rain has no values in the data and is not listed in hidden"):
        read_data(GRAPH, {"grass": ["dry", "wet"]}, hidden=[])
    with pytest.raises(ModelError, match="Variable grass is listed in hidden, but the data have values"):
        read_data(GRAPH, {"grass": ["dry", "wet"]}, hidden=["rain", "grass"])


@pytest.mark.parametrize(
    ("graph", "data", "words"),
    [
        (GRAPH, {"rain": ["no", "maybe"]}, "data, row 1, column rain: variable rain has no state 'maybe'; its states"),
        (GRAPH, {"rain": [0, 2]}, "row 1, column rain: state 2 of variable rain is out of range"),
        (GRAPH, {"rain": [0, 0.5]}, "row 1, column rain: The state of variable rain must be a whole number"),
        (GRAPH, {"rain": [0, -1]}, "row 1, column rain: state -1 of variable rain is out of range"),
        (GRAPH, {"rain": [False, True]}, "row 0, column rain: variable rain has no state False"),
        (GRAPH, {"rain": [1, True]}, "mixes True and False with numbers"),
        (GRAPH, {"rain": [["no"], ["yes"]]}, r"row 0, column rain: expected a state, found \['no'\]"),
        (NUMBERED, {"a": [1, 0]}, "can be read as a name or as a place"),
        (GRAPH, {"rian": ["no"]}, "column 'rian': The model has no variable 'rian'; did you mean rain"),
        (GRAPH, [{"rain": "no"}, {"snow": 1}], "column 'snow': The model has no variable 'snow'"),
        (GRAPH, Frame({"": [0, 1], "rain": [0, 1]}), r"an index, which to_csv\(.., index=False\) of pandas leaves out"),
        (PLAIN, {"rain": [0]}, "column 'rain': The model has no variable 'rain'; the variables have no names"),
        (PLAIN, {"0": [0], 0: [1]}, "two columns, '0' and 0, are of variable 0"),
        (PLAIN, {"rain": [0]}, "Columns must be called by the numbers of the variables, counted from 0. Rename"),
        (PLAIN, {"2": [0]}, "column '2': The model has no variable 2"),
        (GRAPH, {"rain": ["no"], "grass": ["dry", "wet"]}, "different lengths, from 1 to 2 rows"),
        (GRAPH, {"rain": "no"}, "Column rain of the data must be a list of values"),
        (GRAPH, np.zeros((3, 3), int), r"expected shape \[N, 2\], found \(3, 3\)"),
        (GRAPH, np.zeros(3, int), r"expected shape \[N, 2\], found \(3,\)"),
        (GRAPH, np.array([[0, 2]]), "row 0, column grass: expected a state from 0 to 1"),
        (GRAPH, np.array([[0, 0.5]]), "row 0, column grass: expected a state, found 0.5"),
        (GRAPH, np.array([[0j, 1]]), "found values of type complex"),
        (GRAPH, [[0, 1], [0]], "different lengths"),
        (GRAPH, [], "no rows"),
        (GRAPH, {"rain": [None, None]}, "no value of any variable"),
        (GRAPH, np.zeros((0, 2), int), "no rows"),
        (GRAPH, 7, "Data must be a pandas frame, .* found 7"),
        (GRAPH, DataRows(np.zeros((1, 3), np.int64), np.ones(1)), "3 columns, but the model has 2 variables"),
    ],
)  # fmt: skip
def test_errors_say_where(graph: FactorGraph, data: Any, words: str) -> None:
    with pytest.raises(EquifactorError, match=words):
        read_data(graph, data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "rain,grass\nno,dry\nno,dyr\n",
            r"x\.csv:3: column grass: variable grass has no state 'dyr'; did you mean dry",
        ),
        ("rain,grass\nno\n", r"x\.csv:2: expected 2 values as in the first line, found 1"),
        ("rain;grass\nno;dry\n", r"x\.csv:1: expected commas between the columns, found semicolons"),
        ("rain,rain\nno,no\n", r"x\.csv:1: two columns are called 'rain'"),
        ('rain,grass\n"no,dry\n', r"x\.csv:2: the file is not a valid table"),
        ("", "found an empty file"),
        ("rain,grass\n", "no rows"),
        (",rain\n0,no\n", "an index"),
    ],
)
def test_errors_in_files_have_a_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(EquifactorError, match=words):
        read_data(GRAPH, tmp_path / "x.csv")


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"rain\n\xff\n")
    for path, words in (
        (tmp_path / "x.csv", "UTF-8"),
        (tmp_path / "x.json", "found the suffix .json"),
        ("no.csv", "no.csv"),
    ):
        with pytest.raises(FormatError, match=words):
            read_data(GRAPH, path)


def test_equal_rows_are_merged() -> None:
    rng = np.random.default_rng(0)
    table = DataRows(rng.integers(-1, 2, (200, 4)), rng.random(200))
    merged = table.merged
    assert merged.num_rows == len(np.unique(table.states, axis=0)) < 200
    for row, weight in zip(merged.states, merged.weights, strict=True):
        assert weight == pytest.approx(table.weights[(table.states == row).all(axis=1)].sum())
