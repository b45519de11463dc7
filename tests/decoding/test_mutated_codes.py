"""Damaged files of codes and shots are read or refused in one short sentence."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equifactor.base.errors import EquifactorError
from equifactor.decoding.code_files import read_code
from equifactor.decoding.shot_files import read_shots

DEM = """error(0.1) D0 D1 L0 # c
ERROR[tag](0.2) D1 ^ D2 L1
repeat 2 {
    error(0.01) D0 D3
    shift_detectors(0, 1) 1
}
detector(1, 2) D9
"""
STIM = """X_ERROR(0.01) 0 2
CX 0 1 2 1
MR 1
REPEAT 3 {
  DEPOLARIZE1[t](0.01) 0 2
  CX 0 1 2 1
  MR(0.01) 1
  DETECTOR(1,0) rec[-1] rec[-2]
}
M 0 2
OBSERVABLE_INCLUDE(0) rec[-1]
"""
VALID = {
    ".dem": DEM,
    ".stim": STIM,
    ".alist": "4 3\n3 3\n1 2 1 3\n3 3 1\n1 0 0\n1 2 0\n2 0 0\n1 2 3\n1 2 4\n2 3 4\n4 0 0\n",
    ".01": "0101\n0011\n",
}
JUNK = [
    "-1",
    "0",
    "7",
    "1_0",
    "\u00b2",
    "999999999999",
    "9" * 5000,
    "nan",
    "1e400",
    "x" * 100_000,
    "{",
    "}",
    "[",
    "]",
    "(",
]


def mutate(rng: random.Random, text: str) -> bytes:
    """Return the text with words replaced, deleted, inserted or cut off, and bytes changed."""
    for _ in range(rng.randint(1, 3)):
        words = re.split(r"(\W)", text)
        at = rng.randrange(len(words))
        words[at : rng.choice([at, at + 1, at + 1, len(words)])] = rng.choice([[], [rng.choice(JUNK)], ["\n"]])
        text = "".join(words)
    data = bytearray(text.encode())
    if data and rng.random() < 0.3:
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def read(path: Path) -> Any:
    return read_shots(path, 4, "01") if path.suffix == ".01" else read_code(path, prior=0.1)


def refused(path: Path, content: bytes) -> bool:
    """Return whether a file is refused; its sentence must be short and name the file."""
    path.write_bytes(content)
    try:
        read(path)
    except EquifactorError as error:
        text = str(error)
        assert text.startswith(str(path)), text
        assert len(text) < 700
        assert "\n" not in text
        return True
    return False


@pytest.mark.parametrize("suffix", VALID)
def test_mutated_texts_are_read_or_refused(suffix: str, tmp_path: Path) -> None:
    if suffix == ".stim":
        pytest.importorskip("stim")
    rng = random.Random(suffix)
    path = tmp_path / f"code{suffix}"
    assert not refused(path, VALID[suffix].encode())
    assert sum(refused(path, mutate(rng, VALID[suffix])) for _ in range(200)) > 50


def test_changed_arrays_are_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(1)
    path = tmp_path / "code.npz"
    sparse = {"format": b"csr", "shape": [2, 3], "indices": [0, 2, 1], "indptr": [0, 2, 3], "data": [1, 1, 1]}
    matrices = {"H": np.eye(3), "priors": np.full(3, 0.1), "observables": np.eye(3)[:1]}
    odd = [
        np.zeros(0), np.array(3), np.array("bsr"), np.array(b"coo"), np.array(["a"]), np.array([np.nan, 1.0]), [2**62],
        [-1, 2], [1 + 2j], np.zeros((2, 0, 3)), np.ones((2, 2, 2)), np.array(["2020-01-01"], "M8[D]"), [0, 1, 2, 3],
    ]  # fmt: skip
    found = 0
    for _ in range(300):
        arrays: dict[str, Any] = dict(rng.choice([sparse, matrices]))
        for _ in range(rng.randint(1, 2)):
            name = rng.choice([*arrays, "row", "col", "offsets"])
            arrays[name] = rng.choice(odd)
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        found += refused(path, stream.getvalue())
    assert found > 150
