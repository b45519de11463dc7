"""Parity checks of random codes: regular, few 4-cycles, and their null space."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.base.errors import OptionError
from equifactor.generators import LdpcCode
from equifactor.generators.parity_checks import null_space


def four_cycles(code: LdpcCode) -> int:
    shared = code.parity.astype(int) @ code.parity.T
    np.fill_diagonal(shared, 0)
    return int((shared * (shared - 1) // 2).sum() // 2)


@pytest.mark.parametrize("size", [(4, 1), (6, 3), (12, 6), (20, 8), (20, 17), (96, 48), (120, 60)])
def test_regular_without_repeated_edges(size: tuple[int, int]) -> None:
    n, k = size
    code = LdpcCode.random(n, k, seed=3)
    assert code.parity.shape == (n - k, n)
    assert set(code.parity.sum(axis=0).tolist()) == {3}
    assert set(code.parity.sum(axis=1).tolist()) == {3 * n // (n - k)}
    assert code.n == n
    assert code.dimension >= k


@pytest.mark.parametrize("size", [(96, 48), (200, 100), (1000, 500)])
def test_long_codes_have_no_four_cycles(size: tuple[int, int]) -> None:
    assert four_cycles(LdpcCode.random(*size, seed=1)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("per_check", [6, 30])
def test_a_million_bits_take_no_loop_over_bits(per_check: int, lines_run) -> None:
    # Edges are swapped one by one at the bits in 4-cycles, whose number does not grow with the code.
    codes = []
    small, large = (
        lines_run(lambda n=n: codes.append(LdpcCode.random(n, n - 3 * n // per_check, seed=1)))
        for n in (100_000, 1_000_000)
    )
    assert large < 2 * small
    code = codes[1]
    assert set(np.diff(code.check_ptr).tolist()) == {per_check}
    assert set(np.bincount(code.bits).tolist()) == {3}
    checks = code.bits.reshape(-1, per_check)
    assert (np.diff(checks, axis=1) > 0).all()


def test_codes_of_a_seed_stay_what_they_were() -> None:
    digest = hashlib.sha256()
    for n, k, seed in ((12, 6, 2), (20, 8, 3), (96, 48, 5), (200, 180, 7)):
        digest.update(LdpcCode.random(n, k, seed=seed).bits.astype(">i8").tobytes())
    assert digest.hexdigest() == "06bd983d98cdf9422303c74dacae8284728fc195b0cf3a9ba5f61eddcffa7e19"


def test_irregular_codes_have_their_degrees() -> None:
    rng = np.random.default_rng(0)
    for seed in range(20):
        bits = rng.choice([1, 2, 3, 6], 40)
        edges = int(bits.sum())
        checks = np.full(edges // 5, 5)
        checks[: edges - checks.sum()] += 1
        code = LdpcCode.irregular(bits, checks, seed=seed)
        np.testing.assert_array_equal(code.parity.sum(axis=0), bits)
        np.testing.assert_array_equal(code.parity.sum(axis=1), checks)
        np.testing.assert_array_equal(code.bits, LdpcCode.irregular(bits, checks, seed=seed).bits)
    full = LdpcCode.irregular([3] * 4, [4] * 3)  # only one is possible, and the repair has to find it
    assert full.parity.all()


@pytest.mark.parametrize(
    ("bits", "checks", "sentence"),
    [
        ([2, 2], [3], "The degrees of the bits sum to 4, and the degrees of the checks sum to 3"),
        ([2, 2], [4], "A bit has degree 2, which exceeds the number of checks, 1"),
        ([1, 1], [3, -1], "The degrees of the checks must be a list of whole numbers above 0"),
        ([1.5, 1.5], [3], "The degrees of the bits must be a list of whole numbers above 0"),
        ([], [], "The degrees of the bits must be a list"),
        ([3, 3, 1, 1, 1], [4, 4, 1], "No code with these degrees"),
    ],
)
def test_refuses_degrees(bits: list, checks: list, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        LdpcCode.irregular(bits, checks)


@given(seed=st.integers(0, 1000), rows=st.integers(1, 6), cols=st.integers(1, 9))
def test_null_space_is_all_codewords(seed: int, rows: int, cols: int) -> None:
    parity = np.random.default_rng(seed).integers(2, size=(rows, cols)).astype(np.uint8)
    generator, free = null_space(parity)
    assert not (generator @ parity.T % 2).any()
    words = np.array(list(np.ndindex(*[2] * cols)))
    num_codewords = int((~(words @ parity.T % 2).any(axis=1)).sum())
    assert 2 ** len(generator) == num_codewords
    np.testing.assert_array_equal(generator[:, free], np.eye(len(free)))
