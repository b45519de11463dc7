"""How often every table entry is expected to occur in rows with missing values, and how probable the rows are."""

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
    """Exact expectations given rows, planned once; only the tables change between two calls.

    Args:
        graph: the model. The values of factors that are no tables stay as they are.
        memory_limit: GiB for the elimination.

    Raises `SolveError` where the elimination does not fit.
    """

    def __init__(self, graph: FactorGraph, memory_limit: float) -> None:
        self._lowered = lower(graph)
        self._rows = EvidenceRows(self._lowered.graph, memory_limit)

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
        return None if len(log_p) < len(states) else (self._lowered.of_tables(expected), log_p)

    def log_scores(self, log_phi: FloatArray, states: IntArray, clock: Clock | None = None) -> FloatArray | None:
        """The log of the sum [N] of all scores that agree with each row; None where the clock stops it."""
        found = self._with(log_phi).log_z(self._padded(states), clock=clock)
        return found if len(found) == len(states) else None

    def _with(self, log_phi: FloatArray) -> EvidenceRows:
        return self._rows.with_potentials(self._lowered.with_tables(log_phi))

    def _padded(self, states: IntArray) -> IntArray:
        """The rows with a missing value for each variable that lowering has added."""
        added = self._lowered.num_auxiliary
        return np.hstack((states, np.full((len(states), added), -1))) if added else states
