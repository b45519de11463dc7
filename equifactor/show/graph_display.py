"""A factor graph as one line, as a table in a terminal and as a table in HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.show.html_tables import facts_table, folded, rows_table
from equifactor.show.text_tables import terminal_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from equifactor.graph.factor_graph import FactorGraph


_SHOWN_STATES = 6  # states of a variable in HTML. Chosen by hand.


def span(values: np.ndarray) -> str:
    """Return the range of the values as `3` or `2-5`, or `none` if there are no values."""
    if len(values) == 0:
        return "none"
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low}-{high}"


def counted(n: int, noun: str) -> str:
    """Return a number and what it counts: `1 factor`, `1,200 variables`."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


@dataclass(frozen=True)
class Contents:
    """What factors contain: the number of factors of each kind, table entries, and numbers of structured factors."""

    kinds: dict[str, int]  # the number of factors by the name of their kind
    entries: int  # entries of dense tables
    zeros: int  # entries of dense tables that are zero
    numbers: int  # log values and words of structured factors


def contents(graph: FactorGraph) -> Contents:
    """Count what the factors contain; cost O(T)."""
    kinds = graph.structure.kinds
    if kinds is None:
        zeros = int(np.count_nonzero(np.isneginf(graph.log_phi)))
        return Contents({"table": graph.num_factors}, graph.structure.num_entries, zeros, 0)
    numbers, counts = np.unique(kinds.kind, return_counts=True)
    by_kind = {kinds.name(number): count for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)}
    in_table = np.repeat(kinds.kind == 0, np.diff(graph.structure.table_ptr))
    zeros = int(np.count_nonzero(np.isneginf(graph.log_phi[in_table])))
    entries = int(np.count_nonzero(in_table))
    return Contents(by_kind, entries, zeros, len(graph.log_phi) - entries + len(kinds.words))


def one_line(graph: FactorGraph) -> str:
    """Return the name and the sizes of a graph on one line."""
    s, held = graph.structure, contents(graph)
    states = span(s.card)
    parts = [
        counted(s.num_vars, "variable"),
        counted(s.num_factors, "factor"),
        f"{states} state" + ("" if states == "1" else "s"),
        f"arity {span(s.arity)}",
    ]
    if s.kinds is None:
        parts.append(counted(held.zeros, "zero") if held.zeros else "no zeros")
    else:
        parts += [f"{n:,} {kind}" for kind, n in held.kinds.items()]
    if graph.observed is not None:
        parts.insert(1, f"{len(graph.evidence):,} observed")
    return (f"{graph.name}: " if graph.name else "") + ", ".join(parts)


def facts(graph: FactorGraph) -> list[tuple[str, str]]:
    """Return label and value of everything that is cheap to know about a graph."""
    s, held = graph.structure, contents(graph)
    share = f" ({held.zeros / held.entries:.1%} of entries)" if held.zeros else ""
    rows = [
        ("variables", f"{s.num_vars:,}"),
        ("observed", f"{len(graph.evidence):,}"),
        ("cardinality", span(s.card)),
        ("factors", f"{s.num_factors:,}"),
        ("arity", span(s.arity)),
        ("edges", f"{s.num_edges:,}"),
        ("table entries", f"{held.entries:,}"),
        ("zeros", f"{held.zeros:,}{share}"),
    ]
    if s.kinds is not None:
        rows += [(f"factors of kind {kind}", f"{n:,}") for kind, n in held.kinds.items()]
        rows.append(("numbers of other kinds", f"{held.numbers:,}"))
    by_arity = np.bincount(s.arity) if s.num_factors else np.zeros(0, int)
    rows += [(f"factors of arity {k}", f"{n:,}") for k, n in enumerate(by_arity) if n and len(by_arity) > 1]
    return rows


def terminal(graph: FactorGraph) -> RenderableType:
    """Return a rich table for `rich.print(graph)`."""
    return terminal_table(_title(graph), facts(graph))


def html(graph: FactorGraph) -> str:
    """Return the facts for a notebook; a click shows the variables with their states."""
    s = graph.structure
    degree = np.bincount(s.scope_vars, minlength=s.num_vars)
    seen = graph.evidence
    rows = (
        (
            s.variable_name(i),
            ", ".join(map(str, s.states_of(i)[:_SHOWN_STATES])) + (", .." if s.card[i] > _SHOWN_STATES else ""),
            s.states_of(i)[seen[i]] if i in seen else "",
            int(degree[i]),
        )
        for i in range(s.num_vars)
    )
    titles = ("variable", "states", "observed", "factors")
    inside = rows_table("", titles, rows, count=s.num_vars, right=[3])
    return facts_table(_title(graph), facts(graph)) + folded("variables", inside)


def _title(graph: FactorGraph) -> str:
    return f"{type(graph).__name__} {graph.name or ''}".strip()
