"""How often every table entry is expected to occur in rows with missing values, and how probable the rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.errors import ModelError
from equifactor.fitting.data_table import DataTable
from equifactor.fitting.families import find_families
from equifactor.fitting.network_tables import dot
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.lowered_graph import lower
from equifactor.graph.pointers import row_of
from equifactor.solvers.elimination.evidence_rows import EvidenceRows

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.typing import FloatArray, IntArray

_NORMALISED = 1e-9  # The rows of a table that is a distribution sum to 1 within this.


class ExactExpectation:
    """Exact expectations given the rows of a table, planned once; only the tables change between two calls.

    Args:
        graph: the model, of any kinds of factors.
        memory_limit: GiB for the elimination.

    Raises `SolveError` where the elimination does not fit.
    """

    def __init__(self, graph: FactorGraph, memory_limit: float) -> None:
        self.num_vars = graph.num_vars
        lowered = lower(graph).graph  # its first tables are those of the graph, then come those of other factors
        kinds = graph.structure.kinds
        is_table = np.ones(graph.num_factors, bool) if kinds is None else kinds.kind == 0
        self._entries = np.flatnonzero(is_table[row_of(graph.structure.table_ptr)])  # [t] in tables of the graph
        self._log_phi = lowered.log_phi
        self._rows = EvidenceRows(lowered, memory_limit)

    def counts(
        self, log_phi: FloatArray, states: IntArray, weights: FloatArray, clock: Clock
    ) -> tuple[FloatArray, FloatArray] | None:
        """The expected counts [T] over all rows and the log-probability [N] of each; None where the clock stops it.

        Args:
            log_phi: [T] the tables of the graph; the values of other factors are those it was made with.
            states: [N, V] the rows, -1 where a value is missing.
            weights: [N] of the rows.
            clock: of the fit.
        """
        rows = self._with(log_phi)
        expected, log_p = rows.expected_factors(self._padded(states), weights, clock=clock)
        if len(log_p) < len(states):
            return None
        counts = np.zeros(len(log_phi))
        counts[self._entries] = expected[: len(self._entries)]
        return counts, log_p

    def log_probabilities(self, log_phi: FloatArray, states: IntArray, clock: Clock | None = None) -> FloatArray | None:
        """[N] the log score of each row, summed over its missing values; None where the clock stops it."""
        found = self._with(log_phi).log_z(self._padded(states), clock=clock)
        return found if len(found) == len(states) else None

    def _with(self, log_phi: FloatArray) -> EvidenceRows:
        values = self._log_phi.copy()
        values[: len(self._entries)] = log_phi[self._entries]
        return self._rows.with_potentials(values)

    def _padded(self, states: IntArray) -> IntArray:
        """The rows with a missing value for each auxiliary variable."""
        more = self._rows.graph.num_vars - self.num_vars
        return np.hstack((states, np.full((len(states), more), -1))) if more else states


def mean_log_likelihood(graph: FactorGraph, table: DataTable, memory_limit: float = 4.0) -> float:
    """The mean over rows of ln p(observed values), -inf where a row has probability zero.

    Raises `SolveError` where values are missing, or tables are no distributions, and exact sums do not fit.
    """
    total = float(table.weights.sum())
    if table.is_complete and _is_normalised(graph):
        return dot(table.weights, graph.log_score(table.states)) / total
    rows = table.merged
    exact = ExactExpectation(graph, memory_limit)
    anything = np.full((1, graph.num_vars), -1)
    found = exact.log_probabilities(graph.log_phi, np.vstack((rows.states, anything)))
    if found is None or not np.isfinite(found[-1]):
        raise ModelError("every assignment of the graph has probability zero, so that no data have a likelihood")
    return dot(rows.weights, found[:-1]) / total - float(found[-1])


def _is_normalised(graph: FactorGraph) -> bool:
    """Whether the graph is a Bayesian network of tables, so that ln Z is 0."""
    families = find_families(graph)
    if families is None or graph.structure.kinds is not None:
        return False
    from equifactor.fitting.network_tables import NetworkTables

    tables = NetworkTables(graph, families, np.arange(graph.num_factors), ())
    return bool(np.all(np.abs(tables.row_sums(np.exp(graph.log_phi)) - 1.0) <= _NORMALISED))
