import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equifactor.base.errors import ModelError
from equifactor.formats.results import (
    format_map,
    format_mar,
    format_pr,
    read_map,
    read_mar,
    read_pr,
    write_map,
    write_mar,
    write_pr,
)  # fmt: skip
from equifactor.graph.marginals import Marginals


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answer.gz"


def test_text():
    assert format_pr(-2 * math.log(10)) == "PR\n-2.0\n"
    assert format_pr(-math.inf) == "PR\n-inf\n"
    assert format_mar([[0.1, 0.9], np.array([0.2, 0.2, 0.6])]) == "MAR\n2 2 0.1 0.9 3 0.2 0.2 0.6\n"
    assert format_map([0, 1, 0]) == "MPE\n3 0 1 0\n"
    assert format_map(np.array([2]), word="MAP") == "MAP\n1 2\n"
    assert format_map([]) == "MPE\n0\n"


@pytest.mark.parametrize("log_z", [math.nan, math.inf])
def test_pr_refuses_what_is_no_number(log_z):
    with pytest.raises(ModelError, match="below infinity"):
        format_pr(log_z)


def test_mar_refuses_nan():
    with pytest.raises(ModelError, match="finite"):
        format_mar([[0.5, math.nan]])


@settings(derandomize=True, max_examples=50, deadline=None)
@given(log_z=st.floats(-1e6, 1e6))
def test_pr_round_trip(tmp_path_factory, log_z):
    path = tmp_path_factory.mktemp("pr") / "a.PR"
    write_pr(log_z, path)
    assert read_pr(path) == pytest.approx(log_z, rel=1e-15, abs=1e-300)


def test_round_trips(path):
    write_pr(-math.inf, path)
    assert read_pr(path) == -math.inf
    marginals = Marginals.from_list([[1 / 3, 2 / 3], [1.0], [0.1, 0.2, 0.7], [0.0, 1.0]])
    write_mar(marginals, path)
    back = read_mar(path)
    assert np.array_equal(back.values, marginals.values)
    assert np.array_equal(back.ptr, marginals.ptr)
    write_map([3, 0, 1], path)
    assert read_map(path).tolist() == [3, 0, 1]


@pytest.mark.parametrize(
    ("text", "log10_z"),
    [("PR\n-0.25", -0.25), ("PR\r\n1\r\n-0.25\r\n", -0.25), ("pr 1", 1.0), ("PR\n3\n-BEGIN-\n2\n", 2.0),
     ("PR\n-inf\n", -math.inf), ("PR\n1\n1\n", 1.0), ("PR\n-BEGIN-\n1\n-BEGIN-\n1\n5e1", 50.0)],
)  # fmt: skip
def test_pr_layouts(path, text, log10_z):
    path.write_text(text)
    assert read_pr(path) == log10_z * math.log(10)


@pytest.mark.parametrize(
    ("text", "marginals"),
    [
        ("MAR\n3 2 0.1 0.9 1 1 2 0.5 0.5", [[0.1, 0.9], [1.0], [0.5, 0.5]]),
        ("MAR\n1\n3 2 0.1 0.9 1 1 2 0.5 0.5\n", [[0.1, 0.9], [1.0], [0.5, 0.5]]),
        ("MAR\n1\n1\n2 0.1 0.9\n", [[0.1, 0.9]]),
        ("MAR\n1 2 0.1 0.9", [[0.1, 0.9]]),
        ("MAR\n1 1 1", [[1.0]]),
        ("MAR\n1\n1 1 1", [[1.0]]),
        ("MAR\n0\n", []),
        ("MAR\n1\n0\n", []),
        ("MAR\n1 2 0 1\n-BEGIN-\n1 2 1 0", [[1.0, 0.0]]),
        ("MAR\n1 3 0.333333 0.333333 0.333333", [[0.333333] * 3]),
    ],
)
def test_mar_layouts(path, text, marginals):
    path.write_text(text)
    assert [m.tolist() for m in read_mar(path)] == marginals


@pytest.mark.parametrize(
    ("text", "assignment"),
    [("MPE\n3 0 1 0", [0, 1, 0]), ("MAP\n1\n3 0 1 0\n", [0, 1, 0]), ("MPE\n1 2", [2]), ("MPE\n1\n1 2", [2]),
     ("MPE\n0", []), ("MPE\n1\n0", [0]), ("MPE\n2 0 0\n-BEGIN-\n2 1 1\n", [1, 1])],
)  # fmt: skip
def test_map_layouts(path, text, assignment):
    path.write_text(text)
    assert read_map(path).tolist() == assignment
