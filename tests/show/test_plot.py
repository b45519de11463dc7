from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, Result, solve
from equifactor.generators import ising_grid
from equifactor.questions.comparison import Comparison
from equifactor.show.plot import confidence_limits, coupling, plot_error_rates, plot_grid

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


def test_error_bars_are_asymmetric_intervals() -> None:
    low, high = confidence_limits(np.array([1.0, 50.0, 100.0]), np.array([100.0, 100.0, 100.0]))
    np.testing.assert_allclose(low, [0.00177, 0.40383, 0.96300], atol=1e-5)  # Wilson's intervals, as R's prop.test
    np.testing.assert_allclose(high, [0.05449, 0.59617, 1.0], atol=1e-5)
    ax = plot_error_rates({"bp": [(0.1, 100, 1), (0.2, 100, 100), (0.3, 100, 0)], "relay": []})
    (bars,) = ax.containers
    _, _, (lines,) = bars.lines
    below, above = np.abs(np.diff(np.insert(lines.get_segments()[0][:, 1], 1, 0.01)))
    assert above > 4 * below > 0
    ax.figure.canvas.draw()


@pytest.mark.parametrize(("count", "beside"), [(6, False), (7, True)])
def test_long_legends_stand_beside_the_axes(count: int, beside: bool) -> None:
    ax = plot_error_rates({f"distance = {n}, {'long ' * 4}": [(0.1, 100, 5), (0.2, 100, 9)] for n in range(count)})
    ax.figure.canvas.draw()
    legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert (legend.x0 >= axes.x1) == beside
    assert axes.width > 4 * ax.figure.dpi  # A legend beside the axes leaves them their width.
    assert len({line.get_marker() for line in ax.lines if line.get_marker() not in ("_", "v")}) >= count - 1


def test_every_plot_returns_axes() -> None:
    from equifactor.answers import TrainingLog

    calls = [FactorGraph.plot, Result.plot, Comparison.plot, TrainingLog.plot, plot_grid, plot_error_rates]
    assert {inspect.signature(call).return_annotation for call in calls} == {"Axes"}


def test_labels_of_the_axis_of_noise_do_not_overlap() -> None:
    rates = [(0.001 * n, 1000, n) for n in range(1, 21)]
    ax = plot_error_rates({f"d = {n}": rates for n in range(7)})
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
