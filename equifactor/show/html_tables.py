"""Small tables in HTML for notebooks.

All text is escaped, nothing is fetched, there is no script, and colours of text and background are those of the page,
so that a table reads in a light theme and in a dark one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

MOST_ROWS = 30  # of one table; what is more is counted
LONGEST = 60  # characters of a name
_COLOURS = ("#4a8fd4", "#d9745c", "#3fa06a", "#d9a53a", "#8f6fd4", "#5aa7b5", "#c46a9b", "#8a939e")
_LINE = "1px solid rgba(128,128,128,.45)"


class Html(str):
    """A text that is HTML already and is put into a table as it is."""

    __slots__ = ()


def short(name: object, most: int = LONGEST) -> str:
    """A name as pictures and tables show it: on one line, without signs that cannot be seen, and not too long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cell(value: object) -> str:
    """The HTML of one value; `bdi` keeps a name that is written from right to left from turning its neighbours."""
    return value if isinstance(value, Html) else f"<bdi>{escape(short(value))}</bdi>"


def facts_table(title: str, rows: Sequence[tuple[str, str]]) -> Html:
    """Labels and values, one row each; what has no label is a sentence and stands below. Nothing is shortened."""
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
    """Titles of columns and a row below for each of the first values.

    Args:
        title: of the table; may be empty.
        titles: of the columns.
        rows: cells, escaped here unless they are `Html`; read up to `MOST_ROWS`.
        count: how many rows there are in all; those that are not shown are counted below the table.
        right: numbers of the columns whose cells stand at the right edge.
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
    """Something that opens on a click."""
    return Html(f"<details><summary>{escape(summary)}</summary>{inside}</details>")


def distribution(states: Sequence[object], p: Sequence[float]) -> Html:
    """A bar that is divided as the probability is; beyond eight states the rest is one part."""
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
