"""How a factor graph shows itself: one line, a terminal table, an HTML table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.console import RenderableType

    from equifactor.graph.factor_graph import FactorGraph


def span(values: np.ndarray) -> str:
    """`3` or `2-5`; `none` when there are no values."""
    if len(values) == 0:
        return "none"
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low}-{high}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def one_line(graph: FactorGraph) -> str:
    """Sizes on one line."""
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
    """Label and value of everything that is cheap to know, for tables."""
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
    from rich.table import Table

    table = Table(title=f"FactorGraph {graph.name or ''}".strip(), show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for label, value in facts(graph):
        table.add_row(label, value)
    return table


def html(graph: FactorGraph) -> str:
    """A small table for notebooks."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(label)}</th><td style='text-align:right'>{escape(value)}</td></tr>"
        for label, value in facts(graph)
    )
    title = escape(f"FactorGraph {graph.name or ''}".strip())
    return f"<table><caption>{title}</caption>{rows}</table>"
