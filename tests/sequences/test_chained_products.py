"""Chained products of a state and tables against sums over one variable at a time."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.sequences.chained_products import ChainedProduct, Factor, eliminated


def step(rng: np.random.Generator, kind: str) -> tuple[list[Factor], dict[int, int]]:
    """Return tables of eight variables over themselves, and over one or two others before or after the step."""
    V = 8
    card = dict(enumerate(rng.integers(2, 4, V).tolist()))
    card |= {V + i: card[i] for i in range(V)}
    found = []
    for i in range(V):
        others = {"line": [i - 1], "slice": [V + i - 1] if i else [], "ring": [(i - 1) % V]}
        scope = {i, *others.get(kind, rng.integers(0, V, 2).tolist())} - {-1}
        found.append(Factor((*sorted(scope), V + i), rng.random((*(card[v] for v in sorted(scope)), card[i]))))
    return found, card


@pytest.mark.parametrize("kind", ["line", "slice", "ring", "random"])
@pytest.mark.parametrize("logs", [False, True])
def test_products_equal_elimination(kind: str, logs: bool) -> None:
    rng = np.random.default_rng(len(kind))
    tables, card = step(rng, kind)
    past, now = tuple(range(8)), tuple(range(8, 16))
    tables = [Factor(f.scope, np.log(f.table)) for f in tables] if logs else tables
    for start, end in ((past, now), (now, past)):
        state = rng.random((2, *(card[v] for v in start)))
        expected = eliminated([Factor((-1, *start), state), *tables], (-1, *end), logs).table
        chain = ChainedProduct(start, end, tables, card, logs)
        np.testing.assert_allclose(chain(state), expected, rtol=1e-12)
