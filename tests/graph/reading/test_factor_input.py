"""`FactorGraph.from_arrays`."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import ModelError
from equifactor.generators import ising_grid, random_graph
from equifactor.graph import FactorGraph


def test_ragged_arrays_give_the_graph_they_came_from() -> None:
    g = random_graph(8, 12, arity=(0, 3), card=(1, 4), zeros=0.2, seed=3)
    s = g.structure
    h = FactorGraph.from_arrays(g.card, s.scope_vars, g.log_phi, scope_ptr=s.scope_ptr, log=True, name="h")
    assert h == g
    assert h.name == "h"


def test_scopes_and_tables_of_one_shape() -> None:
    scopes = np.array([[0, 1], [1, 2], [2, 0]])
    tables = np.arange(1.0, 13.0).reshape(3, 2, 2)
    wanted = FactorGraph([2, 2, 2], list(zip(scopes.tolist(), tables, strict=True)))
    assert FactorGraph.from_arrays([2, 2, 2], scopes, tables) == wanted
    assert FactorGraph.from_arrays([2, 2, 2], scopes, tables.ravel()) == wanted
    assert FactorGraph.from_arrays([2, 2, 2], scopes, np.log(tables), log=True) == wanted


def test_scopes_of_one_length_over_several_cardinalities() -> None:
    h = FactorGraph.from_arrays([2, 3, 2], [[0, 1], [0, 2]], np.arange(10.0))
    assert h.log_table(1).shape == (2, 2)
    assert np.exp(h.log_table(1))[1, 0] == pytest.approx(8.0)


def test_names() -> None:
    h = FactorGraph.from_arrays({"rain": 2, "grass": ["dry", "wet"]}, [[0, 1]], [[[0.9, 0.1], [0.05, 0.95]]])
    assert h.log_score({"rain": 1, "grass": "wet"}) == pytest.approx(np.log(0.95))


def test_no_factors() -> None:
    assert FactorGraph.from_arrays([2, 3], [], []) == FactorGraph([2, 3])
    assert FactorGraph.from_arrays([2], np.zeros((0, 2), int), np.zeros((0, 2, 2)).ravel()) == FactorGraph([2])


def test_arrays_stay_the_callers_own() -> None:
    scopes, phi = np.array([[0, 1]]), np.ones(4)
    h = FactorGraph.from_arrays([2, 2], scopes, phi)
    scopes[0, 0], phi[0] = 1, 7.0
    assert h == FactorGraph([2, 2], [([0, 1], np.ones(4))])


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"scopes": [0, 1], "phi": np.ones(4)}, "found shape (2,) and no scope_ptr"),
        ({"scopes": [[0, 1]], "phi": np.ones(4), "scope_ptr": [0, 2]}, "give its .ravel()"),
        ({"scopes": [[0], [0, 1]], "phi": np.ones(6)}, "scopes of several lengths are given flat"),
        ({"scopes": [0, 1], "phi": np.ones(4), "scope_ptr": [0, 3]}, "scope_ptr must rise from 0 to 2"),
        ({"scopes": [[0, 2]], "phi": np.ones(4)}, "factor 0 names variable 2; the model has 2 variables (0-1)"),
        ({"scopes": [[1, 1]], "phi": np.ones(4)}, "factor 0 names variable 1 twice"),
        ({"scopes": [[0, 0.5]], "phi": np.ones(4)}, "must be whole numbers"),
        ({"scopes": [[0, 1]], "phi": np.ones(5)}, "the tables need 4 entries in all, found shape (5,)"),
        ({"scopes": [[0, 1]], "phi": np.ones((1, 4))}, "flat [4] or of shape (1, 2, 2); found shape (1, 4)"),
        ({"scopes": [0, 0, 1], "phi": np.ones((2, 3)), "scope_ptr": [0, 1, 3]}, "tables of several shapes are given"),
        ({"scopes": [0, 0, 1], "phi": [1, 1, 1, 1, 1, -1], "scope_ptr": [0, 1, 3]}, "factor 1, entry 3 is -1"),
        ({"scopes": [[0, 1]], "phi": ["a"] * 4}, "it holds text"),
        ({"scopes": [[0, 1]], "phi": [np.nan] * 4, "log": True}, "entry 0 is nan"),
        ({"scopes": [[0, 1]], "phi": np.ones(4), "name": 3}, "the name of a graph is text"),
    ],
)
def test_refuses(arguments: dict, fragment: str) -> None:
    with pytest.raises(ModelError) as error:
        FactorGraph.from_arrays([2, 2], **arguments)
    assert fragment in str(error.value)


def test_a_large_model_takes_no_loop_over_factors(lines_run) -> None:
    g = ising_grid(300, 300, seed=1)
    s = g.structure
    made = []
    lines = lines_run(
        lambda: made.append(FactorGraph.from_arrays(g.card, s.scope_vars, g.log_phi, scope_ptr=s.scope_ptr, log=True))
    )
    assert lines < 10_000  # for 269,400 factors
    assert made == [g]
