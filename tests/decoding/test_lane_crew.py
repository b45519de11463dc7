"""Several threads decode the shots of one call as one thread does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equifactor.base.clock import Clock
from equifactor.decoding import Decoder, ErrorModel
from equifactor.decoding.lane_crew import LaneCrew
from equifactor.decoding.lane_engine import LaneEngine
from equifactor.decoding.plain_lanes import PlainLanes
from equifactor.decoding.problem import DecodingProblem
from equifactor.decoding.shot_store import ShotStore


@pytest.mark.parametrize("method", ["relay(iterations=5, legs=3)", "bp-osd(iterations=5)"])
def test_threads_give_the_same_answers(method: str) -> None:
    rng = np.random.default_rng(0)
    checks = (rng.random((12, 24)) < 0.2).astype(np.uint8)
    priors, shots = rng.uniform(0.02, 0.2, (300, 24)), rng.random((300, 12)) < 0.2
    decoder = Decoder(checks, 0.1, rng.integers(0, 2, (2, 24)), method=method)
    decoder.engine = LaneEngine(decoder.problem, decoder.method)
    for own in ({}, {"priors": priors}):
        given: dict[str, Any] = {"corrections": True, **own}
        one, three = (decoder.decode(shots, threads=n, **given) for n in (1, 3))
        np.testing.assert_array_equal(one.corrections, three.corrections)
        np.testing.assert_array_equal(one.iterations, three.iterations)
        np.testing.assert_array_equal(one.converged, three.converged)
        assert three.decoded.all()


def test_threads_take_over_from_plain_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Watched(LaneCrew):
        def __init__(self, engine: LaneEngine, threads: int) -> None:
            sizes.append(threads)
            super().__init__(engine, threads)

    monkeypatch.setattr("equifactor.decoding.plain_lanes.LaneCrew", Watched)
    decoder = Decoder(np.eye(12, dtype=int), 0.1, method="min-sum(iterations=5)")
    decoder.engine = PlainLanes(decoder.problem, decoder.method)
    decoder.engine._load(ShotStore(decoder.problem, lambda a, b: np.zeros((b - a, 12), bool), 0, keep=False))
    shots = np.random.default_rng(0).random((300, 12)) < 0.2
    answers = [decoder.decode(shots, corrections=True, threads=n).corrections for n in (1, 2, 9, 1)]
    assert sizes == [2, 4]
    for found in answers:
        np.testing.assert_array_equal(found, shots)


class Stopping:
    """An engine that takes three times shots, the last of which it leaves: all of them, or all but one."""

    def __init__(self, left: int) -> None:
        self.left = left

    def decode(self, store: ShotStore, clock: Clock, report: Any) -> None:
        pieces = store.chunks()
        for _ in range(2):
            first, packed, *_ = next(pieces)
            store.weight[first : first + len(packed)] = 1.0
        first, packed, *_ = next(pieces)
        end = first + len(packed) - self.left
        store.abandon(np.arange(end - 1, end))
        store.decoded[end:] = False


@pytest.mark.parametrize("left", [1, 15])
def test_shots_after_the_first_that_no_thread_has_begun_do_not_count(left: int) -> None:
    problem = DecodingProblem.of(ErrorModel.of_matrices(np.eye(2, dtype=int), 0.1))
    store = ShotStore(problem, lambda a, b: np.ones((b - a, 2), bool), 200, keep=False)
    crew = LaneCrew.__new__(LaneCrew)
    crew.engines = [Stopping(left), Stopping(left)]  # type: ignore[list-item]
    crew.decode(store, Clock(None), lambda done: None)
    begun = store.decoded | store.undecided
    end = int(begun.argmin())
    assert 3 * 16 - left <= end < 200
    assert begun[:end].all()
    assert not begun[end:].any()
    assert not store.decoded[end - 1]
    assert store.undecided[end - 1]


def test_an_error_in_one_thread_ends_all() -> None:
    problem = DecodingProblem.of(ErrorModel.of_matrices(np.eye(2, dtype=int), 0.1))

    def source(first: int, last: int) -> np.ndarray:
        raise ValueError("no shots")

    store = ShotStore(problem, source, 10_000, keep=False)
    decoder = Decoder(np.eye(2, dtype=int), 0.1, method="min-sum")
    with pytest.raises(ValueError, match="no shots"):
        LaneCrew(LaneEngine(decoder.problem, decoder.method), 3).decode(store, Clock(None), lambda done: None)
