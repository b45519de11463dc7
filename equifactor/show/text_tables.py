"""Tables as text: aligned columns and rich tables for a terminal, Markdown for a page, LaTeX for a paper.

Every function takes rows of cells, which may be any objects: `str` turns them into text. The first row holds the
titles, except in tables of labels and values.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

_NARROWEST = 16  # characters that a wrapped cell needs to be readable. Chosen by hand.


def aligned(rows: Sequence[Sequence[Any]], *, right: Collection[int] = (), rule: bool = False) -> str:
    """Return columns two blanks apart. Nothing is wrapped, so that other programs can cut and search the text.

    Args:
        rows: the cells, titles first; all rows have the same length.
        right: numbers of the columns that are aligned at the right edge.
        rule: whether a line of dashes separates the titles from the rest.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = (c.rjust(w) if n in right else c.ljust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True)))
        lines.append("  ".join(padded).rstrip())
    if rule:
        lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def fitted(rows: Sequence[Sequence[Any]], width: int | None, *, right: Collection[int] = (), rule: bool = False) -> str:
    """Return the same table for a terminal of `width` characters (None for no limit); words stay whole.

    If the lines are too long, the last column is wrapped. If wrapping leaves too little room for it, every row becomes
    a block of lines, one for each column.
    """
    text = aligned(rows, right=right, rule=rule)
    if width is None or max(map(len, text.splitlines())) <= width:
        return text
    cells = [[str(cell) for cell in row] for row in rows]
    start = sum(2 + max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1])
    if width - start >= _NARROWEST and len(cells[0]) - 1 not in right:
        wrapped: list[Sequence[str]] = []
        for *others, last in cells:
            first, *more = textwrap.wrap(last, width - start) or [""]
            wrapped += [[*others, first], *([*([""] * len(others)), line] for line in more)]
        return aligned(wrapped, right=right, rule=rule)
    titles, *records = cells
    return "\n".join(labelled(row[0], list(zip(titles[1:], row[1:], strict=True)), width) for row in records)


def shown(p: float) -> str:
    """Return a probability as tables show it: six decimals, or three significant digits below 1e-4."""
    return f"{p:.6f}" if p == 0 or p >= 1e-4 else f"{p:.2e}"


def labelled(title: str, rows: Sequence[tuple[str, Any]], width: int | None = None) -> str:
    """Return the title and, below it, an indented line for each label and value, wrapped to `width` unless None."""
    text = aligned(rows)
    if width is not None and width - 4 - max(len(label) for label, _ in rows) >= _NARROWEST:
        text = fitted(rows, width - 2)
    return f"{title}\n{textwrap.indent(text, '  ')}"


def terminal_table(title: str, rows: list[tuple[str, str]]) -> RenderableType:
    """Return labels and values as a rich table."""
    from rich.markup import escape as plain  # Names may contain square brackets, which are markup to rich.
    from rich.table import Table

    table = Table(title=plain(title), show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for label, value in rows:
        table.add_row(plain(label), plain(value))
    return table


def markdown(rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; its columns are not aligned."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def latex(rows: Sequence[Sequence[Any]], *, titles: Mapping[int, str] | None = None) -> str:
    """Return a LaTeX `tabular` with the first column at the left edge and the others at the right.

    Args:
        rows: the cells, which are LaTeX already; the titles of the columns come first.
        titles: titles of groups of rows, by the number of the first row of the group; a title stands between two rules.
    """
    columns = "l" + "r" * (len(rows[0]) - 1)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline"]
    for number, row in enumerate(rows):
        title = (titles or {}).get(number)
        if title is not None:
            lines += [r"\hline", rf"\multicolumn{{{len(rows[0])}}}{{l}}{{{title}}} \\"]
        if number == 1 or title is not None:
            lines.append(r"\hline")
        lines.append(" & ".join(map(str, row)) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"])
