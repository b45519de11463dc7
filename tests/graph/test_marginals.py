from __future__ import annotations

import pickle

import numpy as np
import pytest

from equifactor.graph.marginals import Marginals


@pytest.fixture
def ragged() -> Marginals:
    return Marginals.from_list([[0.5, 0.5], [1.0], [0.2, 0.3, 0.5]])


def test_is_a_sequence_of_views(ragged: Marginals) -> None:
    assert len(ragged) == 3
    assert ragged.ptr.tolist() == [0, 2, 3, 6]
    assert [v.tolist() for v in ragged] == [[0.5, 0.5], [1.0], [0.2, 0.3, 0.5]]
    assert ragged[-1].tolist() == [0.2, 0.3, 0.5]
    assert [v.tolist() for v in ragged[:2]] == [[0.5, 0.5], [1.0]]
    assert np.shares_memory(ragged[2], ragged.values)


@pytest.mark.parametrize("index", [3, -4, 100])
def test_out_of_range(ragged: Marginals, index: int) -> None:
    with pytest.raises(IndexError, match=f"variable {index} is out of range; there are 3 variables"):
        ragged[index]


def test_empty() -> None:
    empty = Marginals.from_list([])
    assert len(empty) == 0
    assert list(empty) == []


def test_repr_and_pickle(ragged: Marginals) -> None:
    assert repr(ragged) == "Marginals(3 variables, 6 states)"
    again = pickle.loads(pickle.dumps(ragged))
    np.testing.assert_array_equal(again.values, ragged.values)
    np.testing.assert_array_equal(again.ptr, ragged.ptr)
