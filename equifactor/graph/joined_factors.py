"""Factors over the same variables as one table: searches that read a graph many times read fewer tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray


def join_factors(graph: FactorGraph) -> FactorGraph:
    """Return a graph of tables with one factor for each set of variables, and none for single variables in others.

    Log scores are the same up to rounding. A table of one variable is added to a table that contains the variable.
    """
    s = graph.structure
    tables: dict[tuple[int, ...], FloatArray] = {}
    for a in range(s.num_factors):
        scope = s.scope(a)
        order = np.argsort(scope)
        table = graph.log_phi[s.table_ptr[a] : s.table_ptr[a + 1]].reshape(s.shape(a)).transpose(order)
        key = tuple(scope[order].tolist())
        tables[key] = tables[key] + table if key in tables else table
    home: dict[int, tuple[int, ...]] = {}
    for key in sorted((key for key in tables if len(key) > 1), key=lambda key: -tables[key].size):
        home.update(dict.fromkeys(key, key))  # The smallest table that contains a variable comes last.
    for (i,) in [key for key in tables if len(key) == 1]:
        if i in home:
            key = home[i]
            shape = [-1 if j == i else 1 for j in key]
            tables[key] = tables[key] + tables.pop((i,)).reshape(shape)
    arity = np.array([len(key) for key in tables], np.int64)
    structure = Structure.build(s.card, ptr_of(arity), np.array([i for key in tables for i in key], np.int64))
    values = [np.ascontiguousarray(table).ravel() for table in tables.values()]
    return FactorGraph.trusted(structure, np.concatenate([np.zeros(0), *values]), graph.observed, graph.name)
