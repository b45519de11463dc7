"""Mistakes of users: every case raises a `ModelError` with one sentence, never an error of Python or numpy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.errors import ModelError
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
    with pytest.raises(ModelError, match="The variables must be a list of cardinalities such as"):
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
    with pytest.raises(ModelError, match="The name of a graph must be text, found 5"):
        FactorGraph([2], name=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("factors", "fragment"),
    [
        (None, "The factors must be a list of pairs (scope, table), found None"),
        (5, "The factors must be a list of pairs (scope, table), found 5"),
        ("ab", "factor 0 must be a pair (scope, table), found 'a'"),
        ([([0], [1, 2]), 5], "factor 1 must be a pair (scope, table), found 5"),
        ([([0],)], "factor 0 must be a pair"),
        ([([0], [1, 2], 3)], "factor 0 must be a pair"),
        ({"a": ([0], [1, 2])}, "factor 0 must be a pair (scope, table), found 'a'"),
        ([(0, [1, 2])], "The scope of factor 0 must be a list of variables such as [0], found 0"),
        ([("rain", [1, 2])], "The scope of factor 0 must be a list of variables such as ['rain'], found 'rain'"),
        ([([0], [1, 2]), ([7], [1, 2])], "factor 1: The model has no variable 7. It has 2 variables (0-1)"),
        ([([0], [10**400, 1])], "The table of factor 0 is not an array of numbers"),
        ([([0], (x for x in (1, 2)))], "The table of factor 0 is not an array of numbers"),
        ([([0], [1 + 2j, 1])], "The table of factor 0 is not an array of numbers"),
        ([([0], None)], "The table of factor 0 is not an array of numbers: it holds None"),
    ],
)
def test_factors(factors: Any, fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        FactorGraph([2, 3], factors)
    assert fragment in str(error.value)


@pytest.mark.parametrize(
    ("assignment", "fragment"),
    [
        ([[0], [0, 1]], "one state for each of the 2 variables, found rows of different lengths"),
        ([0, 3], "state 3 of variable 1 is out of range. The variable has 3 states (0-2)"),
        ([[0, 0], [-1, 0]], "state -1 of variable 0 is out of range. The variable has 2 states (0-1)"),
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
        (-1, "The model has no factor -1. It has 2 factors (0-1)"),
        (2, "The model has no factor 2"),
        ("a", "A factor must be given by its number, found 'a'"),
        (1.0, "A factor must be given by its number, found 1.0"),
        (None, "A factor must be given by its number, found None"),
    ],
)
def test_factor_numbers(graph: FactorGraph, factor: Any, fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        graph.log_table(factor)
    assert fragment in str(error.value)


@pytest.mark.parametrize("evidence", [None, 5, "x", [0], [(0, 1)]])
def test_evidence_is_a_mapping(graph: FactorGraph, evidence: Any) -> None:
    with pytest.raises(ModelError, match="evidence must be a mapping from variable to state"):
        graph.condition(evidence)


def test_long_values_are_shortened_in_errors(graph: FactorGraph) -> None:
    with pytest.raises(ModelError) as error:
        graph.condition({0: list(range(10**5))})
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("graphs", [5, None, "model.uai", ["model.uai"], [5]])
def test_graphs(graphs: Any) -> None:
    with pytest.raises(ModelError, match="Expected a FactorGraph or several"):
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


class Gradient(ArrayLike):
    """A tensor of torch that takes part in a gradient."""

    requires_grad = True


class Labelled(ArrayLike):
    """A data frame: numbers with labels."""

    index = ("a", "b")

    def to_numpy(self) -> np.ndarray:
        return np.array(self.values)


class Sparse:
    """A sparse matrix of scipy."""

    def toarray(self) -> np.ndarray:
        return np.ones((2, 3))


class Stubborn:
    """An object that raises an error for every question."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("not now")

    def __iter__(self) -> Any:
        raise KeyError("nor this")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (Gradient([1.0, 2.0]), "requires a gradient.*Pass its .detach().*equifactor.beliefs(flat, log_phi)"),
        (Labelled([1.0, 2.0]), "it is a Labelled, whose labels would be lost. Pass its .to_numpy()"),
        (Sparse(), "it is a sparse Sparse. Pass its .toarray()"),
        (Stubborn(), "not now"),
        ([1, [2, 3]], "its rows have different lengths"),
        (["1", "2"], "it holds text"),
        (b"12", "it holds text"),
        (np.array([1 + 2j, 1]), "it holds complex numbers"),
        (np.array([1, "x"], object), "it holds 'x'"),
        (np.array([1, 2], "M8[s]"), "it holds dates"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "some of its entries are masked"),
        ({0: 1, 1: 2}, "it holds {0: 1, 1: 2}"),
    ],
)
def test_tables_of_other_kinds(table: Any, reason: str) -> None:
    pattern = ".*".join(re.escape(part) for part in reason.split(".*"))
    with pytest.raises(ModelError, match=f"The table of factor 0 is not an array of numbers: .*{pattern}"):
        FactorGraph([2], [([0], table)])
    with pytest.raises(ModelError, match=f"The tables are not an array of numbers: .*{pattern}"):
        FactorGraph([2], [([0], [1, 1])]).with_potentials(table)


def test_a_tensor_with_a_gradient() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ModelError, match="requires a gradient"):
        FactorGraph([2], [([0], torch.ones(2, requires_grad=True))])
    assert FactorGraph([2], [([0], torch.ones(2))]) == FactorGraph([2], [([0], [1, 1])])


