"""Every picture is drawn completely, because matplotlib finds some errors only while drawing."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hostile_names import hostile_graph
from layered_networks import fan_network, network

import equifactor as ef
from equifactor.show.grid_shapes import grid_of

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def drawn(ax) -> str:
    """Draw a picture completely, and return its title."""
    ax.figure.canvas.draw()
    return ax.get_title(loc="left")


def labels(ax) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def test_graphs_of_all_sizes_and_kinds() -> None:
    kinds = ef.FactorGraph(
        [2] * 7, [([0, 1, 2], ef.Parity()), ([2, 3], ef.Clause()), ([3, 4, 5], ef.AtMost(1)), ([0], [1, 2])]
    )
    ax = kinds.plot()
    assert drawn(ax) == "7 variables, 4 factors"
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"table", "parity", "clause", "count"}
    drawn(kinds.condition({0: 1}).plot())
    drawn(hostile_graph().plot())
    drawn(ef.FactorGraph([]).plot())
    drawn(ef.FactorGraph([2] * 70, [([i, i + 1, i + 2], ef.Parity()) for i in range(68)]).plot())
    assert len(ef.generators.ising_grid(3, 3).plot().texts) == 9


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("capitals", [False, True])
def test_names_of_a_network_do_not_overlap(given: bool, capitals: bool) -> None:
    graph = network({"HR": "", **{f"LOWHEARTWORKLOAD{k}": "HR" for k in range(6)}}) if capitals else fan_network()
    ax = graph.plot(ax=pyplot.subplots(figsize=(5, 4))[1] if given else None)
    drawn(ax)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == graph.num_vars
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_large_graphs_are_counted_and_large_grids_drawn() -> None:
    ax = ef.FactorGraph([2] * 501, [([i, i + 1], [[2, 1], [1, 2]]) for i in range(500)]).plot()
    assert drawn(ax) == "501 variables and 500 factors: too many to draw one by one"
    assert drawn(ef.generators.ising_grid(30, 30).plot()) == "ising-30x30-seed0-0"


def test_axes_are_those_given() -> None:
    ax = pyplot.subplots()[1]
    graph = ef.FactorGraph([2, 2], [([0, 1], [[2, 1], [1, 2]])])
    assert graph.plot(ax=ax) is ax
    assert ef.solve(graph, "MAR", "brute").plot(ax=ax) is ax
    with pytest.raises(ef.OptionError, match="`ax` must be an Axes object of matplotlib, found int"):
        graph.plot(ax=3)


def test_bars_are_the_most_uncertain_first() -> None:
    graph = ef.FactorGraph({"sure": 2, "open": ["a", "b"], "three": 3}, [(["sure"], [1, 99]), (["three"], [1, 2, 97])])
    result = ef.solve(graph, "MAR", "brute")
    ax = result.plot()
    assert labels(ax) == ["open = b", "three = 0", "three = 1", "three = 2", "sure = 1"]
    assert [round(bar.get_width(), 2) for bar in ax.patches] == [0.5, 0.01, 0.02, 0.97, 0.99]
    assert labels(result.plot(["sure", 1])) == ["sure = 1", "open = b"]
    assert labels(result.plot("sure")) == ["sure = 1"]
    assert "open = b" not in labels(ef.solve(graph, "MAR", "brute", evidence={"open": "a"}).plot())


def test_many_variables_and_many_states_are_cut() -> None:
    many = ef.solve(ef.FactorGraph([2] * 100), "MAR", "exact").plot()
    assert "(40 of 100 variables, the most uncertain first)" in many.get_xlabel()
    assert len(ef.solve(ef.FactorGraph([500]), "MAR", "exact").plot().patches) == 40
    drawn(many)


def test_samples_have_error_bars() -> None:
    graph = ef.FactorGraph([2, 3], [([0, 1], [[2, 1, 1], [1, 2, 1]])])
    assert len(ef.solve(graph, "MAR", "gibbs(samples=50)").plot().containers) == 2
    assert len(ef.solve(graph, "MAR", "brute").plot().containers) == 1


def test_grids_are_images() -> None:
    for graph in (ef.generators.ising_grid(4, 4), ef.generators.potts_grid(4, 4, states=3)):
        for task in ("MAR", "MAP"):
            ax = ef.solve(graph, task, "exact").plot()
            assert ax.images[0].get_array().shape == (4, 4)
            assert len(ax.texts) == 16
            drawn(ax)


def test_a_grid_in_any_order_is_an_image() -> None:
    graph = ef.generators.ising_grid(4, 5, seed=3)
    graph = ef.symmetry.relabel(graph, ef.symmetry.Relabelling.random(graph, seed=1))
    result, grid = ef.solve(graph, "MAP", "exact"), grid_of(graph)
    image = result.plot().images[0].get_array()
    assert sorted(image.shape) == [4, 5]
    assert grid is not None
    assert [image[row, column] for column, row in grid.cells] == list(result.assignment)


def test_what_cannot_be_drawn() -> None:
    graph = ef.FactorGraph([2, 2], [([0, 1], [[2, 1], [1, 2]])])
    with pytest.raises(ef.SolveError, match="neither marginals nor an assignment"):
        ef.solve(graph, "PR", "exact").plot()
    with pytest.raises(ef.SolveError, match=r"result\.states lists the states by name"):
        ef.solve(graph, "MAP", "brute").plot()
    with pytest.raises(ef.ModelError, match="No variable can be drawn"):
        ef.solve(graph, "MAR", "brute", evidence={0: 1, 1: 1}).plot()


def test_hostile_names_are_drawn_as_text() -> None:
    graph = hostile_graph()
    ax = ef.solve(graph, "MAR", "brute").plot()
    drawn(ax)
    drawn(ef.compare(graph, {"$a$ <b>": "brute", "\x00": "bp", "$x_": "trw"}).plot())


def test_matplotlib_is_asked_for_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    graph = ef.FactorGraph([2, 2], [([0, 1], [[2, 1], [1, 2]])])
    result = ef.solve(graph, "MAR", "brute")
    assert result.marginals is not None
    answers = {"brute": result.marginals}
    for draw in (
        graph.plot,
        result.plot,
        ef.compare(graph, ["brute", "bp"]).plot,
        ef.answers.TrainingLog([{"epoch": 1, "loss": 1.0, "kl": 0.5}]).plot,
        lambda: ef.plot.plot_grid(graph, 1, 2, answers),
        lambda: ef.plot.plot_error_rates({"bp": [(0.1, 100, 2)]}),
    ):
        with pytest.raises(ef.OptionError, match=r'needs matplotlib.*pip install "equifactor\[plot\]"'):
            draw()
