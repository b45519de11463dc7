"""Decoding on a GPU gives the same answers as on the CPU."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from triton_interpreter import needs_interpreter, needs_triton, whole_numbers  # noqa: F401

from equifactor.base.errors import OptionError
from equifactor.decoding import Decoder, ErrorModel
from equifactor.decoding.gpu_engine import GpuEngine
from equifactor.decoding.gpu_lanes import Arrivals, memories
from equifactor.decoding.methods import decoding_method
from equifactor.decoding.problem import DecodingProblem
from equifactor.decoding.shot_store import ShotStore


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def code(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    checks = (rng.random((12, 24)) < 0.2).astype(np.uint8)
    checks[:, checks.sum(axis=0) == 0] = 1
    return checks, rng.uniform(0.02, 0.2, 24), (rng.random((2, 24)) < 0.3).astype(np.uint8)


@pytest.mark.parametrize(
    "method",
    [
        "min-sum(iterations=20)",
        "min-sum(iterations=20, scale=0)",
        "memory(iterations=20)",
        "sum-product(iterations=20)",
        "bp-osd(iterations=10)",
        "relay(iterations=5, legs=2, leg_iterations=3)",
        "relay(iterations=5, legs=2, leg_iterations=3, restart=false)",
        "relay(iterations=5, legs=4, leg_iterations=3, solutions=2, trust_first=true)",
        "learned-memory(iterations=5, legs=3, leg_iterations=4)",
    ],
)
def test_answers_are_those_of_the_cpu(method: str) -> None:
    if not has_gpu():
        pytest.skip("no NVIDIA GPU")
    checks, priors, observables = code()
    shots = (np.random.default_rng(1).random((500, 24)) < priors) @ checks.T % 2 == 1
    here, there = (
        Decoder(checks, priors, observables, method=method, device=d).decode(shots, corrections=True)
        for d in ("cpu", "cuda")
    )
    same = (here.corrections == there.corrections).all(axis=1)
    assert same.mean() > 0.98  # Long runs that do not converge may differ because of rounding.
    np.testing.assert_array_equal(here.flips[same], there.flips[same])
    np.testing.assert_allclose(here.weight[same], there.weight[same], atol=1e-4)
    assert abs(here.converged.mean() - there.converged.mean()) < 0.01


@needs_triton
@needs_interpreter
@pytest.mark.parametrize(
    "method",
    [
        "min-sum(iterations=4, scale=0)",
        "sum-product(iterations=4)",
        "bp-osd(iterations=4)",
        "relay(iterations=3, legs=2, leg_iterations=2)",
        "relay(iterations=3, legs=2, leg_iterations=2, restart=false)",
        "learned-memory(iterations=3, legs=2, leg_iterations=2)",
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_the_interpreter_gives_the_answers_of_the_cpu(method: str, own: bool) -> None:
    rng, bits = np.random.default_rng(0), 40 if "min-sum" in method else 12  # Signs of 40 bits take two words.
    checks = (rng.random((5, bits)) < 0.3).astype(np.uint8)
    checks[0] = 1
    priors = rng.uniform(0.02, 0.2, bits)
    shots = (rng.random((100, bits)) < priors) @ checks.T % 2 == 1
    here, there = (Decoder(checks, priors, checks[:2], method=method) for _ in range(2))
    there.engine = GpuEngine(there.problem, there.method, "cpu")
    given = {"priors": rng.uniform(0.02, 0.2, (100, bits))} if own else {}
    expected, found = (decoder.decode(shots, corrections=True, **given) for decoder in (here, there))  # type: ignore[arg-type]
    # With log ratios of their own, shots that these alone explain take iterations here and none there.
    rows = expected.iterations > 0 if own else slice(None)
    np.testing.assert_array_equal(found.iterations[rows], expected.iterations[rows])
    np.testing.assert_array_equal(found.corrections, expected.corrections)
    np.testing.assert_array_equal(found.flips, expected.flips)
    np.testing.assert_allclose(found.weight, expected.weight, atol=1e-4)


def test_a_run_that_is_stopped_counts_the_shots_that_have_begun(driven_time) -> None:
    if not has_gpu():
        pytest.skip("no NVIDIA GPU")
    checks, priors, observables = code()
    decoder = Decoder(
        checks, priors, observables, method="relay(iterations=5, legs=9, leg_iterations=3)", device="cuda"
    )
    driven_time.tick = 1.0
    found = decoder.logical_error_rate(100_000, seed=1, time_limit=4.0)
    assert 0 < found.shots < 100_000
    result = found.result
    assert (result.decoded ^ result.undecided)[: found.shots].all()
    assert not (result.decoded | result.undecided)[found.shots :].any()
    whole = decoder.logical_error_rate(found.shots, seed=1)
    assert found.errors <= whole.errors <= found.errors + found.undecided


def test_shots_after_the_last_one_in_a_lane_do_not_count() -> None:
    """Shots that the channel explains are answered when they are read, before the hard shots that precede them."""
    problem = DecodingProblem.of(ErrorModel.of_matrices(np.eye(2, dtype=int), 0.1))
    shots = np.array([[0, 0], [1, 0], [0, 0], [0, 1], [0, 0], [1, 1], [0, 0]], bool)
    store = ShotStore(problem, lambda a, b: shots[a:b], len(shots), keep=False)
    answered = []
    engine = SimpleNamespace(problem=problem, answer_trivial=lambda store, shots, likely: answered.extend(shots))
    arrivals = Arrivals(engine, store)  # type: ignore[arg-type]
    assert arrivals.take(2)[0].tolist() == [1, 3]
    arrivals.stop()
    assert answered == [0, 2, 4, 6]
    assert store.decoded.tolist() == [True] * 4 + [False] * 3
    assert arrivals.over
    assert arrivals.begun == 4


def test_legs_have_the_memories_of_the_cpu() -> None:
    """The first leg has the memory of the method. The memories of other legs lie between the limits and differ."""
    drawn = memories(decoding_method("relay(legs=3, low=-0.2, high=0.6, seed=4)"), 50)
    assert drawn.shape == (50, 4)
    np.testing.assert_array_equal(drawn[:, 0], np.float32(0.15))
    assert drawn[:, 1:].min() > -0.2
    assert drawn[:, 1:].max() < 0.6
    assert len(np.unique(drawn[:, 1:])) == 150


def test_what_it_cannot_do_is_said() -> None:
    checks, priors, observables = code()
    if not has_gpu():
        with pytest.raises(OptionError, match="is not available"):
            Decoder(checks, priors, observables, method="min-sum", device="cuda")
    with pytest.raises(OptionError, match="on the CPU"):
        Decoder(checks, priors, observables, method="optimal", device="cuda")
