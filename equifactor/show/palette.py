"""The colours, markers and line styles of all pictures and of the page, and which of them each solver has.

The colours differ in lightness, so that they survive a printer without colours. They also differ for readers with any
of the three kinds of colour blindness. Markers and line styles tell curves apart where colours cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

# Chosen by a search over hue and lightness: simulated for protanopia, deuteranopia and tritanopia, every two of the
# colours are at least 0.09 apart in OKLab. The contrast to the background is at least 2.9 to 1.
LIGHT = ("#2053b9", "#cc7d5c", "#0e4e43", "#ce3a7e", "#171f2e", "#7b6c02", "#2b9abf", "#8f0901")
DARK = ("#74a3fa", "#f1a072", "#018b66", "#d465ad", "#e8f0fe", "#f7d55f", "#8dd3ef", "#d74731")
MARKERS = ("circle", "square", "diamond", "triangle", "wedge", "plus", "cross", "star")
_OF_MATPLOTLIB = {
    "circle": "o", "square": "s", "diamond": "D", "triangle": "^", "wedge": "v", "plus": "P", "cross": "X", "star": "*",
}  # fmt: skip
# Number of the style of the solvers that are most often compared; other solvers take a number from their text. Only
# decoders share numbers with solvers of models, because no picture has both.
SOLVERS = {
    "exact": 4, "bp": 0, "bp(damping=0.5)": 6, "fe-net": 1, "fe-nbp": 3, "trw": 2, "meanfield": 5, "auto": 7,
    "gibbs": 11, "blocks": 10, "regions": 14, "loop-bp": 8, "mini-buckets": 9, "conditioning": 12, "search-sum": 13,
    "optimal": 4, "bp-osd": 2, "relay": 1, "pooled": 0, "min-sum": 6,
}  # fmt: skip


class Style(NamedTuple):
    """How one solver is drawn by matplotlib."""

    colour: str
    marker: str
    dashes: str


def style_numbers(titles: Iterable[str]) -> dict[str, int]:
    """Return a different number for each title; a solver of `SOLVERS` has the same number in every picture.

    The page has the same rule in palette.js.
    """
    titles = list(dict.fromkeys(titles))
    owners = {SOLVERS[_solver(title)]: title for title in reversed(titles) if _solver(title) in SOLVERS}
    numbers = {title: number for number, title in owners.items()}
    taken = set(owners)
    for title in titles:
        if title not in numbers:
            again, colour = divmod(_wanted(title), len(LIGHT))
            tried = (len(LIGHT) * (again + k // len(LIGHT)) + (colour + k) % len(LIGHT) for k in count())
            numbers[title] = next(n for n in tried if n not in taken)
            taken.add(numbers[title])
    return numbers


def styles_of(titles: Iterable[str]) -> dict[str, Style]:
    """Return the style of each title."""
    return {title: style(number) for title, number in style_numbers(titles).items()}


def style(number: int) -> Style:
    """Return a style: after the eighth, the colours return with other markers and dashed lines."""
    again, colour = divmod(number, len(LIGHT))
    marker = MARKERS[(colour + 3 * again) % len(MARKERS)]
    return Style(LIGHT[colour], _OF_MATPLOTLIB[marker], ("-", "--", ":", "-.")[again % 4])


def page_palette() -> dict[str, Any]:
    """Return what the page needs to draw in the same styles."""
    return {"light": LIGHT, "dark": DARK, "markers": MARKERS, "solvers": SOLVERS}


def _solver(title: str) -> str:
    """Return the solver of a title, which may end with a time limit, such as ", 5 s"."""
    return re.sub(r", [\d.e+-]+ s$", "", title)


def _wanted(title: str) -> int:
    """Return the number that a title has by itself."""
    solver = _solver(title)
    if solver in SOLVERS:
        return SOLVERS[solver]
    number = 0
    for letter in solver:
        number = (31 * number + ord(letter)) % 2**32
    return number % len(LIGHT)
