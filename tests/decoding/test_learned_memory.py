"""The network that chooses memories: its definition, its symmetries, its files and its training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from equifactor.base.errors import FormatError, OptionError
from equifactor.decoding import Decoder, ErrorModel, MemoryNetwork, MemoryTraining, bicycle_code, train_memories
from equifactor.decoding.gpu_lanes import draws
from equifactor.decoding.learned_memory import FEATURES, SOFT
from equifactor.decoding.methods import LearnedMemoryDecoding
from equifactor.solvers import parse_solver


def loud_network(seed: int = 1) -> MemoryNetwork:
    """Return a network whose hidden units have an effect."""
    network = MemoryNetwork.untrained(4, seed=seed)
    network.weights[:-1, -1] = np.random.default_rng(seed).normal(size=4) * 0.1
    return network


def small_code(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    checks = (rng.random((12, 24)) < 0.2).astype(np.uint8)
    checks[0, checks.sum(axis=0) == 0] = 1
    checks[:, 0] = np.eye(12, dtype=np.uint8)[0]
    return checks[np.flatnonzero(checks.any(axis=1))], rng.uniform(0.02, 0.2, 24)


def decode_slowly(decoder: Decoder, network: MemoryNetwork, syndrome: np.ndarray) -> tuple[np.ndarray, int]:
    """Decode one shot by the definition, with dense matrices."""
    problem, method = decoder.problem, decoder.method
    checks = np.zeros((problem.num_checks, problem.num_bits), bool)
    checks[np.repeat(np.arange(problem.num_checks), np.diff(problem.check_ptr)), problem.bit_of_edge] = True
    ones = checks.astype(int)
    ratio, degree = problem.ratio, problem.degrees
    side = np.where(ratio < 0, -1.0, 1.0)
    drawn = draws(method, problem.num_bits)
    message, prior, gamma = np.zeros(checks.shape), ratio.copy(), np.full(len(ratio), method.memory)
    posterior = ratio * decoder.engine.checks.tilt
    done = 0
    for leg in range(method.legs + 1):
        if leg:
            unmet = (checks & ((ones @ (posterior < 0)) % 2 != syndrome)[:, None]).sum(axis=0) / degree
            squashed = [side * x / (SOFT + np.abs(x)) for x in (ratio, posterior, prior)]
            draw = 2 * drawn[:, leg - 1] - 1
            rest = [unmet, draw / leg, draw, np.full(len(ratio), 1 / leg)]
            gamma = network(np.stack([*squashed, *rest], axis=-1))
            prior = ratio + gamma * (posterior - ratio)
        for _ in range(method.leg_iterations if leg else method.iterations):
            received = np.where(checks, posterior - message, np.inf)
            negative = checks & (received < 0)
            odd = (negative.sum(axis=1) % 2 != syndrome)[:, None] ^ negative
            size = np.sort(np.abs(received), axis=1)
            least = np.where(np.abs(received) == size[:, :1], size[:, 1:2], size[:, :1])
            message = np.where(checks, np.where(odd, -1.0, 1.0) * np.minimum(least, 1e9), 0.0)
            posterior = prior + message.sum(axis=0)
            prior = ratio + gamma * (posterior - ratio)
            done += 1
            if ((ones @ (posterior < 0)) % 2 == syndrome).all():
                return posterior < 0, done
    return posterior < 0, done


def test_the_kernels_do_what_the_definition_says(tmp_path: Path) -> None:
    network = loud_network()
    network.save(tmp_path / "net.safetensors")
    checks, priors = small_code()
    weights = str(tmp_path / "net.safetensors")
    settings = {"iterations": 3, "legs": 4, "leg_iterations": 4, "solutions": 1, "weights": weights}
    decoder = Decoder(checks, priors, method="learned-memory", **settings)
    shots = (np.random.default_rng(1).random((60, 24)) < priors) @ checks.T % 2 == 1
    found = decoder.decode(shots, corrections=True)
    late = 0
    for n, shot in enumerate(shots[:, decoder.problem.detector_of_check]):
        if not shot.any():
            continue
        errors, iterations = decode_slowly(decoder, network, shot)
        late += iterations > settings["iterations"]
        assert iterations == found.iterations[n]
        np.testing.assert_array_equal(found.corrections[n, decoder.problem.error_of_bit], errors)
    assert late > 5  # The network had an effect.


def test_bits_and_checks_may_change_places(tmp_path: Path) -> None:
    """Answers depend on the numbers of bits only through the draws."""
    network = loud_network(2)
    network.weights[:, [FEATURES.index("draw"), FEATURES.index("early")]] = 0.0
    network.save(tmp_path / "net.safetensors")
    checks, priors = small_code(3)
    rng = np.random.default_rng(2)
    rows, columns = rng.permutation(len(checks)), rng.permutation(24)
    shots = (rng.random((200, 24)) < priors) @ checks.T % 2 == 1
    answers = []
    for matrix, p, seen in ((checks, priors, shots), (checks[rows][:, columns], priors[columns], shots[:, rows])):
        decoder = Decoder(
            matrix,
            p,
            method="learned-memory(iterations=3, legs=2, leg_iterations=4, solutions=1)",
            weights=str(tmp_path / "net.safetensors"),
        )
        tilt = np.ones(decoder.problem.num_bits, np.float32)
        decoder.engine.checks = decoder.engine.checks._replace(tilt=tilt)
        answers.append(decoder.decode(seen, corrections=True))
    same = (answers[0].corrections[:, columns] == answers[1].corrections).all(axis=1)
    late = answers[0].iterations > 3
    assert late.sum() > 10  # The network had an effect.
    assert same[late].mean() > 0.9  # sums in another order round differently
    assert same[~late].all()


def test_a_run_without_restarts_converges_more_often_than_plain_min_sum() -> None:
    model = bicycle_code("bb72", 0.06)
    plain = Decoder(model, method="min-sum(iterations=200)").logical_error_rate(400, seed=1)
    learned = Decoder(model, method="learned-memory(iterations=20, legs=9, solutions=1)").logical_error_rate(
        400, seed=1
    )
    assert learned.result.converged.mean() > plain.result.converged.mean()


def test_training_never_returns_what_is_worse_in_validation() -> None:
    model = bicycle_code("bb72", 0.07)
    settings = MemoryTraining(hidden=1, steps=2, pairs=2, shots=32, legs=2, validate=1, seed=3)
    first, second = (train_memories([model], LearnedMemoryDecoding(leg_iterations=10), settings) for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    costs = dict(first.card["validation"])
    assert sorted(costs) == [0, 1, 2]
    assert first.card["settings"]["seed"] == 3


def test_what_cannot_be_learned_from_is_refused() -> None:
    with pytest.raises(OptionError, match="at least one code"):
        train_memories([])
    quiet = ErrorModel.of_matrices([[1, 1]], 1e-9, None)
    with pytest.raises(OptionError, match="nothing to learn"):
        train_memories([quiet], settings=MemoryTraining(shots=4))


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"card": {}, "weights": [[1, 2]]}'])
def test_files_of_another_kind_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"net\.safetensors"):
        MemoryNetwork.load(str(path))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            np.zeros((2, 3), np.float32),
            r"does not hold weights for decoding. Expected one tensor weights F32 \[H\+1, 9\]",
        ),
        (np.full((1, 9), np.nan, np.float32), "some weights are not finite"),
    ],
)
def test_weights_that_no_network_has_are_refused(weights: np.ndarray, message: str, tmp_path: Path) -> None:
    MemoryNetwork(weights).save(tmp_path / "net.safetensors")
    with pytest.raises(FormatError, match=message):
        MemoryNetwork.load(str(tmp_path / "net.safetensors"))


def test_weights_come_back_and_missing_ones_are_named(tmp_path: Path) -> None:
    network = loud_network()
    network.card["about"] = "a test"
    network.save(tmp_path / "net.safetensors")
    found = MemoryNetwork.load(str(tmp_path / "net.safetensors"))
    np.testing.assert_array_equal(found.weights, network.weights)
    assert (found.card["kind"], found.card["task"], found.card["about"]) == ("learned-memory", "DECODE", "a test")
    with pytest.raises(OptionError, match=r"shipped weights: learned-memory, untrained"):
        Decoder([[1, 1]], 0.1, method="learned-memory(weights=nowhere.safetensors)")
    with pytest.raises(
        FormatError, match=r"holds weights for decoding. Use them with the decoding method learned-memory"
    ):
        parse_solver(str(tmp_path / "net.safetensors"))


def test_safetensors_reads_what_is_written(tmp_path: Path) -> None:
    numpy_files = pytest.importorskip("safetensors.numpy")
    network = loud_network()
    network.save(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(numpy_files.load_file(tmp_path / "net.safetensors")["weights"], network.weights)


def test_the_old_name_and_the_old_files_are_refused_with_the_new_ones(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text('{"card": {}, "weights": [[0, 0, 0, 0, 0, 0, 0, 0, 0]]}')
    with pytest.raises(OptionError, match="fe-nbp is now called learned-memory"):
        Decoder([[1, 1]], 0.1, method="fe-nbp(legs=3)")
    with pytest.raises(FormatError, match=r"are \.safetensors files now. Train the network again, or convert"):
        MemoryNetwork.load(str(tmp_path / "net.json"))


def test_a_place_that_cannot_be_written_is_refused_before_the_training(tmp_path: Path) -> None:
    from equifactor.cli.decoder_training import train_decoder

    (tmp_path / "folder.safetensors").mkdir()
    for out in (tmp_path / "none" / "net.safetensors", tmp_path / "folder.safetensors"):
        with pytest.raises(OptionError, match="weights cannot be written there"):
            train_decoder("learned-memory", ["no-such-code"], str(out), {}, {})
