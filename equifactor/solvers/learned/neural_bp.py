"""Networks that improve belief propagation as solvers: their answers are compared with those of BP."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from equifactor.base.errors import OptionError
from equifactor.base.options import option
from equifactor.base.status import Task
from equifactor.solvers.learned.learned_solver import NeuralSolver
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    import numpy as np

    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.solvers.learned.best_assignments import Member
    from equifactor.solvers.learned.learned_solver import Run
    from equifactor.solving.solver import IterativeSolver, SolveContext

_DAMPING = 0.5  # The default damping of an untrained network, which is the default of its settings.
# Steps of a MAP run that keeps its best assignment. On the public models for training, fe-net has an error of .0017 on
# DBN and .0059 on Grids after 100 steps, and .011 and .013 after the 16 steps of its training.
_MAP_STEPS = 100
_BP_ITERATIONS = 200  # Iterations of BP in a MAP run: the default of `bp`.


@dataclass(frozen=True, kw_only=True)
class NeuralBP(NeuralSolver):
    """A solver whose network improves the messages of belief propagation."""

    starts_as_bp = True

    damping: float = option(_DAMPING, "damping of the untrained network", low=0.0, below=1.0)
    decode: Literal["argmax", "sequential"] = option(
        "argmax", "MAP: decode each variable alone, or factor by factor so that choices agree"
    )
    alone: bool = option(False, "answer with the last step of the network, without a comparison with BP")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.damping != _DAMPING and not self.untrained:
            raise OptionError(
                f"{self.name}: damping has an effect only together with untrained. A trained network chooses its own "
                "damping."
            )
        if self.decode != "argmax":  # Sequential decoding goes through the factors in their order.
            object.__setattr__(self, "symmetries", self.symmetries - {"global"})

    def untrained_settings(self) -> dict[str, Any]:
        """Return the damping it starts with."""
        return {"damping": self.damping}

    def keeps_best(self, task: Task) -> bool:
        """Return whether a run keeps the best assignment that it has seen; an untrained network is BP itself."""
        return task is Task.MAP and not self.alone and not self.untrained

    def judged(
        self, own: list[Estimate], graphs: Sequence[FactorGraph], task: Task, context: SolveContext
    ) -> list[Estimate]:
        """Return estimates of marginals after a comparison with BP; by default return them as they are."""
        return own

    def members(self) -> list[IterativeSolver[Any]]:
        """Return the solvers that run before the network for MAP, so that no answer is worse than theirs."""
        from equifactor.solvers.messages.bp import BeliefPropagation

        return [BeliefPropagation(damping=_DAMPING, iterations=_BP_ITERATIONS, decode=self.decode)]

    def other_members(self) -> list[Member]:
        """Return further members, which are no solvers of their own."""
        return []

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Solve all graphs; for MAP return the best parts of the assignments of the network and its members.

        Marginals and ln Z are those of the network as far as `judged` trusts it.
        """
        if not self.keeps_best(task):
            own = super().run(graphs, task, context)
            return own if self.alone or self.untrained or task is Task.MAP else self.judged(own, graphs, task, context)
        from equifactor.solvers.learned.best_assignments import best_of, combined, run_members

        self.check_task(task)
        others = run_members([*self.members(), *self.other_members()], graphs, context)
        late = context.clock.status if others else None  # The members have answers.
        own = super().run(graphs, task, context) if late is None else [Estimate(status=late) for _ in graphs]
        best = [best_of(graph, own[n], [(text, found[n]) for text, found in others]) for n, graph in enumerate(graphs)]
        return combined(graphs, best, [own, *(found for _, found in others)])

    def init(self, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> Run:
        """Return the network before its first step, with a record of its best assignments for MAP."""
        state = super().init(flat, task, context)
        if self.keeps_best(task):
            from equifactor.solvers.learned.best_assignments import BestAssignments

            state.best = BestAssignments(flat)
        return state

    def _with_steps(self, task: Task, context: SolveContext) -> Self:
        """Return the solver with `iterations` set; a run that keeps its best assignment makes more steps."""
        if self.iterations or not self.keeps_best(task):
            return super()._with_steps(task, context)
        return dataclasses.replace(self, iterations=max(_MAP_STEPS, self.network(task, context).config.steps))

    def states(self, state: Run) -> IntArray:
        """Return the states [V] of the MAP assignment, decoded as the setting `decode` says."""
        if self.decode == "argmax":
            return state.best_states()
        from equifactor.solvers.messages.sequential_decoding import sequential_states

        return sequential_states(state.compiled, state.messages())
