"""The k best assignments of a planned graph: one upward pass of maxima, then k rows against the order of elimination.

The upward pass gives the best completion of every partial assignment exactly. A row is a partial assignment of the
variables that are eliminated last, and its score is that of its best completion. The next cluster extends every row by
every state of its variable, and the k rows with the highest scores are kept. So no table holds more than one score per
entry, and k matters to the second step alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from equifactor.base.status import Task
from equifactor.kernels.readiness import plain_is_better, uses_kernels
from equifactor.solvers.elimination.eliminate import maximise_up
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.plain_elimination import ClusterTree

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.elimination.plan import Plan

ROUNDING = 1e-10  # Scores that differ by this share of their size count as equal: 1e5 times the rounding of a sum.


class BestRows(NamedTuple):
    """The best assignments of a planned graph."""

    states: IntArray  # [n, V] over the variables of the planned graph, auxiliary ones included; the best first
    scores: FloatArray  # [n] log scores
    complete: bool  # whether every assignment whose score equals that of the last one is among them


class _UpwardPass(Protocol):
    """The tables of an upward pass of maxima."""

    score: float | None  # the best log score; None when the clock stopped the work

    def rows(self, n: int, x: IntArray) -> FloatArray:
        """Return the scores [d, m] of the states of cluster n, given columns of states x [v, m] by cluster."""


def best_rows(steps: Plan, count: int, extra: int, clock: Clock) -> BestRows | None:
    """Return the `count` best assignments with positive probability, or all if there are fewer.

    Up to `extra` further assignments that tie with the last one are returned too. None when the clock stopped the work.
    Cost: one MAP with the memory of marginals, then O(v k d) numbers for v clusters of d states.
    """
    order = steps.found
    assert isinstance(order, Order)
    original = steps.reduced.original
    upward = _upward(steps, clock)
    if upward.score is None:
        return None
    if upward.score == -math.inf:
        return BestRows(np.zeros((0, original.num_vars), np.int64), np.zeros(0), True)
    dim = steps.reduced.graph.card[order.variables].tolist()
    tolerance = ROUNDING * max(1.0, abs(upward.score))
    x = np.zeros((len(dim), 1), np.int64)
    scores = np.array([upward.score])
    dropped = -math.inf  # the highest score of the rows that were dropped although they tie with a kept one
    with np.errstate(invalid="ignore"):
        for n in range(len(dim) - 1, -1, -1):
            if clock.stopped:
                return None
            rows = upward.rows(n, x)
            extended = (scores + (rows - rows.max(0))).ravel()
            kept = np.flatnonzero(extended > -np.inf)
            if len(kept) > count:
                least = np.partition(extended[kept], len(kept) - count)[len(kept) - count] - tolerance
                kept = kept[extended[kept] >= least]
                if len(kept) > count + extra:
                    ranked = kept[np.argsort(-extended[kept], kind="stable")]
                    dropped = max(dropped, float(extended[ranked[count + extra]]))
                    kept = np.sort(ranked[: count + extra])
            state, row = np.divmod(kept, x.shape[1])
            x = x[:, row]
            x[n] = state
            scores = extended[kept]
    best = np.argsort(-scores, kind="stable")
    states = np.empty((len(best), len(dim)), np.int64)
    states[:, order.variables] = x.T[best]
    last = scores[best[min(count, len(best)) - 1]]
    return BestRows(steps.reduced.assignment(states), scores[best], bool(dropped < last - tolerance))


def _upward(steps: Plan, clock: Clock) -> _UpwardPass:
    """Make the upward pass, in plain NumPy if it ends sooner than kernels are loaded."""
    if not uses_kernels("elimination") and plain_is_better(
        steps.plain_seconds(Task.MAP), steps.seconds(Task.MAP), "elimination"
    ):
        return _PlainPass(steps, clock)
    return _KernelPass(steps, clock)


class _PlainPass:
    """The upward pass in plain NumPy."""

    def __init__(self, steps: Plan, clock: Clock) -> None:
        graph = steps.reduced.graph
        assert isinstance(steps.found, Order)
        tree = ClusterTree(graph.structure, steps.found, graph.log_phi, clock)
        with np.errstate(all="ignore"):
            self.score = tree.maximise(keep=True)
        self.rows = tree.rows


class _KernelPass:
    """The upward pass by the kernels of elimination."""

    def __init__(self, steps: Plan, clock: Clock) -> None:
        self._program = program = steps.program
        found = maximise_up(program, steps.reduced.graph.log_phi, clock, reuse=False)
        self.score = None if found is None else found.score
        if found is not None:
            self._start, self._arena = found.start, found.arena

    def rows(self, n: int, x: IntArray) -> FloatArray:
        """Return the scores [d, m] of the states of cluster n, given columns of states x [v, m] by cluster."""
        c = self._program.clusters
        separator = self._program.separators[c.sep_ptr[n] : c.sep_ptr[n + 1]]
        operands = c.in_op[c.in_ptr[n] : c.in_ptr[n + 1]]
        strides = c.strides[c.stride_ptr[n] : c.stride_ptr[n + 1]].reshape(len(operands), len(separator))
        first = self._start[operands][:, None] + strides @ x[separator]
        return self._arena[first[:, None] + np.arange(c.dim[n])[:, None]].sum(0)
