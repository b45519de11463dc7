"""Codes from files."""

from __future__ import annotations

import gzip
import re
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equifactor.base.errors import FormatError, OptionError
from equifactor.decoding import Decoder
from equifactor.decoding.alist_text import parse_alist
from equifactor.decoding.code_files import read_code
from equifactor.decoding.error_model import ErrorModel

H = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [0, 0, 0, 1]])
PADDED = "4 3\n3 3\n1 2 1 3\n3 3 1\n1 0 0\n1 2 0\n2 0 0\n1 2 3\n1 2 4\n2 3 4\n4 0 0\n"
TIGHT = "4 3\n3 3\n1 2 1 3\n3 3 1\n1\n1 2\n2\n1 2 3\n1 2 4\n2 3 4\n4\n"


@pytest.mark.parametrize("text", [PADDED, TIGHT])
def test_alist(text: str, tmp_path: Path) -> None:
    row, column, shape = parse_alist(text)
    found = np.zeros(shape, int)
    found[row, column] = 1
    assert (found == H).all()
    path = tmp_path / "code.alist.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert read_code(path, prior=0.1).num_errors == 4
    assert Decoder(path, 0.1, method="min-sum").decode([[0, 0, 1]]).converged.all()
    with pytest.raises(OptionError, match="has no probabilities"):
        read_code(path)


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "code.npz", H=H, priors=np.full(4, 0.1), observables=H[:1])
    model = read_code(tmp_path / "code.npz")
    assert (model.num_detectors, model.num_observables, model.num_errors) == (3, 1, 4)
    sparse = pytest.importorskip("scipy.sparse")
    odd = np.array([[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]])
    for matrix in (H, odd):
        wanted = ErrorModel.of_matrices(matrix, 0.1)
        for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.bsr_array, sparse.dia_matrix):
            sparse.save_npz(tmp_path / "sparse.npz", kind(matrix))
            found = read_code(tmp_path / "sparse.npz", prior=0.1)
            assert (found.detectors == wanted.detectors).all(), kind
            assert (found.detector_ptr == wanted.detector_ptr).all()
            assert (found.num_detectors, found.num_errors) == matrix.shape


