"""Sources in place of a check matrix, with priors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding import (
    BinarySymmetricChannel,
    Decoder,
    ErrorModel,
    WordDecoder,
    bicycle_code,
    gaussian_channel,
    surface_code,
    word_error_rates,
)
from equifactor.generators import LdpcCode

DEM = "error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n"
MODEL = ErrorModel.of_matrices([[1, 1]], 0.1)


def test_priors_are_used_or_refused(tmp_path: Path) -> None:
    H = np.array([[1, 1, 0], [0, 1, 1]])
    np.savez(tmp_path / "bare.npz", H=H)
    np.savez(tmp_path / "full.npz", H=H, priors=[0.1, 0.2, 0.3])
    (tmp_path / "code.dem").write_text(DEM)
    assert Decoder(tmp_path / "bare.npz", [0.1, 0.2, 0.4]).model.priors.tolist() == [0.1, 0.2, 0.4]
    assert Decoder(tmp_path / "bare.npz", 0.3).model.priors.tolist() == [0.3] * 3
    for source in (tmp_path / "full.npz", tmp_path / "code.dem", DEM, MODEL):
        with pytest.raises(OptionError, match="states the probabilities of its errors"):
            Decoder(source, 0.3)
        assert Decoder(source, "min-sum").method.name == "min-sum"


@pytest.mark.parametrize(
    ("priors", "said"),
    [
        ([0.1, 0.2], "one for each of 72 errors"),
        ([1.5] * 72, "prior of error 0 is 1.5"),
        ({}, "priors must be an array of numbers"),
    ],
)
def test_wrong_priors_are_one_sentence(priors: Any, said: str) -> None:
    with pytest.raises((ModelError, OptionError), match=said):
        Decoder("bb72", priors)


def test_objects_of_stim_are_codes() -> None:
    stim = pytest.importorskip("stim")
    circuit = stim.Circuit.generated(
        "repetition_code:memory", distance=3, rounds=2, before_measure_flip_probability=0.1
    )
    for source in (circuit, circuit.detector_error_model(), f"# a circuit\n{circuit}", f"M 3\n{circuit}"):
        for decoder in (Decoder(source), Decoder(source, "relay"), Decoder(source, method="relay")):
            assert decoder.model.num_observables == 1
    with pytest.raises(OptionError, match="Leave out the argument observables"):
        Decoder(circuit, observables=[[1]])
    with pytest.raises(OptionError, match="the circuit has no detectors of basis X"):
        Decoder(circuit, basis="X")
    with pytest.raises(OptionError, match="A code must be a path"):
        Decoder(stim.PauliString("X"))
    assert Decoder("DETECTOR D0\nERROR(0.1) D0 L0\n").model.num_errors == 1


def test_arguments_of_from_dem_are_arguments_of_the_class() -> None:
    stim = pytest.importorskip("stim")
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_x", distance=3, rounds=2, after_reset_flip_probability=0.1
    )
    decoder, other = Decoder(circuit, "relay", basis="X", solutions=2), Decoder.from_dem(circuit, basis="X")
    assert str(decoder.method) == "relay(solutions=2)"
    assert decoder.model.num_detectors == other.model.num_detectors < circuit.num_detectors
    for source in (H := [[1, 1]], DEM, MODEL):
        with pytest.raises(OptionError, match="nly circuits have a basis"):
            Decoder(source, 0.1 if source is H else None, basis="X")


def test_a_misspelt_argument_is_named() -> None:
    with pytest.raises(OptionError, match=r"^Decoder has no argument prior; did you mean priors\?$"):
        Decoder([[1, 1]], prior=0.1)
    with pytest.raises(OptionError, match="pooled has no option 'solution'; did you mean solutions"):
        Decoder([[1, 1]], 0.1, solution=1)
    with pytest.raises(ModelError, match=r"found bool \[1\]\. For one shot, pass \[shot\]\."):
        Decoder([[1, 1]], 0.1).decode(np.ones(1, bool))


def test_kept_detectors_have_their_old_numbers() -> None:
    model = bicycle_code("bb72", 0.1)
    assert model.kept_detectors is None
    kept = model.with_detectors([3, 5, 8, 9]).with_detectors([1, 3])
    assert kept.kept_detectors is not None
    assert kept.merged()[0].kept_detectors.tolist() == kept.kept_detectors.tolist() == [5, 9]  # type: ignore[union-attr]
    assert kept.num_all_detectors == 36
    with pytest.raises(ModelError, match=r"an array \[N, 2\] or \[N, 36\] of detectors"):
        Decoder(kept).decode(np.zeros((1, 7), bool))
    few = model.with_detectors(np.arange(33))
    with pytest.raises(ModelError, match="of 33 detectors and of all 36 detectors both take 5 bytes"):
        Decoder(few).decode(np.zeros((1, 5), np.uint8), packed=True)


def test_a_rate_needs_observables_and_shots() -> None:
    with pytest.raises(OptionError, match="no observables"):
        Decoder(MODEL).logical_error_rate(10)
    with pytest.raises(OptionError, match="shots must be a whole number of at least 1"):
        Decoder(bicycle_code("bb72", 0.1)).logical_error_rate(0)


@pytest.mark.parametrize("bits", [[[True, True, False]], [[0, 1, 1]], [[0.0, 1.0, 1.0]]])
def test_hard_bits_are_not_log_ratios(bits: Any) -> None:
    decoder = WordDecoder([[1, 1, 0], [0, 1, 1]])
    with pytest.raises(ModelError, match=r"log_ratios are hard bits.*pass \(1 - 2 \* bits\)"):
        decoder.decode(bits)
    found = decoder.decode((1 - 2 * np.asarray(bits, int)) * np.log(9.0)).corrections
    assert found is not None
    assert decoder.decode(np.zeros((1, 3))).converged.all()  # Nothing is known of any bit.


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ([[1.0, np.nan, 2.0]], "hold NaN for bit 1 of word 0"),
        ([["a", "b", "c"]], "must be an array of numbers"),
        ([[1.0]], r"must be numbers in an array \[N, 3\], found float64 \[1, 1\]"),
    ],
)
def test_wrong_log_ratios_are_one_sentence(ratios: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        WordDecoder([[1, 1, 0], [0, 1, 1]]).decode(ratios)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Decoder([[1, 1]], ["a", "b"]),
        lambda: Decoder([[1, 1]], [[0.1, 0.1], [0.1]]),
        lambda: Decoder([[1, 1], [1]], 0.1),
        lambda: Decoder(None, 0.1),
        lambda: Decoder(MODEL).decode([[1], [1, 1]]),
        lambda: Decoder(MODEL).decode([["a"]]),
        lambda: Decoder(MODEL).decode([[1]], time_limit="4"),
        lambda: Decoder(MODEL).decode([[1]], time_limit=-1.0),
        lambda: WordDecoder([[1, 1]]).decode([[1.0], [1.0, 2.0]]),
        lambda: WordDecoder([[1, 1]]).decode([[1j, 2.0]]),
        lambda: Decoder(bicycle_code("bb72", 0.1)).logical_error_rate("10"),  # type: ignore[arg-type]
        lambda: surface_code(3, "a"),  # type: ignore[arg-type]
        lambda: next(word_error_rates(LdpcCode.random(24, 12), [BinarySymmetricChannel()], words=0)),
        lambda: gaussian_channel(3.0, 0.0),
    ],
)
def test_wrong_arguments_are_one_sentence(call: Callable[[], object]) -> None:
    with pytest.raises((ModelError, OptionError)) as raised:
        call()
    assert str(raised.value).count("\n") == 0
