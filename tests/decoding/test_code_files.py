"""Codes from files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from equifactor.base.errors import FormatError, OptionError
from equifactor.decoding import Decoder
from equifactor.decoding.code_files import parse_alist, read_code

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
    for kind in (sparse.csr_matrix, sparse.csc_matrix):
        sparse.save_npz(tmp_path / "sparse.npz", kind(H))
        assert (read_code(tmp_path / "sparse.npz", prior=0.1).detectors == model.detectors).all()


def test_unknown_and_broken_files(tmp_path: Path) -> None:
    (tmp_path / "code.txt").write_text("1")
    with pytest.raises(FormatError, match=r"known suffixes are \.dem"):
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
    with pytest.raises(OptionError, match=r"a stim\.DetectorErrorModel or a stim\.Circuit, found 3"):
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
