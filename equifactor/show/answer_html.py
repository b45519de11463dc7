"""A `Result` in a notebook: what ran and how it ended, then one row per variable, the most uncertain first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from equifactor.show.html_tables import MOST_ROWS, Html, distribution, facts_table, rows_table
from equifactor.show.text_tables import shown
from equifactor.show.uncertain import most_uncertain, shown_variables

if TYPE_CHECKING:
    from equifactor.questions.result import Result


def answer_html(result: Result) -> Html:
    """Return the facts, and the marginals or the assignment as a table."""
    head = facts_table(f"{result.task} by {result.solver}", result.facts())
    free = result.graph.free_vars
    if hasattr(result, "marginals"):
        free = shown_variables(result)
        few = len(free) <= MOST_ROWS
        chosen = free if few else most_uncertain(result)
        titles = ["variable", "distribution", "most probable", "probability"]
        titles += ["standard error"] if result.standard_errors is not None else []
        title = "" if few else "the most uncertain first"
        rows = _distributions(result, chosen.tolist())
        return Html(head + rows_table(title, titles, rows, count=len(free), right=[3, 4]))
    if hasattr(result, "assignment"):
        states = ((result.graph.structure.variable_name(i), result.state(i)) for i in free.tolist())
        return Html(head + rows_table("", ["variable", "state"], states, count=len(free)))
    return head


def _distributions(result: Result, variables: list[int]) -> Iterator[list[Any]]:
    s, marginals, spread = result.graph.structure, result.marginals, result.standard_errors
    for i in variables:
        p = marginals[i].tolist()
        best = max(range(len(p)), key=p.__getitem__)
        row = [s.variable_name(i), distribution(s.states_of(i), p), s.states_of(i)[best], shown(p[best])]
        yield row if spread is None else [*row, shown(float(spread[i][best]))]
