"""Evidence written as factors, for formats that have no place for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def with_factors(
    graph: FactorGraph, variables: Sequence[int], log_tables: Sequence[NDArray[np.float64]]
) -> FactorGraph:
    """The graph times one unary factor per given variable, evidence dropped. Cost O(T)."""
    s = graph.structure
    structure = Structure.build(
        s.card,
        np.concatenate((s.scope_ptr, s.num_edges + 1 + np.arange(len(variables)))),
        np.concatenate((s.scope_vars, np.array(variables, np.int64))),
        variable_names=s.variable_names,
        state_names=s.state_names,
    )
    return FactorGraph.trusted(structure, np.concatenate((graph.log_phi, *log_tables)), None, graph.name)


def evidence_as_factors(graph: FactorGraph) -> FactorGraph:
    """The same distribution and ln Z, each observation a unary factor that is 1 there and 0 elsewhere."""
    evidence = graph.evidence
    if not evidence:
        return graph
    tables = [np.where(np.arange(graph.card[i]) == x, 0.0, -np.inf) for i, x in evidence.items()]
    return with_factors(graph, list(evidence), tables)
