"""Decoders against enumeration on small codes, and properties of every method on every code."""

from __future__ import annotations

import itertools
import pickle
import signal
import tracemalloc

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding import METHODS, Decoder, ErrorModel

REPETITION = np.eye(6, 7, dtype=int) + np.eye(6, 7, 1, dtype=int)  # a chain: belief propagation is exact on it
ALL = sorted(set(METHODS) - {"optimal", "class"})  # tested in test_optimal.py and test_class_sums.py


def random_code(seed: int, checks: int = 7, bits: int = 14) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.choice(np.arange(1, 2**checks), bits, replace=False)  # columns that differ
    H = (codes >> np.arange(checks)[:, None]) & 1
    H &= rng.random(H.shape) < 0.6
    H[rng.integers(checks, size=bits), np.arange(bits)] = 1
    H = np.unique(H, axis=1)
    bits = H.shape[1]
    return H, rng.uniform(0.01, 0.2, bits), rng.integers(2, size=(2, bits))


def lightest(H: np.ndarray, p: np.ndarray, shot: np.ndarray) -> float:
    """Return the smallest weight of errors that explain a shot, by enumeration."""
    errors = np.array(list(itertools.product((0, 1), repeat=H.shape[1])))
    meets = ((errors @ H.T) % 2 == shot).all(axis=1)
    return float((errors[meets] @ np.log((1 - p) / p)).min())


