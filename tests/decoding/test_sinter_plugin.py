"""Decoders in the real Sinter."""

from __future__ import annotations

import pickle
import warnings

import pytest

from equifactor.decoding import METHODS, sinter_decoders

stim = pytest.importorskip("stim")
sinter = pytest.importorskip("sinter")


@pytest.mark.peers
def test_two_workers_collect() -> None:
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_x", distance=3, rounds=3, after_clifford_depolarization=0.01
    )
    decoders = pickle.loads(pickle.dumps(sinter_decoders(quick="relay(solutions=1)")))
    assert set(decoders) == {*(f"equifactor-{name}" for name in METHODS), "equifactor-quick"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Sinter and of forking
        stats = sinter.collect(
            num_workers=2, max_shots=2000, tasks=[sinter.Task(circuit=circuit)],
            decoders=["equifactor-quick", "equifactor-bp-osd"], custom_decoders=decoders,
        )  # fmt: skip
    assert {s.decoder for s in stats} == {"equifactor-quick", "equifactor-bp-osd"}
    for s in stats:
        assert s.shots == 2000
        assert 10 < s.errors < 100
