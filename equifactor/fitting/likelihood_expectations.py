"""Expected counts and log-probabilities of rows, exact where elimination fits and by belief propagation elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from equifactor.errors import SolveError
from equifactor.fitting.expected_counts import ExactExpectation
from equifactor.graph.lowered_graph import lower
from equifactor.solvers.elimination.exact_batch import plan_structure
from equifactor.solvers.elimination.factor_sums import FactorSums

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.typing import BoolArray, FloatArray, IntArray

_CHUNK_ENTRIES = 2**22  # table entries of a batch of rows for belief propagation


class Expectation(Protocol):
    """How the two sides of the gradient of a likelihood are had."""

    @property
    def note(self) -> str:
        """A sentence about what is not exact, or nothing."""
        ...

    def counts(
        self, log_phi: FloatArray, states: IntArray, weights: FloatArray, clock: Clock
    ) -> tuple[FloatArray, FloatArray] | None:
        """Expected counts [T] over rows [N, V], -1 where free, and ln Z [N] of each; None where the clock stops it."""
        ...


def expectation_of(graph: FactorGraph, memory_limit: float) -> Expectation:
    """Exact where elimination fits the memory (GiB), else by belief propagation."""
    steps = plan_structure(lower(graph).graph, memory_limit)
    if steps.fits(memory_limit):
        try:
            return _Exact(graph, memory_limit)
        except SolveError:  # Rows need more memory than the model alone.
            pass
    return _Propagated(graph, steps.cost)


class _Exact:
    """Elimination along one plan; what is expected without any evidence comes from the sums that `CRF` uses too."""

    note = ""

    def __init__(self, graph: FactorGraph, memory_limit: float) -> None:
        s = graph.structure
        self._rows = ExactExpectation(graph, memory_limit)
        self._lowered = lower(graph).graph
        is_table = np.ones(s.num_factors, bool) if s.kinds is None else s.kinds.kind == 0
        self._entries = np.flatnonzero(np.repeat(is_table, np.diff(s.table_ptr)))
        self._free = FactorSums(plan_structure(self._lowered, memory_limit))

    def counts(
        self, log_phi: FloatArray, states: IntArray, weights: FloatArray, clock: Clock
    ) -> tuple[FloatArray, FloatArray] | None:
        """As the protocol says."""
        if len(states) != 1 or np.any(states >= 0):
            return self._rows.counts(log_phi, states, weights, clock)
        tables = self._lowered.log_phi.copy()
        tables[: len(self._entries)] = log_phi[self._entries]
        answer = self._free.run(tables[None])
        found = np.zeros(len(log_phi))
        found[self._entries] = weights[0] * answer.entries[0, : len(self._entries)]
        return found, answer.log_z


class _Propagated:
    """Settled belief propagation: factor beliefs and the Bethe estimate of ln Z, whose gradient they are."""

    def __init__(self, graph: FactorGraph, cost: str) -> None:
        from equifactor.crf.bp_sums import BPEngine

        self._graph = graph
        self._engine = BPEngine(graph, 200, 0.5)
        self._cost = cost
        self._change = 0.0

    @property
    def note(self) -> str:
        """What belief propagation means for the result."""
        settled = "" if self._change < 1e-3 else f", which did not settle (messages still moved by {self._change:.2g})"
        return (
            f"Elimination needs {self._cost}, above memory_limit: likelihoods and gradients are the Bethe estimates of "
            f"belief propagation{settled}; pseudo-likelihood needs no such estimate."
        )

    def counts(
        self, log_phi: FloatArray, states: IntArray, weights: FloatArray, clock: Clock
    ) -> tuple[FloatArray, FloatArray] | None:
        """As the protocol says."""
        import torch

        total, log_z = np.zeros(len(log_phi)), np.empty(len(states))
        size = max(1, _CHUNK_ENTRIES // max(1, len(log_phi)))
        for n in range(0, len(states), size):
            if clock.stopped and n:
                return None
            part = slice(n, n + size)
            rows = np.where(self._agreeing(states[part]), log_phi, -np.inf)
            with torch.no_grad():
                found, _, entries, change = self._engine.sums(torch.from_numpy(rows))
            total += weights[part] @ entries.numpy()
            log_z[part] = found.numpy()
            self._change = float(change.max())
        return total, log_z

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
