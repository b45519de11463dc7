from __future__ import annotations

import numpy as np

from equifactor import FactorGraph
from equifactor.generators import ising_grid, random_graph
from equifactor.graph.scores import batch_log_scores


def test_scores_of_a_batch_are_those_of_each_graph_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    graphs = [
        random_graph(9, 14, arity=(0, 4), card=(1, 4), zeros=0.2, seed=1),
        FactorGraph([3, 2]),  # no factors: score 0
        random_graph(7, 12, arity=(1, 3), card=(2, 3), seed=2).condition({1: 1}),
        FactorGraph([], [([], 0.5)]),
        *ising_grid(12, 12, seed=0, count=3),
    ]
    assignments = []
    for graph in graphs:
        x = rng.integers(graph.card)
        assignments.append(x if graph.observed is None else np.where(graph.observed >= 0, graph.observed, x))
    expected = [graph.log_score(x) for graph, x in zip(graphs, assignments, strict=True)]
    assert batch_log_scores(graphs, assignments) == expected
    assert batch_log_scores(graphs[:1], assignments[:1]) == expected[:1]
