"""Codes from files and objects: `.dem`, `.stim`, `.alist` (also `.gz`, `.xz`), `.npz`, models and circuits of Stim."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from equifactor.base.errors import FormatError, OptionError, brief
from equifactor.base.options import did_you_mean
from equifactor.decoding.alist_text import parse_alist
from equifactor.decoding.bicycle import BICYCLES, bicycle_code
from equifactor.decoding.code_arrays import PASS_PRIOR, read_npz
from equifactor.decoding.dem_text import parse_dem
from equifactor.decoding.error_model import ErrorModel

if TYPE_CHECKING:
    from equifactor.base.files import PathLike

SUFFIXES = (".dem", ".stim", ".alist", ".npz")
# Stim writes circuits in capitals. An error model in capitals has lines that begin with ERROR, and a circuit has none.
_CAPITALS = re.compile(r"(\s|#.*\n)*[A-Z]{1,2}(?![a-z])")
_ERROR = re.compile(r"^\s*error\b", re.IGNORECASE | re.MULTILINE)


def read_code(source: Any, *, basis: str | None = None, prior: float | None = None) -> ErrorModel:
    """Read the error model of a file, a text or an object of Stim.

    Args:
        source: a path, the name of a bicycle code such as `bb144`, a `stim.DetectorErrorModel`, a `stim.Circuit`, or
            the text of either. A text has several lines or begins with `error`.
        basis: `X` or `Z` keeps only the detectors of a circuit that errors of the other kind flip.
        prior: the probability of every error, for sources without probabilities: `.alist`, `.npz` and names.
    """
    if isinstance(source, ErrorModel):
        _refuse_basis(basis, "a model")
        return source
    if not isinstance(source, (str, os.PathLike)):
        kind = type(source).__name__ if type(source).__module__.partition(".")[0] == "stim" else ""
        if kind not in ("Circuit", "DetectorErrorModel"):
            raise OptionError(
                f"A code must be a path, a stim.DetectorErrorModel, a stim.Circuit, or the text of either, "
                f"found {brief(source)}."
            )
        return _of_text(str(source), ".stim" if kind == "Circuit" else ".dem", "<stim>", basis)
    if is_text(source):
        is_circuit = _CAPITALS.match(source) and not _ERROR.search(source)
        return _of_text(source, ".stim" if is_circuit else ".dem", "<text>", basis)
    return _of_file(source, basis, prior)


def is_text(source: object) -> TypeGuard[str]:
    """Return whether a source is the text of an error model or of a circuit, and not a path."""
    return isinstance(source, str) and ("\n" in source or source.lstrip().startswith("error"))


def _of_file(path: PathLike, basis: str | None, prior: float | None) -> ErrorModel:
    from equifactor.base.files import label, read_bytes, split_name

    where, suffix = label(path), split_name(path)[1]
    if str(path) in BICYCLES:
        _refuse_basis(basis, where)
        if prior is None:
            raise OptionError(f"{where}: the code needs the probability of an error on a qubit. {PASS_PRIOR}")
        return bicycle_code(str(path), prior)
    if suffix not in SUFFIXES:
        near = did_you_mean(str(path), BICYCLES)
        raise FormatError(
            f"{where}: this is neither a code of this package nor a file of a known format; {near}codes are "
            f"{', '.join(BICYCLES)}, and suffixes of files are {', '.join(SUFFIXES)}."
        )
    if suffix == ".npz":
        _refuse_basis(basis, where)
        return read_npz(path, where, prior)
    text = read_bytes(path).decode("utf-8", errors="replace")
    if suffix == ".alist":
        _refuse_basis(basis, where)
        row, column, shape = parse_alist(text, where)
        if prior is None:
            raise OptionError(f"{where}: an .alist file has no probabilities. {PASS_PRIOR}")
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
