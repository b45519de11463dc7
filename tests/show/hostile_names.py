"""A model with hostile names: markup, formulas, control characters, right-to-left text, and very long names."""

from __future__ import annotations

from itertools import pairwise

import equifactor as ef

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'single'",
    "שלום\u202eאבג",
    "a\nb\x00c",
    "$x_1$ \\frac",
    "n" * 500,
)


def hostile_graph() -> ef.FactorGraph:
    variables = {name: [f"{name} {k}" for k in range(3)] for name in HOSTILE}
    factors = [([a, b], [[3, 1, 1], [1, 3, 1], [1, 1, 3]]) for a, b in pairwise(HOSTILE)]
    return ef.FactorGraph(variables, factors, name=HOSTILE[0])