def test_sparse_npz_keeps_explicit_zeros_and_values(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix((np.array([1, 0, 1]), np.array([0, 1, 2]), np.array([0, 2, 3])), (2, 3))
    sparse.save_npz(tmp_path / "zero.npz", matrix)
    model = read_code(tmp_path / "zero.npz", prior=0.1)
    assert np.diff(model.detector_ptr).tolist() == [1, 0, 1]  # the stored zero is not a one
    for wrong in (2 * matrix, sparse.coo_matrix((np.ones(2), ([0, 0], [1, 1])), (2, 3))):
        sparse.save_npz(tmp_path / "two.npz", wrong)
        with pytest.raises(FormatError, match=r"two\.npz: The check matrix holds 2"):
            read_code(tmp_path / "two.npz", prior=0.1)


def sparse_arrays(**changed: Any) -> dict[str, Any]:
    """Return the arrays of a csr matrix of shape [2, 3] with some arrays changed; None leaves an array out."""
    whole = {
        "format": b"csr", "shape": [2, 3], "indices": [0, 2, 1], "indptr": [0, 2, 3], "data": [1, 1, 1], **changed,
    }  # fmt: skip
    return {name: value for name, value in whole.items() if value is not None}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (sparse_arrays(indices=[0, 3, 1]), "an entry in column 3, but its shape"),
        (sparse_arrays(indices=[0, -1, 1]), "an entry in column -1, but its shape"),
        (sparse_arrays(indptr=[0, 2, 4]), "rise from 0 in 2 steps to at most 3"),
        (sparse_arrays(indptr=[0, 2]), "rise from 0 in 2 steps"),
        (sparse_arrays(indptr=[0, 3, 2]), "rise from 0"),
        (sparse_arrays(indices=[0.5, 1, 2]), "`indices` of whole numbers"),
        (sparse_arrays(data=["1", "1", "1"]), "needs numbers in an array `data`"),
        (sparse_arrays(data=[1]), "to at most 1"),
        (sparse_arrays(data=None), "needs numbers in an array `data`"),
        (sparse_arrays(shape=[2]), "a shape of two numbers"),
        (sparse_arrays(shape=[2**40, 3]), "a shape of two numbers"),
        (sparse_arrays(format=b"lil"), "the format 'lil'. Save it as csr"),
        (sparse_arrays(format=b"bsr"), "needs numbers in an array `data`"),
        (sparse_arrays(format=b"coo"), "`row` of whole numbers"),
        ({"H": H, "priors": np.full(4, "x")}, "must hold probabilities, found values of type <U1"),
        ({"H": H, "priors": np.full(4, "0.1", object)}, "holds Python objects"),
        ({"H": H, "priors": np.full(4, np.nan)}, "The prior of error 0 is nan"),
        ({"H": H, "priors": np.full((2, 2), 0.1)}, r"one for each of 4 columns"),
        ({"H": H[0], "priors": 0.1}, "two axes"),
        ({"H": 2 * H, "priors": 0.1}, "holds 2 in row 0"),
        ({"H": H.astype(str), "priors": 0.1}, "must be an array of numbers"),
        ({"H": H, "priors": 0.1, "observables": H[:, :2]}, "one column per error"),
        ({"format": b"coo", "shape": [1, 1], "row": [0, 0], "col": [0, 0], "data": [np.inf, -np.inf]}, "holds nan"),
        ({"x" * 10000: H}, "expected arrays H, priors and observables, found 'xxx"),
    ],
)
def test_bad_arrays_are_one_sentence(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "code.npz", **arrays)
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        read_code(tmp_path / "code.npz", prior=0.1)
    assert str(caught.value).startswith(f"{tmp_path / 'code.npz'}: ")
    assert len(str(caught.value)) < 500


