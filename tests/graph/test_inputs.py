"""What users type by mistake: every case is one sentence of a `ModelError`, never an error of Python or numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from equifactor.errors import ModelError
from equifactor.graph import FactorGraph, compile
from equifactor.graph.structure import numbered


@pytest.fixture
def graph() -> FactorGraph:
    return FactorGraph([2, 3], [([0], [1, 2]), ([0, 1], np.ones((2, 3)))])


class ArrayLike:
    """A foreign container that numpy understands, such as a data frame."""

    def __init__(self, values: list) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values, dtype)


@pytest.mark.parametrize(
    "variables", [range(2, 4), (d for d in (2, 3)), np.array([2, 3], np.uint8), ArrayLike([2, 3]), [2.0, np.int8(3)]]
)
def test_variables_in_many_forms(variables: Any) -> None:
    assert FactorGraph(variables).card.tolist() == [2, 3]


@pytest.mark.parametrize("variables", [5, 3.5, None, "ab", np.array(3), [[2, 2]], [2, [3]], {2, 3}, object()])
def test_variables_that_are_no_list(variables: Any) -> None:
    with pytest.raises(ModelError, match="variables are a list of cardinalities such as"):
        FactorGraph(variables)


@pytest.mark.parametrize("states", [None, 2.0, True, "dry", b"dry"])
def test_states_that_are_neither_number_nor_names(states: Any) -> None:
    with pytest.raises(ModelError, match="variable 'grass' needs its number of states or a list of their names"):
        FactorGraph({"grass": states})


@pytest.mark.parametrize("states", [[1, 2], range(1, 7), [None, "a"]])
def test_state_names_are_text(states: Any) -> None:
    # With names 1..6 for a die, evidence {"die": 3} would silently mean the fourth face.
    with pytest.raises(ModelError, match="must be text"):
        FactorGraph({"die": states})


def test_name_is_text() -> None:
    with pytest.raises(ModelError, match="the name of a graph is text, found 5"):
        FactorGraph([2], name=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("factors", "fragment"),
    [
        (None, "factors are a list of pairs (scope, table), found None"),
        (5, "factors are a list of pairs (scope, table), found 5"),
        ("ab", "factor 0 must be a pair (scope, table), found 'a'"),
        ([([0], [1, 2]), 5], "factor 1 must be a pair (scope, table), found 5"),
        ([([0],)], "factor 0 must be a pair"),
        ([([0], [1, 2], 3)], "factor 0 must be a pair"),
        ({"a": ([0], [1, 2])}, "factor 0 must be a pair (scope, table), found 'a'"),
        ([(0, [1, 2])], "the scope of factor 0 must be a list of variables, such as [0]; found 0"),
        ([("rain", [1, 2])], "the scope of factor 0 must be a list of variables, such as ['rain']; found 'rain'"),
        ([([0], [1, 2]), ([7], [1, 2])], "factor 1: there is no variable 7; the model has 2 variables (0-1)"),
        ([([0], [10**400, 1])], "the table of factor 0 is not an array of numbers"),
        ([([0], (x for x in (1, 2)))], "the table of factor 0 is not an array of numbers"),
        ([([0], [1 + 2j, 1])], "the table of factor 0 is not an array of numbers"),
        ([([0], None)], "the table of factor 0 is not an array of numbers: it holds None"),
    ],
)
def test_factors(factors: Any, fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        FactorGraph([2, 3], factors)
    assert fragment in str(error.value)


@pytest.mark.parametrize(
    ("assignment", "fragment"),
    [
        ([[0], [0, 1]], "one state for each of the 2 variables; found rows of different lengths"),
        ([0, 3], "state 3 of variable 1 is out of range; it has 3 states (0-2)"),
        ([[0, 0], [-1, 0]], "state -1 of variable 0 is out of range; it has 2 states (0-1)"),
        ("01", "found shape ()"),
        (None, "found shape ()"),
        ([None, None], "whole numbers, found dtype object"),
    ],
)
def test_assignments(graph: FactorGraph, assignment: Any, fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        graph.log_score(assignment)
    assert fragment in str(error.value)


@pytest.mark.parametrize(
    ("factor", "fragment"),
    [
        (-1, "there is no factor -1; the model has 2 factors (0-1)"),
        (2, "there is no factor 2"),
        ("a", "a factor is given by its number, found 'a'"),
        (1.0, "a factor is given by its number, found 1.0"),
        (None, "a factor is given by its number, found None"),
    ],
)
def test_factor_numbers(graph: FactorGraph, factor: Any, fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        graph.log_table(factor)
    assert fragment in str(error.value)


@pytest.mark.parametrize("evidence", [None, 5, "x", [0], [(0, 1)]])
def test_evidence_is_a_mapping(graph: FactorGraph, evidence: Any) -> None:
    with pytest.raises(ModelError, match="evidence is a mapping from variable to state"):
        graph.condition(evidence)


def test_long_values_are_shortened_in_errors(graph: FactorGraph) -> None:
    with pytest.raises(ModelError) as error:
        graph.condition({0: list(range(10**5))})
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("graphs", [5, None, "model.uai", ["model.uai"], [5]])
def test_graphs(graphs: Any) -> None:
    with pytest.raises(ModelError, match="expected a FactorGraph or several"):
        compile(graphs)


def test_with_factors_adds_many_at_once(graph: FactorGraph) -> None:
    more = graph.with_factors([([1], [1, 2, 3]), ([], 5.0), ([1, 0], np.full((3, 2), 2.0))])
    assert more.num_factors == 5
    assert more.log_score([1, 2]) == pytest.approx(graph.log_score([1, 2]) + math.log(3 * 5 * 2))
    one_by_one = graph.with_factor([1], [1, 2, 3]).with_factor([], 5.0).with_factor([1, 0], np.full((3, 2), 2.0))
    assert more == one_by_one
    with pytest.raises(ModelError, match="factor 3, entry 1 is -1"):
        graph.with_factors([([1], [1, 2, 3]), ([0], [1, -1])])


def test_numbered() -> None:
    assert [numbered(n, "state") for n in range(3)] == ["no states", "1 state (0)", "2 states (0-1)"]
