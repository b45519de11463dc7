"""Expected counts by enumerating every completion of a row, for rows in which few neighbouring values are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.learning.fitting.completion_records import completion_scopes, completion_work

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure

_CHUNK_STEPS = 1e8  # The number of steps between two checks of the clock, about 0.2 s.


class EnumeratedExpectation:
    """Exact expectations for rows whose missing values have few completions. The rows are prepared once.

    Args:
        structure: a structure of dense tables only.
        states: [N, V] the rows, -1 for a missing value.
    """

    def __init__(self, structure: Structure, states: IntArray) -> None:
        self._structure = structure
        self._states = np.ascontiguousarray(states)
        self._scopes = tuple(completion_scopes(structure))
        self.largest = np.empty(len(states))  # [N] completions of the largest component of missing values of each row
        self.steps = np.empty(len(states))  # [N] about the number of entries that are read for each row
        if len(states):
            from equifactor.learning.fitting.completion_kernels import measure_rows

            measure_rows(self._states, self._scopes, tuple(completion_work(structure, 1)), self.largest, self.steps)

    def of_rows(self, rows: IntArray) -> EnumeratedExpectation:
        """Return the expectations of some of the rows."""
        return EnumeratedExpectation(self._structure, self._states[rows])

    def counts(
        self, log_phi: FloatArray, weights: FloatArray, clock: Clock | None
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return expected counts [T] over all rows and the log score [N] of each row; None if the clock stops it."""
        counts = np.zeros(len(log_phi))
        log_p = self._run(log_phi, weights, counts, clock)
        return None if log_p is None else (counts, log_p)

    def log_scores(self, log_phi: FloatArray, clock: Clock | None) -> FloatArray | None:
        """Return the log of the sum [N] of all scores that agree with each row; None if the clock stops it."""
        return self._run(log_phi, np.zeros(len(self._states)), np.zeros(0), clock)

    def _run(
        self, log_phi: FloatArray, weights: FloatArray, counts: FloatArray, clock: Clock | None
    ) -> FloatArray | None:
        log_p = np.empty(len(self._states))
        if not len(log_p):
            return log_p
        from equifactor.learning.fitting.completion_kernels import complete_rows

        work = tuple(completion_work(self._structure, int(self.largest.max())))
        ends = np.flatnonzero(np.diff(np.cumsum(self.steps) // _CHUNK_STEPS)) + 1
        for rows in np.split(np.arange(len(log_p)), ends):
            if clock is not None and clock.stopped and rows[0]:
                return None
            part = slice(rows[0], rows[-1] + 1)
            complete_rows(self._states[part], weights[part], log_phi, self._scopes, work, counts, log_p[part])
        return log_p
