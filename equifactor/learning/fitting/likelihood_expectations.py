"""Expected counts of rows and their log scores: exact if elimination fits, otherwise by belief propagation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.base.optional_packages import needed
from equifactor.factors.lowered_graph import lower
from equifactor.learning.fitting.expected_blocks import BlockExpectation
from equifactor.solvers.elimination.exact_batch import plan_structure
from equifactor.solvers.elimination.factor_sums import FactorSums

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.learning.fitting.data_rows import DataRows
    from equifactor.solvers.elimination.plan import Plan

_CHUNK_ENTRIES = 2**22  # The number of table entries of a batch of rows for belief propagation, 32 MiB.
_BP_ITERATIONS = 200  # The largest number of iterations of belief propagation. Chosen by hand.
_BP_DAMPING = 0.5  # The damping of belief propagation. Chosen by hand.
_SETTLED = 1e-3  # Belief propagation has converged if messages change by less than this. Chosen by hand.


class RowExpectation:
    """One side of the gradient of a likelihood: expected counts and log scores of rows with missing values.

    The sums are computed exactly, block by block. Without any evidence they are computed by one elimination, as in
    `CRF`. If the elimination does not fit `memory_limit` (GiB), belief propagation approximates the sums, and `note`
    reports it.
    """

    def __init__(self, graph: FactorGraph, data: DataRows, memory_limit: float) -> None:
        self._engine: BlockExpectation | _FreeExpectation | _BetheExpectation
        lowered = lower(graph)
        steps = plan_structure(lowered.graph, memory_limit) if data.hidden.all() else None
        try:
            if steps is None:
                self._engine = BlockExpectation(graph, data, memory_limit)
            elif steps.fits(memory_limit):
                self._engine = _FreeExpectation(lowered, steps, float(data.weights.sum()))
            else:
                raise SolveError(steps.excess(memory_limit))
        except SolveError as error:
            self._engine = _BetheExpectation(graph, data, str(error))

    @property
    def note(self) -> str:
        """A sentence about approximations, or empty text."""
        return self._engine.note if isinstance(self._engine, _BetheExpectation) else ""

    def counts(self, log_phi: FloatArray, clock: Clock) -> tuple[FloatArray, float] | None:
        """Return expected counts [T] over all rows, and the sum of their log scores; None if the clock stops it.

        Raises `ModelError` if a row has probability zero.
        """
        return self._engine.counts(log_phi, clock)


class _FreeExpectation:
    """Sums without any evidence: one pass up and one down give ln Z and the marginals of all factors."""

    def __init__(self, lowered: LoweredGraph, steps: Plan, weight: float) -> None:
        self._lowered = lowered
        self._sums = FactorSums(steps)
        self._weight = weight

    def counts(self, log_phi: FloatArray, clock: Clock) -> tuple[FloatArray, float]:
        answer = self._sums.run(self._lowered.with_tables(log_phi)[None])
        if np.isneginf(answer.log_z[0]):
            raise ModelError(
                "Every assignment of the graph has probability zero: the factors that are not learned exclude all "
                "assignments."
            )
        return self._weight * self._lowered.of_tables(answer.entries[0]), self._weight * float(answer.log_z[0])


class _BetheExpectation:
    """Sums by belief propagation: the Bethe estimate of ln Z, and factor beliefs, which are its gradient."""

    def __init__(self, graph: FactorGraph, data: DataRows, reason: str) -> None:
        needed("torch", "likelihood beyond memory_limit (pseudo-likelihood needs no more memory)")
        from equifactor.learning.crf.bp_sums import BPEngine

        rows = data.merged
        self._graph, self._states, self._weights = graph, np.ascontiguousarray(rows.states), rows.weights
        self._engine = BPEngine(graph, _BP_ITERATIONS, _BP_DAMPING)
        self._reason = reason.partition(" Raise ")[0].rstrip(".")
        self._change = 0.0

    @property
    def note(self) -> str:
        settled = (
            ""
            if self._change < _SETTLED
            else f", which did not converge (messages still changed by {self._change:.2g})"
        )
        return (
            f"{self._reason}, so likelihoods and gradients are Bethe estimates of belief "
            f"propagation{settled}. The method pseudo-likelihood needs no such estimates."
        )

    def counts(self, log_phi: FloatArray, clock: Clock) -> tuple[FloatArray, float] | None:
        import torch

        counts, total = np.zeros(len(log_phi)), 0.0
        size = max(1, _CHUNK_ENTRIES // max(1, len(log_phi)))
        for n in range(0, len(self._states), size):
            if clock.stopped and n:
                return None
            part = slice(n, n + size)
            rows = np.where(self._agreeing(self._states[part]), log_phi, -np.inf)
            with torch.no_grad():
                log_z, _, entries, change = self._engine.sums(torch.from_numpy(rows))
            counts += self._weights[part] @ entries.numpy()
            total += float(self._weights[part] @ log_z.numpy())
            self._change = float(change.max())
        if total == -np.inf:
            raise ModelError("A row of the data has probability zero: a factor that is not learned excludes it.")
        return counts, total

    def _agreeing(self, states: IntArray) -> BoolArray:
        """Return the table entries [n, T] that agree with each row."""
        s = self._graph.structure
        agrees = np.ones((len(states), s.num_entries), bool)
        observed = np.flatnonzero((states >= 0).any(axis=0))
        for e in np.flatnonzero(np.isin(s.scope_vars, observed)).tolist():
            a = int(s.factor_of_edge[e])
            if s.kinds is not None and s.kinds.kind[a]:
                raise SolveError(
                    f"Belief propagation given rows needs dense tables, but the structured factor {a} contains an "
                    "observed variable. Raise memory_limit, or fit complete rows without `given`."
                )
            start, stop = s.table_ptr[a : a + 2]
            variable = s.scope_vars[e]
            state = np.arange(stop - start) // s.stride[e] % s.card[variable]
            own = states[:, variable]
            agrees[:, start:stop] &= (own < 0)[:, None] | (own[:, None] == state)
        return agrees
