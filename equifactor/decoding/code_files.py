"""Codes from files and objects: `.dem`, `.stim`, `.alist` (also `.gz`, `.xz`), `.npz`, models and circuits of Stim."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.options import did_you_mean
from equifactor.decoding.bicycle import BICYCLES, bicycle_code
from equifactor.decoding.dem_text import parse_dem
from equifactor.decoding.error_model import ErrorModel

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import IntArray

SUFFIXES = (".dem", ".stim", ".alist", ".npz")


def read_code(source: Any, *, basis: str | None = None, prior: float | None = None) -> ErrorModel:
    """Read the error model of a file, a text or an object of Stim.

    Args:
        source: a path, or the name of a bicycle code such as `bb144`; the text of a detector error model, which has
            several lines or begins with `error`; or a `stim.DetectorErrorModel` or `stim.Circuit`.
        basis: `X` or `Z` keeps only the detectors of a circuit that errors of the other kind flip.
        prior: the probability of every error, for sources without probabilities: `.alist`, `.npz` and names.
    """
    if isinstance(source, ErrorModel):
        _refuse_basis(basis, "a model")
        return source
    if not isinstance(source, (str, os.PathLike)):
        if type(source).__module__.partition(".")[0] != "stim":
            raise OptionError(
                f"A code must be a path, the text of a .dem file, a stim.DetectorErrorModel or a stim.Circuit, "
                f"found {source!r:.60}."
            )
        return _of_text(str(source), ".stim" if type(source).__name__ == "Circuit" else ".dem", "<stim>", basis)
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("error")):
        return _of_text(source, ".dem", "<dem>", basis)
    return _of_file(source, basis, prior)


def _of_file(path: PathLike, basis: str | None, prior: float | None) -> ErrorModel:
    from equifactor.base.files import label, read_bytes, split_name

    where, suffix = label(path), split_name(path)[1]
    if str(path) in BICYCLES:
        _refuse_basis(basis, where)
        if prior is None:
            raise OptionError(
                f"{where}: the code needs the probability of an error on a qubit. Pass prior=0.01 or the like."
            )
        return bicycle_code(str(path), prior)
    if suffix not in SUFFIXES:
        near = did_you_mean(str(path), BICYCLES)
        raise FormatError(
            f"{where}: the suffix does not name a format of codes; {near}known suffixes are {', '.join(SUFFIXES)}."
        )
    if suffix == ".npz":
        _refuse_basis(basis, where)
        return _of_arrays(path, where, prior)
    text = read_bytes(path).decode("utf-8", errors="replace")
    if suffix == ".alist":
        _refuse_basis(basis, where)
        row, column, shape = parse_alist(text, where)
        if prior is None:
            raise OptionError(
                f"{where}: an .alist file has no probabilities. Pass the probability of an error as prior."
            )
        none = np.zeros(0, np.int64)
        return ErrorModel.of_edges((shape[0], 0), np.full(shape[1], prior), (column, row), (none, none))
    return _of_text(text, suffix, where, basis)


def _of_text(text: str, suffix: str, where: str, basis: str | None) -> ErrorModel:
    if suffix == ".dem":
        _refuse_basis(basis, where)
        return parse_dem(text, where)
    from equifactor.decoding.stim_circuits import model_of_circuit

    return model_of_circuit(text, where, basis)


def _refuse_basis(basis: str | None, what: str) -> None:
    if basis is not None:
        raise OptionError(f"{what}: only circuits have a basis, which chooses among their detectors. Leave basis out.")


def _of_arrays(path: PathLike, where: str, prior: float | None) -> ErrorModel:
    """Read an `.npz` of `H`, `priors` and `observables`, or a single matrix as `scipy.sparse.save_npz` writes it."""
    try:
        arrays = dict(np.load(path, allow_pickle=False))
    except Exception:
        raise FormatError(
            f"{where}: expected an archive of arrays as numpy.savez writes it. It cannot be read."
        ) from None
    if "H" in arrays:
        p = arrays.get("priors", prior)
        if p is None:
            raise OptionError(f"{where}: the archive has no array `priors`. Pass the probability of an error as prior.")
        return ErrorModel.of_matrices(arrays["H"], p, arrays.get("observables"))
    if {"indices", "indptr", "shape", "format"} <= arrays.keys():
        if prior is None:
            raise OptionError(f"{where}: a matrix has no probabilities. Pass the probability of an error as prior.")
        minor, major = arrays["indices"], np.repeat(np.arange(len(arrays["indptr"]) - 1), np.diff(arrays["indptr"]))
        kind = arrays["format"].item()
        row, column = (major, minor) if kind in (b"csr", "csr") else (minor, major)
        shape, none = arrays["shape"].tolist(), np.zeros(0, np.int64)
        return ErrorModel.of_edges((shape[0], 0), np.full(shape[1], prior), (column, row), (none, none))
    raise FormatError(f"{where}: expected arrays H, priors and observables, found {', '.join(arrays) or 'no array'}.")


def parse_alist(text: str, where: str = "<alist>") -> tuple[IntArray, IntArray, tuple[int, int]]:
    """Return rows and columns of the ones of a parity-check matrix in MacKay's format, and its shape (checks, bits).

    The text holds `n m`, the largest degrees, the degrees of columns and of rows, then for each column the rows of its
    ones, counted from 1 and padded with 0.
    """
    try:
        numbers = np.array(text.split(), np.int64)
        n, m, widest = (int(x) for x in numbers[:3])
        degrees = numbers[4 : 4 + n]
        body = numbers[4 + n + m :]
        # Some files pad short columns with zeros and some do not; the number of entries tells which.
        padded = len(body) in (n * widest, n * widest + m * int(numbers[3]))
        tight = np.cumsum(degrees) - degrees
        starts = np.arange(n) * widest if padded else tight
        column = np.repeat(np.arange(n), degrees)
        row = body[np.repeat(starts - tight, degrees) + np.arange(len(column))] - 1
    except (ValueError, IndexError, OverflowError):
        raise FormatError(
            f"{where}: expected whole numbers: n m, two largest degrees, n + m degrees, then n lists of rows."
        ) from None
    if len(degrees) != n or len(column) == 0 or row.min() < 0 or row.max() >= m:
        raise FormatError(
            f"{where}: expected rows from 1 to {m} for each of {n} columns, as many as the degree of the column."
        )
    return row, column, (m, n)
