"""Expected counts of table entries in rows with missing values, and the scores of the rows, by elimination."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.lowered_graph import lower
from equifactor.solvers.elimination.evidence_rows import EvidenceRows

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph


class ExactExpectation:
    """Exact expectations of rows by elimination. The plan is made once; only the tables change between two calls.

    Args:
        graph: the model. Structured factors are not learned.
        memory_limit: GiB for the elimination.

    Raises `SolveError` if the elimination does not fit.
    """

    def __init__(self, graph: FactorGraph, memory_limit: float) -> None:
        self._lowered = lower(graph)
        self._rows = EvidenceRows(self._lowered.graph, memory_limit)

    @property
    def steps(self) -> float:
        """About the number of entries that are read for a row."""
        return self._rows.plan.entries

    def counts(
        self, log_phi: FloatArray, states: IntArray, weights: FloatArray, clock: Clock | None = None
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return the expected counts [T] over all rows and the log score [N] of each row; None if the clock stops it.

        Args:
            log_phi: [T] the log tables of the graph.
            states: [N, V] the rows, -1 for a missing value.
            weights: [N] the weights of the rows.
            clock: the clock that may stop the computation.
        """
        expected, log_p = self._with(log_phi).expected_factors(self._padded(states), weights, clock=clock)
        return None if len(log_p) < len(states) else (self._lowered.of_tables(expected), log_p)

    def log_scores(self, log_phi: FloatArray, states: IntArray, clock: Clock | None = None) -> FloatArray | None:
        """Return the log of the sum [N] of all scores that agree with each row; None if the clock stops it."""
        found = self._with(log_phi).log_z(self._padded(states), clock=clock)
        return found if len(found) == len(states) else None

    def _with(self, log_phi: FloatArray) -> EvidenceRows:
        return self._rows.with_potentials(self._lowered.with_tables(log_phi))

    def _padded(self, states: IntArray) -> IntArray:
        """Return the rows with a missing value for each variable that lowering has added."""
        added = self._lowered.num_auxiliary
        return np.hstack((states, np.full((len(states), added), -1))) if added else states
