from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, solve
from equifactor.generators import ising_grid
from equifactor.show.plot import coupling, plot_grid


def test_one_panel_per_answer_with_a_disc_per_variable() -> None:
    graph = ising_grid(3, 4, wrap=True, seed=2)
    exact = solve(graph, "MAR", "exact").marginals
    assert exact is not None
    figure = plot_grid(graph, 3, 4, {"exact": exact, "again": exact})
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == ["exact", "again"]
    for ax in panels:
        assert len(ax.texts) == 12
        assert len(ax.lines) == 17  # the edges around the border of the torus are left out
    assert panels[1].get_xlabel() == "largest error 0.00"


def test_coupling_is_the_j_of_an_ising_pair() -> None:
    assert coupling(0.7 * np.array([[1.0, -1.0], [-1.0, 1.0]])) == pytest.approx(0.7)
    assert np.isfinite(coupling(np.array([[0.0, -np.inf], [-np.inf, 0.0]])))


def test_what_cannot_be_drawn() -> None:
    graph = FactorGraph([2, 3])
    with pytest.raises(ModelError, match="expected 1x2 binary variables"):
        plot_grid(graph, 1, 2, {})
    with pytest.raises(ModelError, match="no marginals"):
        plot_grid(FactorGraph([2, 2]), 1, 2, {})