def draw(H: np.ndarray, p: np.ndarray, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    errors = np.random.default_rng(seed).random((count, H.shape[1])) < p
    return (errors @ H.T) % 2 == 1, errors


@pytest.mark.parametrize(
    "method", ["min-sum", "sum-product", "min-sum(schedule=serial)", "sum-product(schedule=serial)"]
)
def test_exact_on_a_chain(method: str) -> None:
    p = np.random.default_rng(3).uniform(0.05, 0.3, 7)
    shots = np.array(list(itertools.product((0, 1), repeat=6)))
    result = Decoder(REPETITION, p, method=method).decode(shots, corrections=True)
    assert result.converged.all()
    assert result.corrections is not None
    assert ((result.corrections @ REPETITION.T) % 2 == shots).all()
    if "min-sum" in method:  # min-sum finds the likeliest errors, sum-product the likeliest bits
        np.testing.assert_allclose(result.weight, [lightest(REPETITION, p, s) for s in shots], rtol=1e-5)


@pytest.mark.parametrize("method", [*ALL, "relay(schedule=serial)", "memory(osd=0)", "min-sum(scale=0)"])
def test_converged_shots_are_explained(method: str) -> None:
    for seed in range(4):
        H, p, L = random_code(seed)
        shots, _ = draw(H, p, 100, seed)
        decoder = Decoder(H, p, L, method=method)
        result = decoder.decode(shots, corrections=True)
        assert result.corrections is not None
        explained = ((result.corrections @ H.T) % 2 == shots).all(axis=1)
        assert (explained == result.converged).all()
        np.testing.assert_allclose(result.weight, result.corrections @ np.log((1 - p) / p), rtol=1e-4, atol=1e-4)
        assert (result.flips == (result.corrections @ L.T) % 2).all()
        best = np.array([lightest(H, p, s) for s in shots[:10]])
        assert (result.weight[:10] >= best - 1e-3)[result.converged[:10]].all()
        if "osd" in method:
            assert result.converged.all()


def test_a_shot_does_not_depend_on_the_others() -> None:
    H, p, L = random_code(5, 12, 30)
    shots, _ = draw(H, p, 150)
    decoder = Decoder(H, p, L, method="relay(legs=10, seed=3)")
    whole = decoder.decode(shots)
    order = np.random.default_rng(0).permutation(150)
    mixed = decoder.decode(np.packbits(shots[order], axis=1, bitorder="little"), packed=True)
    for name in ("flips", "converged", "iterations", "weight"):
        np.testing.assert_array_equal(getattr(whole, name)[order], getattr(mixed, name))
    single = decoder.decode(shots[17:18])
    assert single.weight[0] == whole.weight[17]
    other = Decoder(H, p, L, method="relay(legs=10, seed=4)").decode(shots)
    assert (other.iterations != whole.iterations).any()


def test_only_shots_that_the_first_leg_leaves_open_are_decoded_again() -> None:
    H, p, L = random_code(5, 12, 30)
    shots, _ = draw(H, p, 300, seed=5)
    first, whole, short = (
        Decoder(H, p, L, method=method).decode(shots, corrections=True)
        for method in (
            "memory(iterations=4)",
            "relay(iterations=4, legs=10, solutions=3)",
            "relay(iterations=4, legs=10, solutions=3, trust_first=true)",
        )
    )
    settled = first.converged
    assert 0.1 < settled.mean() < 0.95
    np.testing.assert_array_equal(short.corrections, np.where(settled[:, None], first.corrections, whole.corrections))
    np.testing.assert_array_equal(short.iterations, np.where(settled, first.iterations, whole.iterations))
    assert (whole.iterations > short.iterations).sum() > 10


def test_codes_of_nothing() -> None:
    for H, shots, met in (([[0, 0]], [[0], [1]], [True, False]), (np.zeros((0, 2), int), np.zeros((2, 0)), [True] * 2)):
        for method in ("relay", "bp-osd"):
            result = Decoder(H, 0.1, [[1, 0]], method=method).decode(shots, corrections=True)
            assert result.converged.tolist() == met
            assert result.corrections is not None
            assert not result.corrections.any()


def test_decoders_pickle() -> None:
    H, p, L = random_code(2)
    shots, _ = draw(H, p, 30)
    decoder = Decoder(H, p, L, method="relay(osd=cs)")
    again = pickle.loads(pickle.dumps(decoder))
    assert (again.decode(shots).weight == decoder.decode(shots).weight).all()


def test_combination_sweep_finds_what_order_0_misses() -> None:
    weights = {}
    H, p, _ = random_code(8, 12, 30)
    shots, _ = draw(H, p * 2, 200)
    for method in ("min-sum(iterations=1, osd=0)", "min-sum(iterations=1, osd=cs, osd_order=18)"):
        weights[method] = Decoder(H, p, method=method).decode(shots).weight
    zero, sweep = weights.values()
    assert (sweep <= zero + 1e-4).all()
    assert (sweep < zero - 1e-4).any()


def test_certain_errors_and_unseen_detectors() -> None:
    H = np.array([[1, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]])
    L = np.array([[0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1]])
    p = [0.1, 0.1, 0.9, 0.0, 1.0, 0.2]
    result = Decoder(H, p, L, method="min-sum").decode(
        [[1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]], corrections=True
    )
    assert result.converged.tolist() == [True, True, True, False, False]
    assert result.corrections is not None
    assert result.corrections[:3].tolist() == [[0, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0], [0, 1, 1, 0, 1, 0]]
    assert result.flips.tolist() == [[True, True]] * 5


def test_a_coin_decides_nothing() -> None:
    result = Decoder([[1, 1, 0], [0, 1, 1]], [0.5, 0.5, 0.1], method="bp-osd").decode([[1, 0], [0, 1], [1, 1]])
    assert result.converged.all()
    assert np.isfinite(result.weight).all()


def test_equal_columns_are_one_error() -> None:
    H = np.array([[1, 1, 1, 0], [0, 0, 1, 1]])
    model = ErrorModel.of_matrices(H, [0.1, 0.2, 0.1, 0.3], [[0, 0, 1, 1]])
    one, original = model.merged()
    assert original.tolist() == [1, 2, 3]
    np.testing.assert_allclose(one.priors, [0.1 * 0.8 + 0.2 * 0.9, 0.1, 0.3])
    corrections = Decoder(model, method="min-sum").decode([[1, 0]], corrections=True).corrections
    assert corrections is not None
    assert corrections.tolist() == [[0, 1, 0, 0]]


def test_equal_syndromes_with_other_observables_stay_apart() -> None:
    model = ErrorModel.of_matrices([[1, 1]], [0.1, 0.2], [[0, 1]])
    assert model.merged()[0].num_errors == 2
    assert Decoder(model, method="min-sum").decode([[1]]).flips.tolist() == [[True]]


def test_rare_errors_are_merged_precisely() -> None:
    model = ErrorModel.of_matrices(np.ones((1, 3), int), [1e-15, 2e-15, 3e-15])
    np.testing.assert_allclose(model.merged()[0].priors, [6e-15], rtol=1e-12)
    likely = ErrorModel.of_matrices(np.ones((1, 3), int), [0.9, 0.8, 0.4])
    np.testing.assert_allclose(likely.merged()[0].priors, [0.5 - 0.5 * (-0.8) * (-0.6) * 0.2])


def test_more_shots_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.decoding.shot_store.CHUNK", 7)
    H, p, L = random_code(2)
    shots, _ = draw(H, p, 60)
    decoder = Decoder(H, p, L, method="memory(iterations=20, osd=cs)")
    in_pieces = decoder.decode(shots)
    monkeypatch.undo()
    whole = decoder.decode(shots)
    assert (in_pieces.flips == whole.flips).all()
    assert (in_pieces.weight == whole.weight).all()


def test_time_limit_keeps_what_is_done() -> None:
    H, p, L = random_code(2)
    result = Decoder(H, p, L).decode(np.ones((50, 7), int), time_limit=0.0)
    assert not result.decoded.any()
    assert not result.converged.any()
    assert Decoder(H, p, L).decode(np.zeros((0, 7), int)).flips.shape == (0, 2)


def test_ctrl_c_keeps_what_is_done() -> None:
    H, p, L = random_code(2)
    shots = np.ones((20000, 7), int)
    shots[::2] = 0
    seen = []

    def press(done: int, total: int | None, note: str) -> None:
        seen.append(done)
        if len(seen) == 1:
            signal.raise_signal(signal.SIGINT)

    result = Decoder(H, p, L, method="min-sum").decode(shots, progress=press)
    assert result.interrupted
    assert 0 < result.decoded.sum() < 20000
    assert (np.diff(result.decoded.astype(int)) <= 0).all()  # The decoded shots are the first shots.
    whole = Decoder(H, p, L, method="min-sum").decode(shots)
    np.testing.assert_array_equal(result.iterations[result.decoded], whole.iterations[result.decoded])
    assert not result.converged[~result.decoded].any()
    assert not result.flips[~result.decoded].any()


def test_an_exception_of_the_callers_function_passes_through() -> None:
    H, p, L = random_code(2)
    decoder = Decoder(H, p, L, method="min-sum")
    shots = np.ones((5000, 7), int)
    errors: list[BaseException] = []

    def report(done: int, total: int | None, note: str) -> None:
        if errors:
            raise errors.pop()

    for error in (MemoryError("mine"), ValueError("mine")):
        errors.append(error)
        with pytest.raises(type(error)) as raised:
            decoder.decode(shots, progress=report)
        assert raised.value is error
    errors.append(KeyboardInterrupt())
    assert decoder.decode(shots, progress=report).interrupted
    assert decoder.decode(shots).decoded.all()  # Nothing is left behind.


def test_memory_does_not_grow_with_the_shots() -> None:
    H, p, L = random_code(2)
    packed = np.zeros((200_000, 1), np.uint8)
    decoder = Decoder(H, p, L, method="min-sum")
    decoder.decode(packed[:10], packed=True)
    tracemalloc.start()
    try:
        decoder.decode(packed, packed=True)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(packed)  # the answers alone take 18 bytes a shot
    finally:
        tracemalloc.stop()


def test_wrong_input_is_refused() -> None:
    decoder = Decoder([[1, 1]], 0.1)
    with pytest.raises(ModelError, match=r"shots must be an array \[N, 1\] of detectors"):
        decoder.decode([[1, 0]])
    with pytest.raises(ModelError, match="other than 0 and 1"):
        decoder.decode([[2]])
    with pytest.raises(ModelError, match="holds 2 in row 0"):
        Decoder([[1, 2]], 0.1)
    with pytest.raises(ModelError, match="prior of error 1"):
        Decoder([[1, 1]], [0.1, 1.5])
    with pytest.raises(ModelError, match="one probability or one for each of 2 columns"):
        Decoder([[1, 1]], [0.1, 0.1, 0.1])
    with pytest.raises(ModelError, match="one column per error"):
        Decoder([[1, 1]], 0.1, [[1, 1, 1]])
    with pytest.raises(OptionError, match="needs priors"):
        Decoder([[1, 1]])
    with pytest.raises(OptionError, match="did you mean relay"):
        Decoder([[1, 1]], 0.1, method="relai")
    with pytest.raises(OptionError, match="no option 'legz'"):
        Decoder([[1, 1]], 0.1, legz=3)
    with pytest.raises(OptionError, match="low must be at most high"):
        Decoder([[1, 1]], 0.1, low=0.5, high=0.1)
    with pytest.raises(OptionError, match=r"observables must be a matrix, found relay\. .* method='relay'"):
        Decoder([[1, 1]], 0.1, "relay")
    with pytest.raises(OptionError, match="no device"):
        Decoder([[1, 1]], 0.1, device="tpu")


def test_sparse_matrices_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    H, p, L = random_code(1)
    shots, _ = draw(H, p, 20)
    dense = Decoder(H, p, L).decode(shots)
    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array):
        assert (Decoder(kind(H), p, kind(L)).decode(shots).flips == dense.flips).all()
    twice = sparse.coo_matrix((np.ones(3), ([0, 0, 0], [0, 0, 1])), shape=(1, 2))
    with pytest.raises(ModelError, match=r"holds 2\.0 in row 0 and column 0\. Expected 0 or 1"):
        Decoder(twice, 0.1)  # scipy adds entries at one place: the matrix is [[2, 1]]
    assert twice.nnz == 3  # the matrix of the user stays as it is


