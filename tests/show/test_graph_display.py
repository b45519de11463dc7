from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from equifactor.graph import FactorGraph
from equifactor.show.graph_display import span
from equifactor.testing import contract_graphs


@pytest.fixture
def graph() -> FactorGraph:
    return FactorGraph([2, 3], [([0], [0.0, 1.0]), ([0, 1], np.ones((2, 3)))], name="a<b")


@pytest.mark.parametrize(("values", "text"), [([], "none"), ([3], "3"), ([2, 5, 3], "2-5"), ([4, 4], "4")])
def test_span(values: list[int], text: str) -> None:
    assert span(np.array(values, int)) == text


def test_one_line(graph: FactorGraph) -> None:
    assert repr(graph) == "FactorGraph(a<b: 2 variables, 2 factors, 2-3 states, arity 1-2, 1 zero)"
    assert (
        repr(graph.condition({1: 0}).renamed(None))
        == "FactorGraph(2 variables, 1 observed, 2 factors, 2-3 states, arity 1, 1 zero)"
    )
    assert repr(FactorGraph([1])) == "FactorGraph(1 variable, 0 factors, 1 state, arity none, no zeros)"


def test_large_numbers_have_separators() -> None:
    assert "12,000 variables" in repr(FactorGraph([2] * 12_000))


def test_html_is_escaped(graph: FactorGraph) -> None:
    html = graph._repr_html_()
    assert "FactorGraph a&lt;b" in html
    assert "a<b" not in html
    assert "12.5% of entries" in html
    assert html.count("<tr>") == html.count("</tr>") >= 8


def test_rich_table(graph: FactorGraph) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(graph)
    assert "table entries" in out.getvalue()
    assert "factors of arity 2" in out.getvalue()


@pytest.mark.parametrize("name", contract_graphs())
def test_every_graph_shows_itself(name: str) -> None:
    graph = contract_graphs()[name]
    assert name in repr(graph)
    assert name in graph._repr_html_()
    Console(file=io.StringIO()).print(graph)
