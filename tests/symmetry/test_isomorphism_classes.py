"""Classes of isomorphic graphs."""

from __future__ import annotations

import pytest

from equifactor.symmetry import Relabelling, relabel
from equifactor.symmetry.isomorphism_classes import IsomorphismClasses
from equifactor.testing import contract_graphs

GRAPHS = contract_graphs()


@pytest.mark.parametrize("tolerance", [0.0, 1e-9])
def test_classes(tolerance: float) -> None:
    classes = IsomorphismClasses(tolerance)
    first = [classes.add(g) for g in GRAPHS.values()]
    again = [classes.add(relabel(g, Relabelling.random(g, seed=1))) for g in GRAPHS.values()]
    assert first == again == list(range(len(GRAPHS)))
    assert len(classes) == len(GRAPHS)