@pytest.mark.parametrize(
    "table", [[Fraction(1, 2), 1], [Decimal("0.5"), 1], np.ma.masked_array([0.5, 1.0]), np.float32([0.5, 1])]
)
def test_tables_of_other_numbers(table: Any) -> None:
    assert np.exp(FactorGraph([2], [([0], table)]).log_phi).tolist() == [0.5, 1]


def test_more_variables_than_an_array_has_axes(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"factor 0 has 89 variables and 2\^89 table entries. At most 2\^40"):
        FactorGraph([2] * 89, [(range(89), [1.0])])
    nested: Any = 1.0
    for _ in range(89):
        nested = [nested]
    with pytest.raises(ModelError, match="The table of factor 0 is not an array of numbers"):
        FactorGraph([1] * 89, [(range(89), nested)])
    graph = FactorGraph([1] * 88 + [2], [(range(89), [1.0, 2.0])])
    with pytest.raises(ModelError, match="factor 0 has 89 variables, and an array has at most 64 axes"):
        graph.log_table(0)
    assert ef.solve(graph, "PR").log_z == pytest.approx(math.log(3))
    for suffix in ("uai", "lg", "fg", "wcsp"):
        ef.write_graph(graph, tmp_path / f"wide.{suffix}")
        back = ef.read_graph(tmp_path / f"wide.{suffix}")
        assert ef.solve(back, "PR").log_z == pytest.approx(math.log(3), abs=1e-6)


def test_more_than_the_memory_holds() -> None:
    huge = FactorGraph([2**39])
    for solver in ("auto", "bp", "exact"):
        result = ef.solve(huge, "MAR", solver)
        assert result.status is ef.Status.TOO_LARGE
        assert "memory" in result.message
    with pytest.raises(ModelError, match="Tables with 549,755,813,888 entries in total do not fit in memory"):
        FactorGraph([2**19, 2**20], [([0, 1], np.broadcast_to(1.0, (2**19, 2**20)))])


ODD: list[Any] = [
    None, True, -1, 2**70, 1.5, math.nan, math.inf, 1j, "", "a", "bp", b"x", [], (), {}, {1, 2}, range(3),
    [[1, 2], [3]], [None], ["a", "b"], [True, False], [2**70, 1], [-1, 2], [10**400, 1], {"a": None}, {1: 2},
    np.zeros(0), np.ones((2, 2)), np.array(3), np.array("x"), np.array([None, {}], object), np.array([1j, 2]),
    np.array([1, 2], "m8[s]"), np.ma.masked, np.bool_(True), np.void(b"abc"), np.timedelta64(1, "s"), Gradient([1, 2]),
    Labelled([1, 2]), Sparse(), Stubborn(), [Stubborn()], iter([1, 2]), print, int, object(), memoryview(b"ab"),
    slice(1), ..., NotImplemented, "\ud800", [[]], {"a": []}, {"a": ["x", "x"]}, [2**62, 2**62], [([0],)],
    [(None, None)],
]  # fmt: skip
PLACES: dict[str, Callable[[FactorGraph, Any], object]] = {
    "variables": lambda g, x: FactorGraph(x),
    "factors": lambda g, x: FactorGraph([2, 2], x),
    "factor": lambda g, x: FactorGraph([2, 2], [x]),
    "scope": lambda g, x: FactorGraph([2, 2], [(x, [1.0, 2.0])]),
    "variable": lambda g, x: FactorGraph([2, 2], [([x], [1.0, 2.0])]),
    "table": lambda g, x: FactorGraph([2, 2], [([0], x)]),
    "entry": lambda g, x: FactorGraph([2, 2], [([0], [x, 1.0])]),
    "log": lambda g, x: FactorGraph([2], [([0], [1.0, 2.0])], log=x),
    "name": lambda g, x: FactorGraph([2], name=x),
    "states": lambda g, x: FactorGraph({"a": x}),
    "state name": lambda g, x: FactorGraph({"a": [x, "b"]}),
    "potentials": lambda g, x: g.with_potentials(x),
    "evidence": lambda g, x: g.condition(x),
    "observed": lambda g, x: g.condition({0: x}),
    "assignment": lambda g, x: g.log_score(x),
    "log_table": lambda g, x: g.log_table(x),
    "state": lambda g, x: g.state(x, x),
    "graph": lambda g, x: ef.solve(x),
    "graphs": lambda g, x: ef.solve([g, x]),
    "task": lambda g, x: ef.solve(g, x),
    "solver": lambda g, x: ef.solve(g, "MAR", x),
    "solve evidence": lambda g, x: ef.solve(g, evidence=x),
    "time_limit": lambda g, x: ef.solve(g, time_limit=x),
    "seed": lambda g, x: ef.solve(g, seed=x),
    "device": lambda g, x: ef.solve(g, device=x),
    "dtype": lambda g, x: ef.solve(g, dtype=x),
    "strict": lambda g, x: ef.solve(g, strict=x),
    "progress": lambda g, x: ef.solve(g, progress=x),
    "option": lambda g, x: ef.solve(g, "MAR", "bp", damping=x),  # type: ignore[call-overload]
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES)
def test_odd_objects_are_taken_or_refused_in_one_line(place: str) -> None:
    graph = FactorGraph([2, 3], [([0], [1, 2]), ([0, 1], np.ones((2, 3)))])
    for odd in ODD:
        if place == "progress" and callable(odd):
            continue  # the object is called
        sentence = ""
        try:
            PLACES[place](graph, odd)
        except ef.EquifactorError as error:
            sentence = str(error)
        assert "\n" not in sentence
        assert len(sentence) < 500
