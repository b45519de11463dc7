"""How a factor graph shows itself: as one line, as a table in a terminal, as a table in HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.console import RenderableType

    from equifactor.graph.factor_graph import FactorGraph


def span(values: np.ndarray) -> str:
    """The range of the values as `3` or `2-5`; `none` when there are no values."""
    if len(values) == 0:
        return "none"
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low}-{high}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def one_line(graph: FactorGraph) -> str:
    """The name and the sizes of a graph on one line."""
    s = graph.structure
    zeros = int(np.count_nonzero(np.isneginf(graph.log_phi)))
    states = span(s.card)
    parts = [
        _count(s.num_vars, "variable"),
        _count(s.num_factors, "factor"),
        f"{states} state" + ("" if states == "1" else "s"),
        f"arity {span(s.arity)}",
        _count(zeros, "zero") if zeros else "no zeros",
    ]
    if graph.observed is not None:
        parts.insert(1, f"{len(graph.evidence):,} observed")
    return (f"{graph.name}: " if graph.name else "") + ", ".join(parts)


def facts(graph: FactorGraph) -> list[tuple[str, str]]:
    """The label and value of everything that is cheap to know about a graph."""
    s = graph.structure
    zeros = int(np.count_nonzero(np.isneginf(graph.log_phi)))
    share = f" ({zeros / s.num_entries:.1%} of entries)" if zeros else ""
    rows = [
        ("variables", f"{s.num_vars:,}"),
        ("observed", f"{len(graph.evidence):,}"),
        ("cardinality", span(s.card)),
        ("factors", f"{s.num_factors:,}"),
        ("arity", span(s.arity)),
        ("edges", f"{s.num_edges:,}"),
        ("table entries", f"{s.num_entries:,}"),
        ("zeros", f"{zeros:,}{share}"),
    ]
    by_arity = np.bincount(s.arity) if s.num_factors else np.zeros(0, int)
    rows += [(f"factors of arity {k}", f"{n:,}") for k, n in enumerate(by_arity) if n and len(by_arity) > 1]
    return rows


def terminal(graph: FactorGraph) -> RenderableType:
    """A rich table for `rich.print(graph)`."""
    return terminal_table(_title(graph), facts(graph))


def html(graph: FactorGraph) -> str:
    """A small table for notebooks."""
    return html_table(_title(graph), facts(graph))


def terminal_table(title: str, rows: list[tuple[str, str]]) -> RenderableType:
    """Labels and values as a rich table."""
    from rich.markup import escape as plain  # names may hold square brackets, which are markup to rich
    from rich.table import Table

    table = Table(title=plain(title), show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for label, value in rows:
        table.add_row(plain(label), plain(value))
    return table


def html_table(title: str, rows: list[tuple[str, str]]) -> str:
    """Labels and values as an HTML table."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(label)}</th><td style='text-align:right'>{escape(value)}</td></tr>"
        for label, value in rows
    )
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"


def _title(graph: FactorGraph) -> str:
    return f"FactorGraph {graph.name or ''}".strip()
