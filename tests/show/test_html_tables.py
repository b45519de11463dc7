from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hostile_names import HOSTILE, hostile_graph

import equifactor as ef
from equifactor.show.html_tables import MOST_ROWS, Html, cell, distribution, rows_table, short


class Checked(HTMLParser):
    """A parser that fails on markup that is not closed, and on anything that could run or fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.rows = 0
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"table", "caption", "tr", "th", "td", "bdi", "div", "span", "details", "summary"}
        assert {name for name, _ in attrs} <= {"style", "title"}
        assert not re.search(r"url|(?<!-)\bcolor:", dict(attrs).get("style") or "")
        self.rows += tag == "tr"
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_are_text() -> None:
    graph = hostile_graph()
    things = [graph, graph.condition({HOSTILE[1]: 0}), ef.solve(graph, "MAR", "brute"), ef.solve(graph, "MAP", "brute")]
    for thing in things:
        page = Checked(thing._repr_html_())
        assert HOSTILE[0] in page.text
        assert "\u202e" not in page.text
        assert "\x00" not in page.text


def test_large_models_stay_short() -> None:
    graph = ef.FactorGraph([2] * 5000, [([i], [1.0, 1.0 + i]) for i in range(5000)])
    page = Checked(graph._repr_html_())
    assert page.rows <= 2 * MOST_ROWS
    assert ".. and 4,970 more" in page.text
    result = ef.solve(graph, "MAR", "exact")
    page = Checked(result._repr_html_())
    assert page.rows <= 2 * MOST_ROWS
    assert "the most uncertain first" in page.text
    assert page.text.index("0.500000") < page.text.index("0.666667")


def test_an_answer_has_a_row_for_each_free_variable() -> None:
    graph = ef.FactorGraph({"rain": ["no", "yes"], "lawn": ["dry", "wet"]}, [(["rain", "lawn"], [[8, 1], [1, 2]])])
    result = ef.solve(graph, "MAR", "brute", evidence={"lawn": "wet"})
    page = Checked(result._repr_html_())
    assert "rainyes0.666667" in page.text
    assert "lawn" not in page.text
    sampled = ef.solve(graph, "MAR", "gibbs(samples=50)")
    assert "standard error" in Checked(sampled._repr_html_()).text
    assert "ln Z" in Checked(ef.solve(graph, "PR", "brute")._repr_html_()).text
    assert "probability zero" in Checked(ef.solve(graph.with_factors([(["rain"], [0, 0])]))._repr_html_()).text


def test_a_plan_shows_itself() -> None:
    page = Checked(ef.plan(ef.generators.ising_grid(4, 4))._repr_html_())
    assert "width4" in page.text


def test_joints_information_and_samples() -> None:
    graph = hostile_graph()
    result = ef.solve(graph, "MAR", "brute")
    page = Checked(result.joint(*HOSTILE[:4])._repr_html_())
    assert page.rows == MOST_ROWS + 1
    assert ".. and 51 more" in page.text
    assert Checked(result.mutual_information(HOSTILE[0])._repr_html_()).rows == len(HOSTILE)
    assert Checked(ef.sample(graph, 100)._repr_html_()).rows == MOST_ROWS + 1
    assert "12 of 40 variables" in Checked(ef.sample(ef.FactorGraph([2] * 40), 2)._repr_html_()).text


def test_cells() -> None:
    assert cell("a<b") == "<bdi>a&lt;b</bdi>"
    assert cell(Html("<b>x</b>")) == "<b>x</b>"
    assert short("  many \t words\n") == "many words"
    assert len(short("n" * 100)) == 60


def test_a_distribution_is_a_bar_of_at_most_eight_parts() -> None:
    bar = distribution(range(20), [0.05] * 20)
    assert bar.count("width:5.0%") == 8
    assert "title='x&#x27;: 0.25'" in distribution(["x'", "y"], [0.25, 0.75])


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (3, 3), (31, 30)])
def test_rows_beyond_the_most_are_counted(count: int, shown: int) -> None:
    page = Checked(rows_table("t", ["n"], ([n] for n in range(count)), count=count))
    assert page.rows == shown + 1
    assert (".. and 1 more" in page.text) == (count == 31)
