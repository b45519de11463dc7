"""Codes as archives of arrays (`.npz`): matrices of numpy, or one sparse matrix of scipy. Scipy is not needed."""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from equifactor.base.errors import FormatError, ModelError, OptionError, brief
from equifactor.base.files import reason
from equifactor.base.read_limits import limit_text, most_numbers, read_limit
from equifactor.base.sources import open_source
from equifactor.decoding.error_model import ErrorModel
from equifactor.kernels.pointers import row_of

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import IntArray

PASS_PRIOR = "Pass a probability such as 0.01 as the prior (--prior 0.01 on the command line)."
_EXPECTED = "expected an archive of arrays as numpy.savez or scipy.sparse.save_npz writes it"


def read_npz(path: PathLike, where: str, prior: float | None) -> ErrorModel:
    """Read an `.npz` of `H`, `priors` and `observables`, or a single matrix as `scipy.sparse.save_npz` writes it."""
    arrays = _read_arrays(path, where)
    if "H" not in arrays and "format" not in arrays:
        raise FormatError(
            f"{where}: expected arrays H, priors and observables, found {brief(', '.join(arrays)) or 'no array'}."
        )
    if "priors" not in arrays and prior is None:
        lacks = "the archive has no array `priors`" if "H" in arrays else "a matrix has no probabilities"
        raise OptionError(f"{where}: {lacks}. {PASS_PRIOR}")
    p: Any = arrays.get("priors", prior)
    if "priors" in arrays and p.dtype.kind not in "biuf":
        raise FormatError(f"{where}: the array `priors` must hold probabilities, found values of type {p.dtype}.")
    try:
        checks = arrays["H"] if "H" in arrays else _SparseMatrix.of_arrays(arrays)
        return ErrorModel.of_matrices(checks, p, arrays.get("observables"))
    except ModelError as error:
        raise FormatError(f"{where}: {error}") from None


def _read_arrays(path: PathLike, where: str) -> dict[str, np.ndarray]:
    """Return the arrays of an archive. Their unpacked size is checked before any array is read."""
    try:
        with open_source(path, where) as raw, zipfile.ZipFile(raw) as archive:
            size = raw.seek(0, os.SEEK_END)
            members = archive.infolist()
            if sum(member.file_size for member in members) > read_limit() + size:
                total = sum(member.file_size for member in members) / 2**30
                raise FormatError(f"{where}: the arrays of the archive need {total:.3g} GiB. {limit_text()}")
            arrays = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise FormatError(f"{where}: the archive has two arrays {brief(name)}. Keep one of them.")
                with archive.open(member) as content:
                    arrays[name] = _read_array(content, member, where, size)
            return arrays
    except FormatError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds of errors for damaged archives
        if isinstance(error, OSError) and error.errno is not None:
            raise FormatError(f"{where}: cannot read this file: {reason(error)}.") from None
        why = " ".join(str(error).split())[:100] or type(error).__name__
        raise FormatError(f"{where}: {_EXPECTED}. It cannot be read ({why}).") from None


