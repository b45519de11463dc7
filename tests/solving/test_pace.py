"""Without a time limit, an answer does not depend on the speed of the machine."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef

GRAPHS = {
    "grid": ef.generators.ising_grid(6, 6, seed=3),
    "zeros": ef.generators.random_graph(12, 18, arity=(1, 3), card=(2, 3), zeros=0.15, seed=5),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("solver", "task"),
    [("bp", "MAR"), ("gibbs(samples=3000)", "MAR"), ("srmp", "MAP"), ("mplp", "MAP"), ("local-search", "MAP")],
)
def test_the_same_seed_gives_the_same_answer_at_any_pace(driven_time, solver: str, task: str, name: str) -> None:
    found = []
    for driven_time.tick in (0.0, 1e-4, 0.02):  # the seconds that pass between two checks of the clock
        result = ef.solve(GRAPHS[name], task, solver, seed=7)
        values = result.assignment if task == "MAP" else result.marginals.values
        found.append((np.asarray(values), result.status, result.iterations, result.lower_bound, result.upper_bound))
    for other in found[1:]:
        np.testing.assert_array_equal(other[0], found[0][0])
        assert other[1:] == found[0][1:]
