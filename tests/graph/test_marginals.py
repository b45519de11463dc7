from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, solve
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
    with pytest.raises(IndexError, match=f"variable {index} is out of range. There are 3 variables"):
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


def test_print_shows_a_table(ragged: Marginals) -> None:
    assert str(ragged).splitlines() == [
        "variable  state  probability",
        "----------------------------",
        "0         0         0.500000",
        "          1         0.500000",
        "1         0         1.000000",
        "2         0         0.200000",
        "          1         0.300000",
        "          2         0.500000",
    ]
    assert str(Marginals.from_list([[1.0]] * 25)).endswith("19        0         1.000000\n.. and 5 more variables")
    assert str(Marginals.from_list([])).startswith("variable")


class TestByName:
    @pytest.fixture
    def marginals(self) -> Marginals:
        graph = FactorGraph({"rain": 2, "grass": ["dry", "wet"]}, [(["rain", "grass"], [[1, 2], [3, 4]])])
        found = solve(graph).marginals
        assert found is not None
        return found

    def test_a_result_knows_its_names(self, marginals: Marginals) -> None:
        np.testing.assert_allclose(marginals["rain"], [0.3, 0.7])
        np.testing.assert_allclose(marginals["grass"], marginals[1])
        assert len(marginals) == len(list(marginals)) == 2
        assert len(marginals[:1]) == 1
        assert [key in marginals for key in ("rain", "grass", 1, "x", 2, None)] == [
            True,
            True,
            True,
            False,
            False,
            False,
        ]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(marginals))["rain"], marginals["rain"])

    def test_table_and_items_have_names(self, marginals: Marginals, ragged: Marginals) -> None:
        assert str(marginals).splitlines()[2:] == [
            "rain      0         0.300000",
            "          1         0.700000",
            "grass     dry       0.400000",
            "          wet       0.600000",
        ]
        assert {name: p.round(3).tolist() for name, p in marginals.items()} == {"rain": [0.3, 0.7], "grass": [0.4, 0.6]}
        assert [name for name, _ in ragged.items()] == [0, 1, 2]

    def test_conditioned_and_in_a_batch(self, marginals: Marginals) -> None:
        graph = FactorGraph({"a": 1, "b": 2, "c": 2}, [(["b", "c"], [[0, 1], [1, 1]])])  # reduced before it is solved
        for result in solve([graph, graph], evidence={"b": 1}):
            assert result.marginals is not None
            assert [result.marginals[x].tolist() for x in "abc"] == [[1], [0, 1], [0.5, 0.5]]

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("grss", r"The model has no variable 'grss'; did you mean grass\? the names are rain, grass"),
            ("nope", "The model has no variable 'nope'; the names are rain, grass"),
            (1.5, "A variable must be given by number or name, found 1.5"),
            (None, "A variable must be given by number or name, found None"),
        ],
    )
    def test_unknown(self, marginals: Marginals, name: Any, sentence: str) -> None:
        with pytest.raises(ModelError, match=sentence):
            marginals[name]

    def test_without_names(self, ragged: Marginals) -> None:
        with pytest.raises(ModelError, match="The model has no variable 'rain'; the variables have no names"):
            ragged["rain"]
