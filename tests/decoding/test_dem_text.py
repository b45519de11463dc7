"""Detector error models as text."""

from __future__ import annotations

import random

import numpy as np
import pytest

from equifactor.base.errors import FormatError, OptionError
from equifactor.decoding.dem_text import parse_dem
from equifactor.decoding.stim_circuits import model_of_circuit

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
        ("error(0.1) D\u00b2", "expected targets such as D0 or L0, found 'D\u00b2'"),
        ("error(0.1) D\u0661", "expected targets such as D0 or L0"),
        ("error(0.1) D" + "9" * 5000, "expected targets such as D0 or L0, found 'D99"),
        ("error(0.1) D+1", "expected targets such as D0"),
        ("error(0.1) D", "expected targets such as D0"),
        ("error(1_0) D0", "probability"),
        ("repeat " + "9" * 5000 + " {\n}", "expected repeat N"),
        ("repeat \u00b2 {\n}", "expected repeat N"),
        ("shift_detectors " + "9" * 5000, "expected shift_detectors N"),
        ("error(0.1) D0 {\n}", "only repeat begins a block"),
        ("repeat 2 {\n" * 3000 + "}\n" * 3000, "nested more than 100 deep"),
        ("x" * 100_000, "unknown instruction 'xxx"),
        ("error(0.1) " + "y" * 100_000, "found 'yyy"),
        ("error(" + "z" * 100_000 + ") D0", "found 'zzz"),
        ("{" * 100_000, "expected an instruction"),
        (
            "repeat 1000000000000 {\nshift_detectors 1\n}\ndetector D0",
            "up to 1000000000001, more than .* EQUIFACTOR_READ",
        ),
        ("repeat 1000000000000 {\ndetector D0\nshift_detectors 1\n}", "numbered up to 1000000000000"),
        ("repeat 9 {\nrepeat 1000000000000 {\nshift_detectors 1\n}\nrepeat 2 {\nerror(0.1) D0\n}\n}", "numbered up to"),
        (
            "repeat 9 {\nshift_detectors 999999999999999999\n}\nrepeat 2 {\nerror(0.1) D0\n}",
            "numbered up to about 10.19",
        ),
        ("repeat 1000000000000 {\nerror(0.1) D0\n}", "expand to 2000000000000,"),
        ("repeat 99999999 {\n" * 50 + "error(0.1) D0\n" + "}\n" * 50, "the repeated blocks expand to about 10.400"),
        ("error(0.1) D999999999999", "the detectors are numbered up to 1000000000000"),
        ("error(0.1) L999999999999", "the observables are numbered up to 1000000000000"),
        ("shift_detectors 999999999999999999\nerror(0.1) D0", "the detectors are numbered up to about 10.18"),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_dem(text)
    assert len(str(caught.value)) < 500


def test_an_empty_block_takes_no_time() -> None:
    model = parse_dem("repeat 1000000000000 {\n}\nrepeat 9 {\nrepeat 1000000000000 {\n}\n}\nerror(0.1) D0\n")
    assert model.num_errors == 1
    text = "repeat 1000000000000 {\nshift_detectors 1\n}\nerror(0.1) L0\n"
    assert (parse_dem(text).num_detectors, parse_dem(text).num_observables) == (0, 1)
    assert parse_dem("repeat 0 {\nerror(0.1) D7\nshift_detectors 5\n}\nerror(0.1) D0\n").num_detectors == 1
    pytest.importorskip("stim")
    assert model_of_circuit("REPEAT 1000000000000 {\n}\nM 0\nDETECTOR rec[-1]").num_detectors == 1


def test_the_limit_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "repeat 1000 {\nerror(0.1) D0\nshift_detectors 1\n}"
    monkeypatch.setenv("EQUIFACTOR_READ_LIMIT", "0.00001")
    with pytest.raises(FormatError, match="at most 1e-05 GiB beyond what it lists"):
        parse_dem(text)
    monkeypatch.setenv("EQUIFACTOR_READ_LIMIT", "0.0001")
    assert parse_dem(text).num_detectors == 1000
    monkeypatch.setenv("EQUIFACTOR_READ_LIMIT", "much")
    with pytest.raises(OptionError, match="must be a number of GiB, found 'much'"):
        parse_dem(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "A tag wasn't closed"),
        ("X[", "A tag wasn't closed"),
        ("M 0\nX[a", "A tag wasn't closed"),
        ("REPEAT 1000000000000 {\nX_ERROR(0.1) 0\nM 0\nDETECTOR rec[-1]\n}", "expand to 6000000000000 targets"),
        ("M 16000000", "the circuit has 16000001 qubits"),
        ("REPEAT 2 {\n" * 3000 + "}\n" * 3000, ":101: blocks are nested more than 100 deep"),
        ("y" * 100_000, "Stim cannot read the circuit: Gate not found"),
        ("M \u00b2", "Stim cannot read the circuit"),
        ("\0", "Stim cannot read the circuit"),
    ],
)
def test_circuits_that_stim_should_not_see(text: str, message: str) -> None:
    pytest.importorskip("stim")
    with pytest.raises(FormatError, match=message) as caught:
        model_of_circuit(text)
    assert len(str(caught.value)) < 500


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


def random_block(rng: random.Random, depth: int) -> str:
    """Return lines of errors, declarations, shifts and blocks."""
    lines = []
    for _ in range(rng.randint(1, 4)):
        targets = " ".join(f"{rng.choice('DDDL')}{rng.randrange(4)}" for _ in range(rng.randint(1, 3)))
        lines.append(
            rng.choice(
                [f"error(0.125) {targets}", f"detector D{rng.randrange(9)}", f"shift_detectors {rng.randrange(3)}"]
            )
        )
        if depth and rng.random() < 0.5:
            lines.append(f"repeat {rng.randint(1, 3)} {{\n{random_block(rng, depth - 1)}\n}}")
    return "\n".join(lines)


def test_random_blocks_agree_with_stim() -> None:
    stim = pytest.importorskip("stim")
    rng = random.Random(1)
    for _ in range(100):
        text = random_block(rng, 3)
        dem = stim.DetectorErrorModel(text)
        folded, flat = parse_dem(text), parse_dem(str(dem.flattened()))
        assert (folded.num_detectors, folded.num_observables) == (dem.num_detectors, dem.num_observables), text
        for name in ("detector_ptr", "detectors", "observable_ptr", "observables", "priors"):
            np.testing.assert_array_equal(getattr(folded, name), getattr(flat, name), text)


def test_a_comment_begins_outside_of_tags_and_long_lines_are_read_in_linear_time() -> None:
    model = parse_dem("error[a#b](0.1) D0 # error(0.2) D1\n# all\nerror(0.2) D1 L0#]\n")
    assert model.priors.tolist() == [0.1, 0.2]
    for line in ("error(0.1) D0 " + "x" * 10**6, "[" * 10**6, "error(0.1) " + "D0 " * 10**5 + "[#" * 10**5):
        with pytest.raises(FormatError) as raised:
            parse_dem(line)
        assert len(str(raised.value)) < 400
