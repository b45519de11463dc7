"""Parity checks of random codes: regular, few 4-cycles, and their null space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(seed=st.integers(0, 1000), rows=st.integers(1, 6), cols=st.integers(1, 9))
def test_null_space_is_all_codewords(seed: int, rows: int, cols: int) -> None:
    parity = np.random.default_rng(seed).integers(2, size=(rows, cols)).astype(np.uint8)
    generator, free = null_space(parity)
    assert not (generator @ parity.T % 2).any()
    words = np.array(list(np.ndindex(*[2] * cols)))
    num_codewords = int((~(words @ parity.T % 2).any(axis=1)).sum())
    assert 2 ** len(generator) == num_codewords
    np.testing.assert_array_equal(generator[:, free], np.eye(len(free)))
