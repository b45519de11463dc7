"""Columns of states in `.csv` and `.tsv` files, with line numbers for errors."""

from __future__ import annotations

import csv
import io
import os
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError, brief
from equifactor.base.files import label, read_bytes, split_name
from equifactor.formats.words import first_repeated
from equifactor.graph.reading.state_rows import Column

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import IntArray

_ROWS_AT_ONCE = 1_000  # The number of rows that are converted to numbers at a time. Chosen by hand.


def read_csv(path: PathLike) -> list[Column]:
    """Read the columns of a `.csv` file, or a `.tsv` file with tabs; `.gz` and `.xz` files are decompressed.

    The first line has the names of the columns. Rows are converted to numbers 1,000 at a time, so that a file of a
    million rows needs little more memory than its text.
    """
    where, suffix = label(path), split_name(path)[1]
    if suffix not in (".csv", ".tsv", "") and os.fspath(path) != "-":
        raise FormatError(f"{where}: expected a .csv or .tsv file, found the suffix {suffix}.")
    text = io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8", newline="")
    reader = csv.reader(text, delimiter="\t" if suffix == ".tsv" else ",", strict=True)
    try:
        names = [name.strip() for name in next(filter(None, reader), [])]
        _check_names(where, names)
        numberings = [_Numbering() for _ in names]
        codes: list[list[IntArray]] = [[] for _ in names]
        lines: list[int] = []
        while read := [(reader.line_num, row) for row in islice(reader, _ROWS_AT_ONCE)]:
            rows = [row for _, row in read if row]  # an empty line is not a row
            new_lines = [line for line, row in read if row]
            _check_lengths(where, names, rows, new_lines)
            lines += new_lines
            for numbering, own, column in zip(numberings, codes, zip(*rows, strict=True), strict=False):
                own.append(np.fromiter(map(numbering.__getitem__, column), np.int64, len(column)))
    except csv.Error as error:
        raise FormatError(f"{where}:{reader.line_num}: the file is not a valid table ({error}).") from None
    except UnicodeDecodeError:
        raise FormatError(f"{where}:{reader.line_num + 1}: expected text in UTF-8, found other bytes") from None
    return [
        Column(name, np.concatenate([np.zeros(0, np.int64), *own]), where, lines, list(numbering))
        for name, numbering, own in zip(names, numberings, codes, strict=True)
    ]


class _Numbering(dict[str, int]):
    """A dictionary that numbers texts 0, 1, .. in the order of their first lookup."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def _check_names(where: str, names: list[str]) -> None:
    if not names:
        raise FormatError(f"{where}: expected a line with the names of variables, found an empty file")
    if len(names) == 1 and ";" in names[0]:
        raise FormatError(f"{where}:1: expected commas between the columns, found semicolons")
    if (twice := first_repeated(names)) is not None:
        raise FormatError(f"{where}:1: two columns are called {brief(twice)}. Rename one of them.")


def _check_lengths(where: str, names: list[str], rows: list[list[str]], lines: list[int]) -> None:
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise FormatError(f"{where}:{line}: expected {len(names)} values as in the first line, found {len(row)}")
