"""Expected counts of rows and their log scores, exact where elimination fits and by belief propagation elsewhere."""

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
    from equifactor.learning.fitting.data_table import DataTable
    from equifactor.solvers.elimination.plan import Plan

_CHUNK_ENTRIES = 2**22  # table entries of a batch of rows for belief propagation


class RowExpectation:
    """One side of the gradient of a likelihood: what a table of rows, with free values, makes of a graph.

    Exact by blocks of variables; without any evidence by the sums that `CRF` uses too; by belief propagation where
    neither fits the memory (GiB), and `note` says so.
    """

    def __init__(self, graph: FactorGraph, table: DataTable, memory_limit: float) -> None:
        self._engine: BlockExpectation | _FreeExpectation | _BetheExpectation
        lowered = lower(graph)
        steps = plan_structure(lowered.graph, memory_limit) if table.hidden.all() else None
        try:
            if steps is None:
                self._engine = BlockExpectation(graph, table, memory_limit)
            elif steps.fits(memory_limit):
                self._engine = _FreeExpectation(lowered, steps, float(table.weights.sum()))
            else:
                raise SolveError(f"elimination needs {steps.cost}")
        except SolveError as error:
            self._engine = _BetheExpectation(graph, table, str(error))

    @property
    def note(self) -> str:
        """A sentence about what is not exact, or nothing."""
        return self._engine.note if isinstance(self._engine, _BetheExpectation) else ""

    def counts(self, log_phi: FloatArray, clock: Clock) -> tuple[FloatArray, float] | None:
        """Expected counts [T] over all rows, and the sum of their log scores; None where the clock stops it.

        Raises `ModelError` where a row has probability zero.
        """
        return self._engine.counts(log_phi, clock)


class _FreeExpectation:
    """No evidence at all: one pass up and one down give ln Z and the marginals of all factors."""

    def __init__(self, lowered: LoweredGraph, steps: Plan, weight: float) -> None:
        self._lowered = lowered
        self._sums = FactorSums(steps)
        self._weight = weight

    def counts(self, log_phi: FloatArray, clock: Clock) -> tuple[FloatArray, float]:
        answer = self._sums.run(self._lowered.with_tables(log_phi)[None])
        if np.isneginf(answer.log_z[0]):
            raise ModelError(
                "every assignment of the graph has probability zero: a factor that stays as it is rules all out"
            )
        return self._weight * self._lowered.of_tables(answer.entries[0]), self._weight * float(answer.log_z[0])


class _BetheExpectation:
    """Settled belief propagation: factor beliefs and the Bethe estimate of ln Z, whose gradient they are."""

    def __init__(self, graph: FactorGraph, table: DataTable, reason: str) -> None:
        needed("torch", "likelihood beyond memory_limit (pseudo-likelihood needs no more memory)")
        from equifactor.learning.crf.bp_sums import BPEngine

        rows = table.merged
        self._graph, self._states, self._weights = graph, np.ascontiguousarray(rows.states), rows.weights
        self._engine = BPEngine(graph, 200, 0.5)
        self._reason = reason.partition(" and the limit")[0]
        self._change = 0.0

    @property
    def note(self) -> str:
        settled = "" if self._change < 1e-3 else f", which did not settle (messages still moved by {self._change:.2g})"
        return (
            f"Beyond memory_limit ({self._reason}): likelihoods and gradients are the Bethe estimates of belief "
            f"propagation{settled}; pseudo-likelihood needs no such estimate."
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
            raise ModelError("a row of the data has probability zero: a factor that stays as it is rules it out")
        return counts, total

    def _agreeing(self, states: IntArray) -> BoolArray:
        """[n, T] the entries that agree with each row; factors that are no tables take no part in it."""
        s = self._graph.structure
        agrees = np.ones((len(states), s.num_entries), bool)
        observed = np.flatnonzero((states >= 0).any(axis=0))
        for e in np.flatnonzero(np.isin(s.scope_vars, observed)).tolist():
            a = int(s.factor_of_edge[e])
            if s.kinds is not None and s.kinds.kind[a]:
                raise SolveError(
                    "belief propagation given rows needs tables, and a factor of another kind holds an observed "
                    "variable: raise memory_limit, or fit without given and missing values"
                )
            start, stop = s.table_ptr[a : a + 2]
            variable = s.scope_vars[e]
            state = np.arange(stop - start) // s.stride[e] % s.card[variable]
            own = states[:, variable]
            agrees[:, start:stop] &= (own < 0)[:, None] | (own[:, None] == state)
        return agrees
