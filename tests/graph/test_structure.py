from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.base.errors import ModelError
from equifactor.generators import random_graph
from equifactor.graph import Structure


def test_sizes_and_rows() -> None:
    s = Structure.build([2, 3, 1], [0, 1, 1, 4], [1, 2, 0, 1])
    assert (s.num_vars, s.num_factors, s.num_edges, s.num_entries) == (3, 3, 4, 3 + 1 + 6)
    assert s.table_ptr.tolist() == [0, 3, 4, 10]
    assert s.arity.tolist() == [1, 0, 3]
    assert s.factor_of_edge.tolist() == [0, 2, 2, 2]
    assert s.stride.tolist() == [1, 6, 3, 1]
    assert [s.scope(a).tolist() for a in range(3)] == [[1], [], [2, 0, 1]]
    assert [s.shape(a) for a in range(3)] == [(3,), (), (1, 2, 3)]


def test_without_variables_or_factors() -> None:
    s = Structure.build([], [0], [])
    assert (s.num_vars, s.num_factors, s.num_edges, s.num_entries) == (0, 0, 0, 0)
    assert len(s.stride) == len(s.arity) == 0


@given(seed=st.integers(0, 10_000))
def test_strides_are_those_of_numpy(seed: int) -> None:
    s = random_graph(6, 8, arity=(0, 4), card=(1, 4), seed=seed).structure
    for a in range(s.num_factors):
        table = np.zeros(s.shape(a))
        # numpy may give any stride to an axis of length 1; ours is the product of the later cardinalities
        mine = s.stride[s.scope_ptr[a] : s.scope_ptr[a + 1]]
        expected = [int(np.prod(table.shape[j + 1 :])) for j in range(table.ndim)]
        assert mine.tolist() == expected
        assert s.table_ptr[a + 1] - s.table_ptr[a] == table.size


@pytest.mark.parametrize(
    ("card", "scope_ptr", "scope_vars", "fragment"),
    [
        ([2, 0], [0], [], "variable 1 has 0 states. Every variable needs at least 1"),
        ([2, -3], [0], [], "variable 1 has -3 states"),
        ([2.5], [0], [], "must be whole numbers"),
        ([np.nan], [0], [], "must be whole numbers"),
        ([np.inf], [0], [], "must be whole numbers"),
        (["two"], [0], [], "must be whole numbers"),
        ([2**70], [0], [], "must be whole numbers"),
        ([2**62, 2**62, 2**62], [0], [], "At most 2^40 can be addressed"),
        ([[2, 2]], [0], [], "must be a list of numbers"),
        ([2, 2], [0, 1], [2], "factor 0 names variable 2. The model has 2 variables (0-1)"),
        ([2, 2], [0, 1, 2], [0, -1], "factor 1 names variable -1"),
        ([], [0, 1], [0], "factor 0 names variable 0. The model has no variables"),
        ([2, 2], [0, 3], [0, 1, 0], "factor 0 names variable 0 twice"),
        ([2, 2], [0, 1, 3], [0, 1, 1], "factor 1 names variable 1 twice"),
        ([2] * 5, [0, 3, 6], [0, 1, 2, 3, 1, 3], "factor 1 names variable 3 twice"),
        ([2] * 6, [0, 1, 7], [0, 5, 1, 2, 3, 4, 1], "factor 1 names variable 1 twice"),
        ([2, 2], [1, 2], [0, 1], "scope_ptr must rise from 0 to 2"),
        ([2, 2], [0, 1], [0, 1], "scope_ptr must rise from 0 to 2"),
        ([2, 2], [0, 2, 1, 2], [0, 1], "scope_ptr must rise from 0 to 2"),
        ([2, 2], [], [], "scope_ptr with F + 1 entries"),
        ([2] * 41, [0, 41], list(range(41)), "factor 0 has 41 variables and 2^41 table entries"),
    ],
)
def test_refuses(card: object, scope_ptr: list[int], scope_vars: list[int], fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        Structure.build(card, scope_ptr, scope_vars)  # type: ignore[arg-type]
    assert fragment in str(error.value)


def test_error_names_the_culprit() -> None:
    with pytest.raises(ModelError) as error:
        Structure.build([2, 2], [0, 1, 2], [0, 7])
    assert (error.value.factor, error.value.variable) == (1, 7)


@pytest.mark.parametrize(
    ("names", "states", "fragment"),
    [
        (["a"], None, "Expected 2 variable names, one for each variable, found 1"),
        (["a", "a"], None, "Two variables are called 'a'"),
        (["a", 1], None, "A variable name must be text, found 1"),
        (None, [["x", "y"]], "Expected state names for 2 variables, found them for 1"),
        (None, [["x", "y"], ["x", "y"]], "variable 1 has 3 states but is given the state names ['x', 'y']"),
        (None, [["x", "x"], None], "Every state needs a name of its own"),
    ],
)
def test_refuses_names(names: object, states: object, fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        Structure.build([2, 3], [0], [], variable_names=names, state_names=states)  # type: ignore[arg-type]
    assert fragment in str(error.value)


def test_arrays_are_frozen_copies() -> None:
    card = np.array([2, 3])
    s = Structure.build(card, [0, 2], [0, 1])
    card[0] = 9
    assert s.card.tolist() == [2, 3]
    for array in (s.card, s.scope_ptr, s.scope_vars, s.table_ptr, s.arity, s.stride, s.factor_of_edge):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        s.card = card  # type: ignore[misc]


def test_pickle_keeps_everything_and_stays_frozen() -> None:
    s = Structure.build([2, 3], [0, 2], [0, 1], variable_names=["a", "b"], state_names=[None, ["x", "y", "z"]])
    assert s.stride.tolist() == [3, 1]  # a cached value travels too
    t = pickle.loads(pickle.dumps(s))
    assert s.same_as(t)
    assert not any(a.flags.writeable for a in (t.card, t.scope_ptr, t.scope_vars, t.table_ptr, t.stride))


def test_names() -> None:
    s = Structure.build([2, 2], [0], [], variable_names=["rain", "grass"])
    assert s.index_of_name == {"rain": 0, "grass": 1}
    assert s.variable_name(1) == "grass"
    assert Structure.build([2, 2], [0], []).variable_name(1) == "1"


def test_same_as_compares_values() -> None:
    s = Structure.build([2, 2], [0, 2], [0, 1])
    assert s.same_as(s)
    assert s.same_as(Structure.build([2, 2], [0, 2], [0, 1]))
    assert not s.same_as(Structure.build([2, 2], [0, 2], [1, 0]))
    assert not s.same_as(Structure.build([2, 3], [0, 2], [0, 1]))
    assert not s.same_as(Structure.build([2, 2], [0, 1, 2], [0, 1]))
    assert not s.same_as(Structure.build([2, 2], [0, 2], [0, 1], variable_names=["a", "b"]))
