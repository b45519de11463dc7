"""How probable rows of data are under a graph."""

from __future__ import annotations

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import find_families
from equifactor.learning.fitting.data_table import DataTable
from equifactor.learning.fitting.expected_blocks import BlockExpectation
from equifactor.learning.fitting.network_tables import NetworkTables

_NORMALISED = 1e-9  # The rows of a table that is a distribution sum to 1 within this.


def mean_log_likelihood(graph: FactorGraph, table: DataTable, memory_limit: float = 4.0) -> float:
    """The mean over rows of ln p(observed values), -inf where a row has probability zero.

    Raises `SolveError` where values are missing, or tables are no distributions, and exact sums do not fit.
    """
    found = BlockExpectation(graph, table, memory_limit).mean_log_score(graph.log_phi)
    assert found is not None  # nothing stops it
    return found - (0.0 if _is_normalised(graph) else _log_z(graph, memory_limit))


def _log_z(graph: FactorGraph, memory_limit: float) -> float:
    from equifactor.questions.solve import solve

    result = solve(graph, "PR", f"exact(memory_limit={memory_limit!r})")
    if result.log_z is None:
        raise SolveError(f"the likelihood of data needs ln Z of the graph, which is not known: {result.message}")
    if result.log_z == -np.inf:
        raise ModelError("every assignment of the graph has probability zero, so that no data have a likelihood")
    return result.log_z


def _is_normalised(graph: FactorGraph) -> bool:
    """Whether the graph is a Bayesian network of tables, so that ln Z is 0."""
    families = find_families(graph)
    if families is None or graph.structure.kinds is not None:
        return False
    tables = NetworkTables(graph, families, np.arange(graph.num_factors), ())
    return bool(np.all(np.abs(tables.row_sums(np.exp(graph.log_phi)) - 1.0) <= _NORMALISED))