def header(shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header((2**40, 1)), "does not have the size of an array of shape (1099511627776, 1)"),
        (header((2**40, 0)), "Set the environment variable EQUIFACTOR_READ_LIMIT"),
        (
            header((10, 10)) + bytes(2**28),
            "the arrays of the archive need 0.25 GiB. A file may expand to at most 0.125",
        ),
        (b"nothing", "It cannot be read"),
        (header((1, 1)) + b"\1", "the archive has two arrays 'H'"),
    ],
)
def test_an_archive_is_checked_before_it_is_unpacked(content: bytes, message: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "code.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("H.npy", content)
        if "two arrays" in message:
            archive.writestr("H", content)
    with pytest.raises(FormatError, match=re.escape(message)):
        read_code(tmp_path / "code.npz", prior=0.1)


def test_a_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        read_code(tmp_path / "code.npz", prior=0.1)


def alist(matrix: np.ndarray, padded: bool, rows_padded: bool | None = None) -> str:
    """Return a matrix in MacKay's format, the lists with or without padding; None leaves out the lists of rows."""
    lines = [f"{matrix.shape[1]} {matrix.shape[0]}", f"{matrix.sum(0).max()} {matrix.sum(1).max()}"]
    lines += [" ".join(map(str, matrix.sum(axis))) for axis in (0, 1)]
    for lists, pad in ((matrix.T, padded), (matrix, rows_padded)):
        for ones in lists if pad is not None else ():
            numbers = (np.flatnonzero(ones) + 1).tolist()
            lines.append(" ".join(map(str, numbers + [0] * (lists.sum(1).max() - len(numbers)) * bool(pad))))
    return "\n".join(lines) + "\n"


def test_every_layout_of_every_matrix_gives_the_matrix() -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        matrix = (random.random(random.integers(1, 5, 2)) < 0.6).astype(int)
        if not matrix.any():
            continue
        for padded, rows_padded in product((True, False), (True, False, None)):
            text = alist(matrix, padded, rows_padded)
            row, column, shape = parse_alist(text)
            found = np.zeros(shape, int)
            found[row, column] = 1
            assert (found == matrix).all(), text


def test_a_list_without_padding_of_a_length_as_with_padding() -> None:
    matrix = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1], [0, 1, 0, 0]])
    text = alist(matrix, False, False)
    assert len(text.split()) - 12 == 2 * matrix.sum() == 4 * 4
    row, column, shape = parse_alist(text)
    found = np.zeros(shape, int)
    found[row, column] = 1
    assert (found == matrix).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The file begins with []"),
        ("4", "The file begins with [4]"),
        ("-4 3 1 1", "found '-4'"),
        ("4 1_0", "found '1_0'"),
        ("4 \u00b2", "found '\u00b2'"),
        ("9" * 5000, "found '999"),
        ("999999999999999999 999999999999999999 1 1", "begins with [999999999999999999, 999999999999999999]"),
        ("4 0 3 3 1 1 1 1", "The file begins with [4, 0]"),
        ("1 1 999999999 9 999999999 1 1", "the degrees of the columns sum to 999999999 and those of the rows to 1"),
        ("2 1 1 2 1 2 2 1 1", "column 2 has degree 2, more than the largest degree 1"),
        ("2 1 1 2 1 1 2 1 1 1 1", "the list of row 1 has the same number twice"),
        ("2 1 1 2 1 1 2 1 1 2 2", "the same number twice"),
        ("2 1 1 2 1 1 2 1 2 1 2", "rows from 1 to 1 in the list of column 2, found 2"),
        ("2 2 1 1 1 1 1 1 1 2 2 1", "the list of row 1 does not agree"),
        ("2 2 1 2 1 1 2 0 1 2", "row 1 has degree 2, but the lists of the columns name it 1 times"),
        ("2 1 1 2 1 1 2 1 1 1", "Found 3 numbers after the degrees"),
        ("3 2 2 2 1 1 1 2 1 1 2 1 0 2 0 1 2 3 0", "is longer than its degree 1"),
    ],
)
def test_bad_alists_are_one_sentence(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        parse_alist(text)
    assert len(str(caught.value)) < 500


def test_unknown_and_broken_files(tmp_path: Path) -> None:
    (tmp_path / "code.txt").write_text("1")
    with pytest.raises(FormatError, match=r"codes are bb72, bb90, .* suffixes of files are \.dem"):
        read_code(tmp_path / "code.txt")
    (tmp_path / "code.npz").write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"numpy\.savez"):
        read_code(tmp_path / "code.npz")
    with pytest.raises(FormatError, match="rows from 1 to 3"):
        parse_alist("4 3\n3 3\n1 2 1 3\n3 3 1\n9\n1 2\n2\n1 2 3\n")
    with pytest.raises(FormatError, match="whole numbers"):
        parse_alist("4 x")
    with pytest.raises(OptionError, match="only circuits have a basis"):
        read_code("error(0.1) D0", basis="X")
    with pytest.raises(OptionError, match=r"a stim\.DetectorErrorModel, a stim\.Circuit, .* found 3"):
        read_code(3)


def test_circuits_and_their_bases(tmp_path: Path) -> None:
    stim = pytest.importorskip("stim")
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_x", distance=3, rounds=3, after_clifford_depolarization=0.01
    )
    (tmp_path / "code.stim").write_text(str(circuit))
    whole = read_code(circuit)
    for source in (tmp_path / "code.stim", circuit.detector_error_model()):
        assert read_code(source).num_errors == whole.num_errors
    x, z = (read_code(circuit, basis=basis) for basis in "XZ")
    assert x.num_detectors + z.num_detectors == whole.num_detectors == circuit.num_detectors
    assert x.num_detectors == 16
    with pytest.raises(OptionError, match="X or Z"):
        read_code(circuit, basis="Y")
