"""The same small random models in several libraries."""

from __future__ import annotations

import pytest

from equifactor import FactorGraph
from equifactor.generators import ising_grid, random_graph, random_tree

MODELS = {
    "grid": lambda: ising_grid(4, 4, seed=1),
    "tree": lambda: random_tree(9, card=(2, 4), seed=2),
    "ragged": lambda: random_graph(8, 12, arity=(1, 3), card=(2, 4), seed=3),
    "zeros": lambda: random_graph(8, 10, arity=(1, 3), card=(2, 3), zeros=0.3, seed=4),
    "arity 4": lambda: random_graph(7, 5, arity=4, card=(2, 3), seed=5),
    "disconnected": lambda: random_graph(9, 4, arity=2, card=2, seed=6),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> FactorGraph:
    return MODELS[request.param]()
