from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, solve
from equifactor.generators import ising_grid
from equifactor.show.plot import coupling, plot_grid

plt = pytest.importorskip("matplotlib.pyplot")


def test_one_panel_per_answer_with_a_disc_per_variable() -> None:
    graph = ising_grid(3, 4, wrap=True, seed=2)
    exact = solve(graph, "MAR", "exact").marginals
    assert exact is not None
    ax = plot_grid(graph, 3, 4, {"exact": exact, "again": exact})
    texts = [text.get_text() for text in ax.texts]
    assert len(texts) == 2 * (12 + 2)
    assert [text for text in texts if text.isalpha()] == ["exact", "reference", "again"]
    assert texts[-1] == "largest error 0.00"
    assert len(ax.lines) == 2 * 17  # the edges around the border of the torus are left out
    ax.figure.canvas.draw()
    again = plot_grid(graph, 3, 4, {"exact": exact}, ax=plt.subplots()[1])
    assert len(again.texts) == 12 + 2


def test_coupling_is_the_j_of_an_ising_pair() -> None:
    assert coupling(0.7 * np.array([[1.0, -1.0], [-1.0, 1.0]])) == pytest.approx(0.7)
    assert np.isfinite(coupling(np.array([[0.0, -np.inf], [-np.inf, 0.0]])))


def test_what_cannot_be_drawn() -> None:
    graph = FactorGraph([2, 3])
    with pytest.raises(ModelError, match="expects a grid of 1x2 binary variables"):
        plot_grid(graph, 1, 2, {})
    with pytest.raises(ModelError, match="no marginals"):
        plot_grid(FactorGraph([2, 2]), 1, 2, {})
