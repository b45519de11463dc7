"""Decoding in plain NumPy gives the answers of the kernels, bit by bit, and kernels can take over at any time."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.decoding import METHODS, Decoder, DecodingResult, ErrorModel, WordDecoder
from equifactor.decoding.error_sampling import ShotSampler
from equifactor.decoding.lane_engine import LaneEngine
from equifactor.decoding.methods import decoding_method
from equifactor.decoding.plain_lanes import PlainLanes, applies_to
from equifactor.decoding.problem import DecodingProblem
from equifactor.kernels import readiness

CLAIMED = (
    "relay", "min-sum", "memory", "min-sum(scale=0)", "min-sum(scale=0.7, legs=3)", "memory(memory=-0.3, iterations=1)",
    "relay(legs=7, restart=false, solutions=3)", "relay(legs=30, trust_first=true, seed=4, low=-1, high=0.9)",
    "relay(legs=20, leg_iterations=3, iterations=2)", "pooled", "pooled(legs=40, patience=2, solutions=9, high=0.9)",
    "pooled(budget=70, patience=1, least=3)",
)  # fmt: skip


def random_model(seed: int) -> ErrorModel:
    """Checks of many sizes, also of one bit; likely errors, also above 1/2."""
    rng = np.random.default_rng(seed)
    H = rng.random((15, 40)) < rng.uniform(0.02, 0.4, (15, 1))
    H[0] = np.arange(40) == 3
    return ErrorModel.of_matrices(H, rng.uniform(0.01, 0.6, 40) ** 2, rng.random((2, 40)) < 0.3)


def random_sides(seed: int) -> ErrorModel:
    """Detectors of two sides: errors of either side, and of both."""
    rng = np.random.default_rng(seed)
    X, Z = rng.random((6, 12)) < 0.3, rng.random((6, 12)) < 0.3
    both = [np.append(X[:, a], Z[:, b]) for a in range(12) for b in range(12)]
    one = [*(np.append(x, Z[:, 0] & False) for x in X.T), *(np.append(X[:, 0] & False, z) for z in Z.T)]
    H = np.array([*one, *both]).T
    return ErrorModel.of_matrices(H, rng.uniform(0.001, 0.02, H.shape[1]), rng.random((2, H.shape[1])) < 0.3)


MODELS = {
    "surface": lambda: ef.decoding.surface_code(5, 0.08),
    "bb72": lambda: ef.decoding.bicycle_code("bb72", 0.05),
    "random": lambda: random_model(1),
    "other": lambda: random_model(2),
    "linked": lambda: random_sides(3),
    "empty": lambda: ErrorModel.of_matrices(np.zeros((2, 0), int), 0.1),
}


def assert_same(found: DecodingResult, wanted: DecodingResult) -> None:
    for name in ("corrections", "flips", "converged", "iterations", "weight", "decoded", "gap"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


def both(model: ErrorModel, method: str) -> tuple[Decoder, Decoder]:
    """Return a decoder in plain NumPy and one by kernels."""
    plain, kernels = Decoder(model, method=method), Decoder(model, method=method)
    plain.engine = PlainLanes(plain.problem, plain.method)
    assert isinstance(kernels.engine, LaneEngine)
    return plain, kernels


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are never better than plain NumPy."""
    monkeypatch.setattr(readiness, "plain_seconds_left", lambda family: np.inf)


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("method", CLAIMED)
@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_kernels(name: str, method: str) -> None:
    model = MODELS[name]()
    plain, kernels = both(model, method)
    assert (plain.problem.num_links > 0) == (name == "linked" and plain.method.link)
    shots = ShotSampler(model, 3).sample(0, 40 if name in ("other", "random") else 100)[0]
    assert_same(plain.decode(shots, corrections=True), kernels.decode(shots, corrections=True))


@pytest.mark.usefixtures("endless")
def test_shots_wait_for_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are fewer lanes than shots, and several chunks of shots."""
    monkeypatch.setattr("equifactor.decoding.plain_lanes._MESSAGES", 1)
    monkeypatch.setattr("equifactor.decoding.shot_store.CHUNK", 60)
    model = MODELS["bb72"]()
    plain, kernels = both(model, "relay")
    shots = ShotSampler(model, 5).sample(0, 150)[0]
    assert_same(plain.decode(shots, corrections=True), kernels.decode(shots, corrections=True))


@pytest.mark.usefixtures("endless")
def test_every_word_may_have_its_own_ratios() -> None:
    H = np.random.default_rng(0).random((12, 24)) < 0.2
    kernels, plain = WordDecoder(H, method="min-sum"), WordDecoder(H, method="min-sum")
    plain._engine = PlainLanes(plain.problem, plain.method)
    ratios = np.random.default_rng(1).normal(1.0, 1.0, (40, 24))
    assert_same(plain.decode(ratios), kernels.decode(ratios))


def test_kernels_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shots that are in flight when the kernels are ready are decoded again."""
    monkeypatch.setattr(readiness, "plain_seconds_left", lambda family: 1e-9)
    model = MODELS["bb72"]()
    plain, kernels = both(model, "relay")
    shots = ShotSampler(model, 3).sample(0, 150)[0]
    assert_same(plain.decode(shots, corrections=True), kernels.decode(shots, corrections=True))
    assert plain.engine.kernels is not None
    assert_same(plain.decode(shots, corrections=True), kernels.decode(shots, corrections=True))


def test_kernels_that_would_be_late_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: LaneEngine, store: object) -> None:
        raise NotCompiledError("run_lanes", 5.0, 1.0)

    monkeypatch.setattr(readiness, "plain_seconds_left", lambda family: 1e-9)
    model = MODELS["surface"]()
    plain, kernels = both(model, "relay")
    shots = ShotSampler(model, 3).sample(0, 50)[0]
    wanted = kernels.decode(shots, corrections=True)
    monkeypatch.setattr(LaneEngine, "prepare", refuse)
    assert_same(plain.decode(shots, corrections=True), wanted)


@pytest.mark.usefixtures("endless")
def test_no_shot_begins_after_the_deadline(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.decoding.plain_lanes._MESSAGES", 1)
    driven_time.tick = 0.01
    model = MODELS["bb72"]()
    plain, kernels = both(model, "relay")
    shots = ShotSampler(model, 3).sample(0, 150)[0]
    result = plain.decode(shots, time_limit=0.5)
    done = int(result.decoded.sum())
    assert 0 < done < 150
    begun = done + int(result.undecided.sum())
    assert (result.decoded ^ result.undecided)[:begun].all()
    full = kernels.decode(shots[:begun]).iterations
    np.testing.assert_array_equal(result.iterations[:begun], np.where(result.decoded[:begun], full, 0))


def test_settings_that_are_not_claimed_take_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(applies_to(decoding_method(text)) for text in CLAIMED)
    others = ("sum-product", "relay(schedule=serial)", "bp-osd", "learned-memory", "optimal")
    assert not any(applies_to(decoding_method(text)) for text in others)
    own = {"search", "class"}  # These have engines of their own.
    assert {decoding_method(text).name for text in (*CLAIMED, *others)} == set(METHODS) - own
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "1")
    problem = DecodingProblem.of(MODELS["surface"]())
    assert isinstance(Decoder(problem.model).engine, PlainLanes)
    assert isinstance(Decoder(problem.model, "bp-osd").engine, LaneEngine)
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "0")
    assert isinstance(Decoder(problem.model).engine, LaneEngine)
    assert Clock.ignores_compiling  # so that this test does not depend on the speed of the machine