def _read_array(content: IO[bytes], member: zipfile.ZipInfo, where: str, size: int) -> np.ndarray:
    version = npy.read_magic(content)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, dtype = read_header(content)
    name = brief(member.filename)
    if dtype.hasobject:
        raise FormatError(
            f"{where}: {name} holds Python objects, which are not read. Save a sparse matrix with "
            "scipy.sparse.save_npz."
        )
    if math.prod(shape) * dtype.itemsize != member.file_size - content.tell():
        raise FormatError(f"{where}: {name} does not have the size of an array of shape {brief(shape)}.")
    if max(shape, default=0) > most_numbers(size):  # an array of shape [10^12, 0] has no bytes
        raise FormatError(f"{where}: {name} has the shape {brief(shape)}. {limit_text()}")
    flat = np.frombuffer(content.read(), dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")


@dataclass(frozen=True, eq=False)
class _SparseMatrix:
    """The entries of a sparse matrix: rows [n], columns [n] and values [n], each place once."""

    row: IntArray
    col: IntArray
    data: np.ndarray
    shape: tuple[int, int]

    def tocoo(self) -> _SparseMatrix:
        """Return the matrix itself, as a sparse matrix of scipy would."""
        return self

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> _SparseMatrix:
        """Return the matrix in the arrays of a file of scipy; entries at the same place are added, as in scipy."""
        kind = arrays["format"].tobytes().rstrip(b"\0").replace(b"\0", b"").decode("latin-1")
        known = {
            "csr": _csr_entries,
            "csc": _csc_entries,
            "bsr": _bsr_entries,
            "coo": _coo_entries,
            "dia": _dia_entries,
        }
        if kind not in known:
            raise ModelError(f"The sparse matrix has the format {brief(kind)}. Save it as csr, csc, coo, bsr or dia.")
        given = _Given(arrays, kind)
        height, width = given.shape
        row, column, values = known[kind](given)
        for name, found, size in (("row", row, height), ("column", column, width)):
            if len(found) and not 0 <= found.min() <= found.max() < size:
                wrong = found[(found < 0) | (found >= size)][0]
                raise ModelError(f"The sparse matrix has an entry in {name} {wrong}, but its shape is {given.shape}.")
        places, owner = np.unique(row * width + column, return_inverse=True)
        sums = np.zeros(len(places))
        with np.errstate(invalid="ignore"):  # infinities may cancel to NaN, which is refused later
            np.add.at(sums, owner.ravel(), values.astype(np.float64))
        return cls(places // max(width, 1), places % max(width, 1), sums, given.shape)


_Entries = tuple["IntArray", "IntArray", np.ndarray]  # rows, columns and values [n]


class _Given:
    """The arrays of a sparse matrix, checked when they are asked for."""

    def __init__(self, arrays: dict[str, np.ndarray], kind: str) -> None:
        self._arrays, self.kind = arrays, kind
        shape = self.whole("shape")
        largest = 2**31  # so that row * width + column fits into 64 bits
        if shape.shape != (2,) or not (0 <= shape.min() <= shape.max() < largest):
            raise ModelError(f"A sparse matrix needs a shape of two numbers below 2^31, found {brief(shape.tolist())}.")
        self.shape = int(shape[0]), int(shape[1])
        if max(self.shape) > most_numbers(sum(a.nbytes for a in arrays.values())):
            raise ModelError(f"The sparse matrix has the shape {self.shape}. {limit_text()}")

    def whole(self, name: str) -> IntArray:
        """Return an array [n] of whole numbers."""
        found = self._arrays.get(name)
        if found is None or found.dtype.kind not in "iu" or found.ndim != 1:
            raise ModelError(f"A sparse matrix in the format {self.kind} needs an array `{name}` of whole numbers.")
        return found.astype(np.int64)

    def values(self, ndim: int = 1) -> np.ndarray:
        """Return the array `data`."""
        found = self._arrays.get("data")
        if found is None or found.dtype.kind not in "biuf" or found.ndim != ndim:
            raise ModelError(f"A sparse matrix in the format {self.kind} needs numbers in an array `data`.")
        return found

    def compressed(self, count: int, values: np.ndarray) -> tuple[IntArray, IntArray, np.ndarray]:
        """Return the major and minor numbers [n] of the values [n, ..]. `indptr` has `count` + 1 entries."""
        ptr, minor = self.whole("indptr"), self.whole("indices")
        room = min(len(minor), len(values))
        if len(ptr) != count + 1 or ptr[0] != 0 or (np.diff(ptr) < 0).any() or ptr[-1] > room:
            raise ModelError(
                f"`indptr` of a sparse matrix in the format {self.kind} must rise from 0 in {count} steps to at most "
                f"{room}, the number of `indices` and values."
            )
        return row_of(ptr), minor[: ptr[-1]], values[: ptr[-1]]


def _csr_entries(given: _Given) -> _Entries:
    return given.compressed(given.shape[0], given.values())


def _csc_entries(given: _Given) -> _Entries:
    column, row, values = given.compressed(given.shape[1], given.values())
    return row, column, values


def _bsr_entries(given: _Given) -> _Entries:
    blocks = given.values(3)
    _, high, wide = blocks.shape
    if not high or not wide or given.shape[0] % high or given.shape[1] % wide:
        raise ModelError(f"Blocks of shape {(high, wide)} do not divide the shape {given.shape} of the matrix.")
    row, column, blocks = given.compressed(given.shape[0] // high, blocks)
    rows = np.broadcast_to(row[:, None, None] * high + np.arange(high)[:, None], blocks.shape)
    columns = np.broadcast_to(column[:, None, None] * wide + np.arange(wide), blocks.shape)
    return rows.ravel(), columns.ravel(), blocks.ravel()


def _coo_entries(given: _Given) -> _Entries:
    row, column, values = given.whole("row"), given.whole("col"), given.values()
    if not len(row) == len(column) == len(values):
        raise ModelError("`row`, `col` and `data` of a sparse matrix must have the same length.")
    return row, column, values


def _dia_entries(given: _Given) -> _Entries:
    offsets, values = given.whole("offsets"), given.values(2)
    if len(offsets) != len(values) or (np.abs(offsets) >= 2**31).any():
        raise ModelError("`offsets` and `data` of a sparse matrix in the format dia must have the same length.")
    column = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    row = column - offsets[:, None]
    inside = (row >= 0) & (row < given.shape[0]) & (column < given.shape[1])
    return row[inside], column[inside], values[inside]
