"""Structured factors whose parameters EM learns: dense tables during the fit, and structured factors again after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.dense_graph import with_tables
from equifactor.factors.kind_learning import learning_of
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.kinds import KINDS, kinds_with

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray
    from equifactor.factors.kind_learning import KindLearning


def of_learned_kinds(graph: FactorGraph) -> BoolArray:
    """Return [F] whether each factor is of a structured kind that EM can learn."""
    kinds = graph.structure.kinds
    return np.zeros(graph.num_factors, bool) if kinds is None else kinds_with("learning", kinds.kind)


def as_tables(graph: FactorGraph, fixed: frozenset[int]) -> tuple[FactorGraph, tuple[KindLearning, ...]]:
    """Return the graph with dense tables in place of factors of learned kinds, and the factors that are learned.

    A factor that is fixed, or that its kind cannot learn, is not learned. If the tables would be too large, the graph
    is returned unchanged.
    """
    which = of_learned_kinds(graph)
    kinds = graph.structure.kinds
    if kinds is None or not which.any():
        return graph, ()
    try:
        dense = with_tables(graph, "EM", keep=set(range(len(KINDS))) - set(kinds.kind[which].tolist()))
    except ModelError:
        return graph, ()
    s = dense.structure
    found = (
        learning_of(int(kinds.kind[a])).of(a, int(s.table_ptr[a]), graph.factor(a), int(s.arity[a]))
        for a in np.flatnonzero(which).tolist()
        if a not in fixed
    )
    return dense, tuple(learned for learned in found if learned is not None)


def with_learned(graph: FactorGraph, fitted: FactorGraph, learned: tuple[KindLearning, ...]) -> FactorGraph:
    """Return the graph with the potentials of `fitted`; learned structured factors keep their kind."""
    if fitted.structure is graph.structure:
        return fitted
    old, new = graph.structure, fitted.structure
    log_phi = graph.log_phi.copy()
    for a in np.flatnonzero(~of_learned_kinds(graph)).tolist():
        log_phi[old.table_ptr[a] : old.table_ptr[a + 1]] = fitted.log_phi[new.table_ptr[a] : new.table_ptr[a + 1]]
    for part in learned:
        log_phi[old.table_ptr[part.factor] : old.table_ptr[part.factor + 1]] = part.log_values(fitted.log_phi)
    return FactorGraph.trusted(old, log_phi, None, graph.name)
