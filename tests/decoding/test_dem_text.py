"""Detector error models as text."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import FormatError
from equifactor.decoding.dem_text import parse_dem

TEXT = """
# a comment
error(0.1) D0 D1 L0  # another
ERROR[tag](0.2) D1 ^ D2 L1 ^ D2
repeat 2 {
    error(0.01) D0 D3
    repeat 2 {
        error(0.02) D4
        shift_detectors(0, 1) 1
    }
    detector(1, 2) D9
}
logical_observable L5
error(0.3)
"""


def test_blocks_shifts_and_separators() -> None:
    model = parse_dem(TEXT)
    assert (model.num_detectors, model.num_observables) == (14, 6)
    rows = [model.detectors[a:b].tolist() for a, b in zip(model.detector_ptr[:-1], model.detector_ptr[1:], strict=True)]
    assert rows == [[0, 1], [1], [0, 3], [4], [5], [2, 5], [6], [7], []]
    np.testing.assert_allclose(model.priors, [0.1, 0.2, 0.01, 0.02, 0.02, 0.01, 0.02, 0.02, 0.3])
    assert model.observables.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("error(0.1) D0\nerror(1.5) D0", "<dem>:2: expected error"),
        ("error D0", "probability"),
        ("error(0.1) X0", "expected targets such as D0"),
        ("repeat 3 {\nerror(0.1) D0", "not closed"),
        ("repeat x {\n}", "expected repeat N"),
        ("wobble D0", "unknown instruction 'wobble'"),
        ("}", "expected an instruction"),
        ("shift_detectors D0", "expected shift_detectors N"),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_dem(text)


def test_it_agrees_with_stim() -> None:
    stim = pytest.importorskip("stim")
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_x", distance=3, rounds=20, after_clifford_depolarization=0.01
    )
    dem = circuit.detector_error_model(decompose_errors=True)
    folded, flat = parse_dem(str(dem)), parse_dem(str(dem.flattened()))
    assert folded.num_detectors == dem.num_detectors
    assert folded.num_errors == dem.num_errors
    assert (folded.detectors == flat.detectors).all()
