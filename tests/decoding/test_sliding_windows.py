"""Decoding in sliding windows."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding import Decoder, ErrorModel, ShotSampler, WindowDecoder


def memory(rounds: int, prior: float = 0.02, bits: int = 5) -> tuple[ErrorModel, np.ndarray]:
    """Return a repetition code with errors of measurements, and the layer of every detector."""
    checks = bits - 1
    pairs, flips = [], []
    count = 0
    for t in range(rounds):
        for bit in range(bits):
            pairs += [(count, t * checks + c) for c in (bit - 1, bit) if 0 <= c < checks]
            flips += [count] if bit == 0 else []
            count += 1
        for c in range(checks):
            pairs += [(count, u * checks + c) for u in (t, t + 1) if u < rounds]
            count += 1
    error, detector = np.array(pairs).T
    model = ErrorModel.of_edges(
        (rounds * checks, 1), np.full(count, prior), (error, detector), (flips, [0] * len(flips))
    )
    return model, np.repeat(np.arange(rounds), checks)


def test_one_window_is_the_whole_decoder() -> None:
    model, layers = memory(6)
    shots = ShotSampler(model, 1).sample(0, 300)[0]
    windows = WindowDecoder(model, layers, window=6, commit=2)
    np.testing.assert_array_equal(windows.decode(shots), Decoder(model).decode(shots).flips)
    assert windows.num_decoders == 1


@pytest.mark.parametrize(("window", "commit"), [(8, 4), (7, 3), (6, 1)])
def test_windows_lose_little(window: int, commit: int) -> None:
    model, layers = memory(31)
    shots, truth = ShotSampler(model, 2).sample(0, 1500)
    whole = Decoder(model).decode(shots).errors(truth).mean()
    windows = WindowDecoder(model, layers, window=window, commit=commit)
    assert (windows.decode(shots) != truth).any(axis=1).mean() < 1.3 * whole + 0.005
    assert windows.num_decoders <= 4


def test_decided_errors_explain_the_shots_of_any_window() -> None:
    model, layers = memory(12, 0.05)
    shots = ShotSampler(model, 3).sample(0, 50)[0]
    windows = WindowDecoder(model, layers, window=4, commit=2)
    run = windows.begin(50)
    for layer in range(12):
        flips = run.push(shots[:, layers == layer])
        assert run.held <= 5 * 4  # Decided layers are forgotten.
    np.testing.assert_array_equal(flips, windows.decode(shots))
    with pytest.raises(ModelError, match="All 12 layers"):
        run.push(shots[:, :4])


def test_wrong_windows_are_refused() -> None:
    model, layers = memory(6)
    with pytest.raises(OptionError, match="commit is 3 and window is 2"):
        WindowDecoder(model, layers, window=2, commit=3)
    with pytest.raises(ModelError, match="a whole number for each of 24 detectors"):
        WindowDecoder(model, layers[:-1], window=2, commit=1)
    with pytest.raises(OptionError, match="Pass layers"):
        WindowDecoder(model, window=2, commit=1)
    with pytest.raises(ModelError, match=r"shots must have the shape \[N, 24\]"):
        WindowDecoder(model, layers, window=2, commit=1).decode([[0, 1]])
    with pytest.raises(ModelError, match="Layer 0 must have the shape"):
        WindowDecoder(model, layers, window=2, commit=1).begin(2).push([[0, 0, 0, 0]])
    with pytest.raises(ModelError, match="Layer 0 holds numbers other than 0 and 1"):
        WindowDecoder(model, layers, window=2, commit=1).decode([[np.nan] * 24])
    with pytest.raises(ModelError, match=r"shots must have the shape \[N, 24\]"):
        WindowDecoder(model, layers, window=2, commit=1).decode(5)
    with pytest.raises(OptionError, match="count must be at most"):
        WindowDecoder(model, layers, window=2, commit=1).begin(10**12)


def test_times_of_a_circuit_are_layers() -> None:
    stim = pytest.importorskip("stim")
    circuit = stim.Circuit.generated(
        "repetition_code:memory", distance=3, rounds=12, before_measure_flip_probability=0.02,
        before_round_data_depolarization=0.02,
    )  # fmt: skip
    shots, truth = circuit.compile_detector_sampler(seed=1).sample(500, separate_observables=True)
    windows = WindowDecoder(circuit, window=5, commit=2)
    assert windows.num_layers == 13
    assert (windows.decode(shots) != truth).mean() < 0.06
