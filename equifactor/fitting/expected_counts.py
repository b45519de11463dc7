"""How often every table entry is expected to occur in rows with missing values, and how probable the rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.lowered_graph import lower
from equifactor.graph.pointers import picked
from equifactor.solvers.elimination.evidence_rows import EvidenceRows

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.typing import FloatArray, IntArray


class ExactExpectation:
    """Exact expectations given rows, planned once; only the tables change between two calls.

    Args:
        graph: the model. The values of factors that are no tables stay as they are.
        memory_limit: GiB for the elimination.

    Raises `SolveError` where the elimination does not fit.
    """

    def __init__(self, graph: FactorGraph, memory_limit: float) -> None:
        s = graph.structure
        lowered = lower(graph).graph  # its first tables are those of the graph, then come those of other factors
        tables = np.arange(s.num_factors) if s.kinds is None else np.flatnonzero(s.kinds.kind == 0)
        self._entries = picked(s.table_ptr, tables)[1]  # [t] of the graph's tables
        self._log_phi = lowered.log_phi
        self._added = lowered.num_vars - graph.num_vars
        self._rows = EvidenceRows(lowered, memory_limit)

    @property
    def steps(self) -> float:
        """About how many entries are looked at for a row."""
        return self._rows.plan.entries

    def counts(
        self, log_phi: FloatArray, states: IntArray, weights: FloatArray, clock: Clock | None = None
    ) -> tuple[FloatArray, FloatArray] | None:
        """The expected counts [T] over all rows and the log score [N] of each; None where the clock stops it.

        Args:
            log_phi: [T] the tables of the graph.
            states: [N, V] the rows, -1 where a value is missing.
            weights: [N] of the rows.
            clock: where it stops.
        """
        expected, log_p = self._with(log_phi).expected_factors(self._padded(states), weights, clock=clock)
        if len(log_p) < len(states):
            return None
        counts = np.zeros(len(log_phi))
        counts[self._entries] = expected[: len(self._entries)]
        return counts, log_p

    def log_scores(self, log_phi: FloatArray, states: IntArray, clock: Clock | None = None) -> FloatArray | None:
        """The log of the sum [N] of all scores that agree with each row; None where the clock stops it."""
        found = self._with(log_phi).log_z(self._padded(states), clock=clock)
        return found if len(found) == len(states) else None

    def _with(self, log_phi: FloatArray) -> EvidenceRows:
        values = self._log_phi.copy()
        values[: len(self._entries)] = log_phi[self._entries]
        return self._rows.with_potentials(values)

    def _padded(self, states: IntArray) -> IntArray:
        """The rows with a missing value for each variable that lowering has added."""
        return np.hstack((states, np.full((len(states), self._added), -1))) if self._added else states
