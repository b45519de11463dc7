"""Max-product with reweighted messages, which finds better assignments than max-product on dense models.

In max-product each message counts once at its variable. In dense models the same evidence comes back along many short
loops and counts many times. Here a message counts rho times at the messages that pass on from its variable, with
rho < 1, as in tree-reweighted max-product [Wainwright05], but with one rho for all factors. All messages are updated
at once, so the answer does not depend on the order of variables, factors and states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.status import Status, Task
from equifactor.graph import compile
from equifactor.solvers.learned.best_assignments import BestAssignments
from equifactor.solvers.messages.bp_engine import BpSettings
from equifactor.solvers.messages.plain_engine import PlainEngine, applies_to, plain_bp_seconds
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.solving.solver import SolveContext

_ITERATIONS = 120  # Iterations for each rho at most: the best assignments of eight dense models come after 7 to 120.
_LOOK_EVERY = 4  # Iterations from one look at the assignment to the next. Chosen by hand.
_SETTINGS = BpSettings("max", "parallel", 0.5, 1e-6, 0)
_MOST_SECONDS = 20.0  # Reference seconds of all iterations at most: larger batches get no answer. Chosen by hand.


class ReweightedEngine(PlainEngine):
    """The plain engine with max-product messages that count `rho` times where they are passed on."""

    def __init__(self, flat: FlatGraph[np.ndarray], rho: float) -> None:
        super().__init__(flat, _SETTINGS)
        self.rho = rho

    def _sums_of_others(self, total: FloatArray, zeros: FloatArray | None) -> FloatArray:
        """Return variable-to-factor messages [S]: rho times the sum of all messages, less the own one."""
        if zeros is None:
            return self.rho * total[self.state] - self.msg
        zero = np.isneginf(self.msg)
        others = self.rho * total[self.state] - np.where(zero, 0.0, self.msg)
        return np.where(zeros[self.state] > zero, -np.inf, others)


@dataclass(frozen=True)
class ReweightedMax:
    """Reweighted max-product for several values of rho; it answers MAP with the best parts of all assignments.

    On 27 public models of object detection for training the mean error of max-product is .025. With rho = .45 alone it
    is .0005, with .7, .5 and .4 together .0002.
    """

    rhos: tuple[float, ...] = (0.7, 0.5, 0.4)

    def __str__(self) -> str:
        return "reweighted max-product"

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Return the best assignment of each graph; its status is `too-large` where plain NumPy would be too slow."""
        flat = compile(graphs)
        seconds = plain_bp_seconds(flat, _ITERATIONS * len(self.rhos)) if applies_to(flat) else np.inf
        if context.device != "cpu" or seconds > _MOST_SECONDS:
            return [Estimate(status=Status.TOO_LARGE) for _ in graphs]
        best = BestAssignments(flat)
        for rho in self.rhos:
            self._pass(ReweightedEngine(flat, rho), best, context)
        status = context.clock.status or Status.ITERATION_LIMIT
        assignments = flat.assignments(best.states)
        return [
            Estimate(status=status, assignment=assignments[n] if best.score[n] > -np.inf else None)
            for n in range(len(graphs))
        ]

    def _pass(self, engine: ReweightedEngine, best: BestAssignments, context: SolveContext) -> None:
        for _ in range(0, _ITERATIONS, _LOOK_EVERY):
            if context.clock.stopped:
                return
            change = engine.sweep(_LOOK_EVERY)
            best.note(engine.answers().states)
            if change.max(initial=0.0) <= _SETTINGS.tolerance:
                return
