"""Files of shots."""

from pathlib import Path

import numpy as np
import pytest

from equifactor.base.errors import FormatError
from equifactor.decoding.dem_text import parse_dem
from equifactor.decoding.shot_files import read_shots


def test_dets_hold_the_events_of_each_shot(tmp_path: Path) -> None:
    path = tmp_path / "shots.dets"
    path.write_text("shot D1 D9 L0\nshot\r\n\nshot D0\n")
    bits = np.unpackbits(read_shots(path, 10, "dets"), axis=1, bitorder="little", count=10)
    assert [np.flatnonzero(row).tolist() for row in bits] == [[1, 9], [], [0]]


@pytest.mark.parametrize("line", ["D1", "shot D10", "shot M1", "shot D", "shot D" + "9" * 5000, "shot D-1"])
def test_wrong_dets_are_refused_in_one_short_sentence(tmp_path: Path, line: str) -> None:
    path = tmp_path / "shots.dets"
    path.write_text(line)
    with pytest.raises(FormatError, match=":1: expected") as caught:
        read_shots(path, 10, "dets")
    assert len(str(caught.value)) < 300


def test_a_tag_may_hold_the_sign_of_comments() -> None:
    model = parse_dem("error[a#b](0.1) D0 # L0\n# error(0.1) D5\nerror(0.1) D1 # [x]\nerror[#](0.1) D2 L0")
    assert (model.num_errors, model.num_detectors, model.num_observables) == (3, 3, 1)
