"""Small HTML tables for notebooks.

All text is escaped. The tables load nothing and contain no script. They use the page's own colours for text and
background, so that they are readable in light and in dark themes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

MOST_ROWS = 30  # rows of one table; the number of further rows is printed below it. Chosen by hand.
LONGEST = 60  # characters of a name. Chosen by hand.
_COLOURS = ("#4a8fd4", "#d9745c", "#3fa06a", "#d9a53a", "#8f6fd4", "#5aa7b5", "#c46a9b", "#8a939e")
_LINE = "1px solid rgba(128,128,128,.45)"


class Html(str):
    """Text that is already HTML and goes into a table unchanged."""

    __slots__ = ()


def short(name: object, most: int = LONGEST) -> str:
    """Return a name for pictures and tables: on one line, without invisible characters, at most `most` characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cell(value: object) -> str:
    """Return the HTML of one value; `bdi` keeps right-to-left names from reordering the text around them."""
    return value if isinstance(value, Html) else f"<bdi>{escape(short(value))}</bdi>"


def facts_table(title: str, rows: Sequence[tuple[str, str]]) -> Html:
    """Return a table of labels and values, one row each. A value without a label is a sentence below the table.

    Labels and values are not shortened.
    """
    sentences = "".join(f"<div>{escape(value)}</div>" for label, value in rows if not label)
    rows = [(label, value) for label, value in rows if label]
    cells = [
        f"<tr><th style='text-align:left;white-space:nowrap'>{escape(label)}</th>"
        f"<td style='text-align:right'>{escape(value)}</td></tr>"
        for label, value in rows[:MOST_ROWS]
    ]
    return Html(f"<table><caption>{escape(title)}</caption>{''.join(cells)}</table>{_more(len(rows))}{sentences}")


def rows_table(
    title: str, titles: Sequence[str], rows: Iterable[Sequence[Any]], *, count: int, right: Collection[int] = ()
) -> Html:
    """Return a table of the first rows, under the titles of the columns.

    Args:
        title: title of the table; may be empty.
        titles: titles of the columns.
        rows: cells, escaped here unless they are `Html`; at most `MOST_ROWS` rows are read.
        count: the number of rows in total; the table says how many of them it does not show.
        right: numbers of the columns that are aligned at the right edge.
    """
    side = ["right" if n in right else "left" for n in range(len(titles))]
    head = "".join(
        f"<th style='text-align:{at};border-bottom:{_LINE}'>{cell(t)}</th>" for at, t in zip(side, titles, strict=True)
    )
    body = [
        "<tr>"
        + "".join(f"<td style='text-align:{at}'>{cell(v)}</td>" for at, v in zip(side, row, strict=True))
        + "</tr>"
        for _, row in zip(range(MOST_ROWS), rows, strict=False)
    ]
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return Html(f"<table>{caption}<tr>{head}</tr>{''.join(body)}</table>{_more(count)}")


def folded(summary: str, inside: Html) -> Html:
    """Return HTML that opens on a click."""
    return Html(f"<details><summary>{escape(summary)}</summary>{inside}</details>")


def distribution(states: Sequence[object], p: Sequence[float]) -> Html:
    """Return a bar divided in proportion to the probabilities; at most the eight most probable states are shown."""
    shown = sorted(range(len(p)), key=lambda x: (-p[x], x))[: len(_COLOURS)]
    parts = "".join(
        f"<span title='{escape(short(states[x]))}: {p[x]:.3g}' style='display:inline-block;height:.8em;"
        f"width:{100 * p[x]:.1f}%;background:{_COLOURS[n]}'></span>"
        for n, x in enumerate(sorted(shown))
        if p[x] >= 5e-4
    )
    frame = (
        f"display:inline-block;width:8em;height:.8em;line-height:0;white-space:nowrap;overflow:hidden;border:{_LINE}"
    )
    return Html(f"<span style='{frame}'>{parts}</span>")


def _more(count: int) -> str:
    return f"<div>.. and {count - MOST_ROWS:,} more</div>" if count > MOST_ROWS else ""