def test_the_text_of_a_method_reads_back() -> None:
    decoder = ef.decoding.Decoder([[1, 1]], 0.1, method="relay(legs=3)", osd="0", schedule="serial")
    assert str(decoder.method) == 'relay(schedule=serial, legs=3, osd="0")'
    assert Decoder([[1, 1]], 0.1, method=str(decoder.method)).method == decoder.method
    assert "relay" in repr(decoder)


def test_settings_are_keywords_or_text() -> None:
    model = ErrorModel.of_matrices([[1, 1]], 0.1)
    by_text, by_keyword = Decoder(model, "relay(legs=7, osd=0)"), Decoder(model, "relay", legs=7, osd="0")
    assert by_text.method == by_keyword.method == Decoder([[1, 1]], 0.1, method="relay(osd=0)", legs=7).method
    assert str(by_text.method) == 'relay(legs=7, osd="0")'
    assert Decoder(model, "relay(legs=3)", legs=7).method.legs == 7  # A keyword overrides the text.
    assert Decoder(model, by_text.method, legs=2).method == Decoder(model, "relay(legs=2, osd=0)").method
    assert Decoder(model, "bp-osd(osd=none)").method.osd == "none"
    with pytest.raises(OptionError, match="priors must be probabilities, found relay"):
        Decoder([[1, 1]], "relay", method="min-sum")
    with pytest.raises(OptionError, match=r"Cannot read the decoding method 'relay\('"):
        Decoder(model, "relay(")


def test_a_result_without_a_decoded_shot_has_no_rates() -> None:
    decoder = Decoder([[1, 1, 0], [0, 1, 1]], 0.1, [[1, 0, 0]], method="min-sum")
    assert str(decoder.decode([[1, 0], [1, 1]], time_limit=0.0)) == "0 of 2 shots by min-sum"
