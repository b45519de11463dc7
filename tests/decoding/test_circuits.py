"""Noisy circuits from the folder in EQUIFACTOR_DATA_QEC. The circuits do not come with the package."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from equifactor.decoding import Decoder, ShotSampler
from equifactor.decoding.code_files import read_code

FOLDER = os.environ.get("EQUIFACTOR_DATA_QEC", "")
pytest.importorskip("stim")
pytestmark = pytest.mark.skipif(not FOLDER, reason="EQUIFACTOR_DATA_QEC names no folder of circuits")


def test_one_basis_of_a_bicycle_circuit() -> None:
    model = read_code(Path(FOLDER) / "bb72_X_r6_p0.003.stim.xz", basis="X").merged()[0]
    assert (model.num_detectors, model.num_observables, len(model.detectors)) == (252, 12, 7776)
    shots, flips = ShotSampler(model, 1).sample(0, 1000)
    wrong = {m: Decoder(model, method=m).decode(shots).errors(flips).sum() for m in ("relay", "min-sum(iterations=60)")}
    assert wrong["relay"] < 20
    assert wrong["relay"] < wrong["min-sum(iterations=60)"]


@pytest.mark.peers
def test_a_surface_code_beside_matching() -> None:
    pymatching, sparse = pytest.importorskip("pymatching"), pytest.importorskip("scipy.sparse")
    model = read_code(Path(FOLDER) / "surface5_X_r5_p0.005.stim.xz", basis="X").merged()[0]
    shots, flips = ShotSampler(model, 1).sample(0, 4000)
    seen = np.diff(model.detector_ptr) > 0
    checks, observables = (
        sparse.csc_matrix((np.ones(len(rows), np.uint8), rows, ptr), shape=(height, model.num_errors))[:, seen]
        for rows, ptr, height in (
            (model.detectors, model.detector_ptr, model.num_detectors),
            (model.observables, model.observable_ptr, model.num_observables),
        )
    )
    p = model.priors[seen]
    matching = pymatching.Matching.from_check_matrix(checks, weights=np.log((1 - p) / p), faults_matrix=observables)
    theirs = (matching.decode_batch(shots.astype(np.uint8)) != flips).any(axis=1).sum()
    ours = Decoder(model, method="relay(memory=0.65, low=-0.25, high=0.98)").decode(shots).errors(flips).sum()
    assert ours < theirs + 4 * np.sqrt(theirs)
