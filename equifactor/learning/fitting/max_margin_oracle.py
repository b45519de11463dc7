"""The worst labels of every row: MAP with the share of wrong labels added to the scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.base.optional_packages import is_installed
from equifactor.base.status import Task
from equifactor.graph.factor_graph import FactorGraph
from equifactor.questions.solve import solve
from equifactor.solvers.elimination.plan import plan

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.learning.fitting.data_rows import DataRows
    from equifactor.learning.fitting.learned_parameters import LearnedParameters

_CHUNK_ENTRIES = 2**22  # The number of table entries of the rows that are solved together, 32 MiB. Chosen by hand.


class MarginOracle:
    """The MAP problems of all rows: given variables have their values, and every wrong label adds a reward.

    If elimination fits, all rows are solved together and exactly. Otherwise a solver takes the rows one by one. Its
    answers may be worse than the optimum, so that a plane may not be exact.
    """

    def __init__(
        self, parameters: LearnedParameters, data: DataRows, given: IntArray, solver: str, memory_limit: float
    ) -> None:
        rows = data.merged
        self.parameters, self.states, self.weights = parameters, np.ascontiguousarray(rows.states), rows.weights
        self.total = float(rows.weights.sum())
        self.seen = parameters.counts(self.states, self.weights)
        if np.isneginf(self._others(self.states)).any():
            raise ModelError("A row of the data has probability zero: a factor that is not learned excludes it.")
        self.solver = solver
        s = parameters.graph.structure
        unaries = [([i], np.ones(int(d))) for i, d in enumerate(s.card)]
        # The graph with a unary factor for each variable at the end.
        self.graph: FactorGraph = parameters.graph.with_factors(unaries)
        self.is_given = np.zeros(s.num_vars, bool)
        self.is_given[given] = True
        self.share = 1.0 / float(np.count_nonzero(~self.is_given))
        self.batch = None
        self.note = ""
        steps = plan(self.graph, memory_limit=memory_limit, task=Task.MAP)
        if not steps.fits(memory_limit, Task.MAP):
            self.note = (
                f" {steps.excess(memory_limit, Task.MAP)} The solver {solver} was used, so margins are approximate."
            )
        elif s.kinds is None and is_installed("torch"):
            from equifactor.solvers.elimination.exact_batch_torch import TorchBatch

            self.batch = TorchBatch(steps)
        else:  # Every row is a separate graph: without torch, or because lowering depends on the values.
            self.solver = f"exact(memory_limit={memory_limit!r})"

    def plane(self, theta: FloatArray, clock: Clock) -> tuple[FloatArray, float] | None:
        """Return the slope [P] and the offset of a plane that touches the loss per row at theta.

        Return None if the clock stops the computation.
        """
        worst = self._best(theta, self.share, clock)
        if worst is None:
            return None
        wrong = (worst != self.states)[:, ~self.is_given].sum(1) * self.share
        slope = (self.parameters.counts(worst, self.weights) - self.seen) / self.total
        offset = float(self.weights @ (wrong + self._others(worst) - self._others(self.states))) / self.total
        return slope, offset

    def share_wrong(self, theta: FloatArray) -> float:
        """Return the share of labels that MAP gets wrong."""
        from equifactor.base.clock import Clock

        best = self._best(theta, 0.0, Clock())
        assert best is not None
        wrong = (best != self.states)[:, ~self.is_given].mean(1)
        return float(self.weights @ wrong) / self.total

    def _others(self, states: IntArray) -> FloatArray:
        """Return the log scores [N] of rows in the factors that are not learned."""
        rest = self.parameters.others
        return np.zeros(len(states)) if rest is None else np.asarray(rest.log_score(states))

    def _best(self, theta: FloatArray, reward: float, clock: Clock) -> IntArray | None:
        """Return the best assignment [N, V] of each row, with a reward for every wrong label."""
        log_phi = self.parameters.log_phi(theta)
        found = []
        size = max(1, _CHUNK_ENTRIES // max(1, self.graph.structure.num_entries))
        for n in range(0, len(self.states), size):
            if n and clock.stopped:
                return None
            rows = self.states[n : n + size]
            unaries = np.where(self._is_own(rows), 0.0, np.where(self._of_given(), -np.inf, reward))
            values = np.hstack((np.broadcast_to(log_phi, (len(rows), len(log_phi))), unaries))
            found.append(self._solved(values, clock))
        return np.concatenate(found)

    def _is_own(self, rows: IntArray) -> FloatArray:
        """Return [n, X] whether a state is the value of its variable in the row."""
        s = self.parameters.graph.structure
        own = np.zeros((len(rows), int(s.state_ptr[-1])), bool)
        np.put_along_axis(own, s.state_ptr[:-1] + rows, True, axis=1)
        return own

    def _of_given(self) -> FloatArray:
        """Return [X] whether a state belongs to a given variable."""
        return np.repeat(self.is_given, self.parameters.graph.structure.card)

    def _solved(self, values: FloatArray, clock: Clock) -> IntArray:
        if self.batch is not None:
            import torch

            log_tables = torch.from_numpy(np.ascontiguousarray(values.T))
            states: IntArray = self.batch.best(log_tables)[1].T.numpy()
            return states
        graphs = [self.graph.with_potentials(row, log=True) for row in values]
        results = solve(graphs, "MAP", self.solver)
        if not all(result.answered for result in results):
            raise SolveError(f"{self.solver} found no assignment for a row. Use another solver, or raise memory_limit.")
        return np.array([result.assignment for result in results])
