"""The log-likelihood of rows of data under a graph."""

from __future__ import annotations

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import find_families
from equifactor.learning.fitting.conditional_tables import ConditionalTables
from equifactor.learning.fitting.data_rows import DataRows
from equifactor.learning.fitting.expected_blocks import BlockExpectation

_NORMALISED = 1e-9  # A table is a distribution if its rows sum to 1 within this tolerance. Chosen by hand.


def mean_log_likelihood(graph: FactorGraph, data: DataRows, memory_limit: float = 4.0) -> float:
    """Return the mean over rows of ln p(observed values), -inf if a row has probability zero.

    Raises `SolveError` if exact sums are needed, for missing values or for ln Z, and do not fit.
    """
    found = BlockExpectation(graph, data, memory_limit).mean_log_score(graph.log_phi)
    assert found is not None  # There is no clock to stop it.
    return found - (0.0 if _is_normalised(graph) else _log_z(graph, memory_limit))


def _log_z(graph: FactorGraph, memory_limit: float) -> float:
    from equifactor.questions.solve import solve

    result = solve(graph, "PR", f"exact(memory_limit={memory_limit!r})")
    if not result.answered:
        raise SolveError(f"The likelihood of data needs ln Z of the graph, which cannot be computed: {result.message}")
    if result.log_z == -np.inf:
        raise ModelError("Every assignment of the graph has probability zero, so that data have no likelihood.")
    return result.log_z


def _is_normalised(graph: FactorGraph) -> bool:
    """Return whether the graph is a Bayesian network of dense tables, so that ln Z is 0."""
    families = find_families(graph)
    if families is None or graph.structure.kinds is not None:
        return False
    cpts = ConditionalTables(graph, families, np.arange(graph.num_factors), ())
    return bool(np.all(np.abs(cpts.row_sums(np.exp(graph.log_phi)) - 1.0) <= _NORMALISED))
