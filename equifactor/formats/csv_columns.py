"""Tables of text, `.csv` and `.tsv`: columns of states by name, with line numbers for errors."""

from __future__ import annotations

import csv
import io
import os
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.base.files import label, read_bytes, split_name
from equifactor.graph.reading.state_columns import Column

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import IntArray

_CSV_BLOCK = 1_000  # rows of a file that are turned into numbers at a time


def read_csv(path: PathLike) -> list[Column]:
    """The columns of a `.csv` file (`.tsv`: with tabs) whose first line has the names; `.gz` and `.xz` are unpacked.

    Rows are turned into numbers block by block, so that a file of a million rows needs little more than its text.
    """
    where, suffix = label(path), split_name(path)[1]
    if suffix not in (".csv", ".tsv", "") and os.fspath(path) != "-":
        raise FormatError(f"{where}: data are read from .csv and .tsv files, found {suffix}")
    text = io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8", newline="")
    reader = csv.reader(text, delimiter="\t" if suffix == ".tsv" else ",", strict=True)
    try:
        names = [name.strip() for name in next(filter(None, reader), [])]
        _check_names(where, names)
        places = [_Numbering() for _ in names]
        codes: list[list[IntArray]] = [[] for _ in names]
        lines: list[int] = []
        while block := [(reader.line_num, row) for row in islice(reader, _CSV_BLOCK)]:
            rows = [row for _, row in block if row]  # an empty line is none
            block_lines = [line for line, row in block if row]
            _check_lengths(where, names, rows, block_lines)
            lines += block_lines
            for place, own, column in zip(places, codes, zip(*rows, strict=True), strict=False):
                own.append(np.fromiter(map(place.__getitem__, column), np.int64, len(column)))
    except csv.Error as error:
        raise FormatError(f"{where}:{reader.line_num}: not a table: {error}") from None
    except UnicodeDecodeError:
        raise FormatError(f"{where}:{reader.line_num + 1}: expected text in UTF-8, found other bytes") from None
    return [
        Column(name, np.concatenate([np.zeros(0, np.int64), *own]), where, lines, list(place))
        for name, place, own in zip(names, places, codes, strict=True)
    ]


class _Numbering(dict[str, int]):
    """Numbers texts 0, 1, .. in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def _check_names(where: str, names: list[str]) -> None:
    if not names:
        raise FormatError(f"{where}: expected a line with the names of variables, found an empty file")
    if len(names) == 1 and ";" in names[0]:
        raise FormatError(f"{where}:1: expected columns with commas between them, found semicolons")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FormatError(f"{where}:1: two columns are called {twice!r}")


def _check_lengths(where: str, names: list[str], rows: list[list[str]], lines: list[int]) -> None:
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise FormatError(f"{where}:{line}: expected {len(names)} values as in the first line, found {len(row)}")
