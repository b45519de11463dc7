"""Evidence written as factors, for formats that have no place for it."""

from __future__ import annotations

import numpy as np

from equifactor.graph.factor_graph import FactorGraph


def evidence_as_factors(graph: FactorGraph) -> FactorGraph:
    """The same distribution and ln Z with each observation as a unary factor, which is 1 there and 0 elsewhere."""
    evidence = graph.evidence
    if not evidence:
        return graph
    factors = [([i], np.arange(graph.card[i]) == x) for i, x in evidence.items()]
    return FactorGraph.trusted(graph.structure, graph.log_phi, None, graph.name).with_factors(factors)
