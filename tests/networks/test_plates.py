"""Plates against the same network written out."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import equifactor as ef

TABLES: dict[str, Any] = {
    "clever[student]": {"no": 0.5, "yes": 0.5},
    "grade[student, course]": (
        ["clever[student]", "hard[course]"],
        [[[0.3, 0.7], [0.8, 0.2]], [[0.1, 0.9], [0.2, 0.8]]],
    ),
    "hard[course]": [0.6, 0.4],
    "year": [0.5, 0.5],
}


def test_members_have_the_tables_of_their_plate() -> None:
    network = ef.BayesianNetwork(
        TABLES, {"grade[student, course]": ["bad", "good"]}, plates={"student": ["anna", "ben"], "course": 3}
    )
    assert network.num_vars == 2 + 6 + 3 + 1
    assert network.parents("grade[ben,2]") == ("clever[ben]", "hard[2]")
    assert network.children("clever[anna]") == ("grade[anna,0]", "grade[anna,1]", "grade[anna,2]")
    assert network.cpt("grade[anna,1]")[{"clever[anna]": "yes", "hard[1]": 0}] == {"bad": 0.1, "good": 0.9}
    assert network.parents("year") == ()


@pytest.mark.parametrize(
    ("plates", "tables", "message"),
    [
        ({"student": 2}, {}, "plate 'course'"),
        ({"student": 2, "course": 0}, {}, "The plate course needs"),
        ({"student": 2, "course": 2**70}, {}, "The plate course needs"),
        ({"student": 5000, "course": 5000}, {}, "more than 16,777,216 members together"),
        ({"student": ["a", "a"], "course": 2}, {}, "The plate student needs"),
        ({"student": 2, "course": 2}, {"mean": ("clever[student]", [[0.5, 0.5]] * 2)}, "plate 'student'"),
    ],
)
def test_plates_that_do_not_fit_are_refused(plates: Any, tables: Any, message: str) -> None:
    with pytest.raises(ef.ModelError, match=message):
        ef.BayesianNetwork(TABLES | tables, plates=plates)


def test_plates_need_tables() -> None:
    with pytest.raises(ef.ModelError, match="mapping of tables"):
        ef.BayesianNetwork(ef.BayesianNetwork({"a": [0.5, 0.5]}), plates={"x": 2})


def test_the_tables_of_a_plate_are_fitted_as_one() -> None:
    states = {"clever[student]": ["no", "yes"], "grade[student]": 3}
    tables = {"clever[student]": None, "grade[student]": ("clever[student]", None)}
    network = pickle.loads(pickle.dumps(ef.BayesianNetwork(tables, states, plates={"student": 2})))
    rows = [{"clever[0]": 0, "clever[1]": 1, "grade[0]": 0, "grade[1]": 2}] * 3
    rows += [{"clever[0]": 0, "clever[1]": 0, "grade[0]": 1, "grade[1]": 1}]
    fitted = ef.fit(network, rows, prior=0).graph
    for member in (0, 1):
        np.testing.assert_allclose(fitted.cpt(f"clever[{member}]").values, [5 / 8, 3 / 8])
        np.testing.assert_allclose(fitted.cpt(f"grade[{member}]").values, [[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]])
    assert fitted.tied == network.tied
    apart = ef.fit(network, rows, prior=0, tied=[]).graph
    np.testing.assert_allclose(apart.cpt("clever[1]").values, [1 / 4, 3 / 4])
    half = ef.fit(network, rows, prior=0, fixed=[0, 1]).graph  # the factors of `clever`
    np.testing.assert_allclose(half.cpt("clever[1]").values, [0.5, 0.5])
