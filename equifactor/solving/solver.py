"""What a solver is; those that iterate state their formulae, and one loop runs them."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.options import check_options, format_method, option
from equifactor.base.run_context import Progress as Progress
from equifactor.base.run_context import RunContext
from equifactor.base.status import Status, Task
from equifactor.graph.kinds import has_kernels
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph

Symmetry = Literal["global", "local variable", "variable assignment"]
ALL_SYMMETRIES: frozenset[Symmetry] = frozenset(("global", "local variable", "variable assignment"))
State = TypeVar("State")
BATCH_SIZE = 2.0**16  # Edges and table entries of graphs that are iterated together on a CPU.


@dataclass(frozen=True, kw_only=True)
class SolveContext(RunContext):
    """The circumstances of one call of `solve`, the same for every solver."""

    device: str = "cpu"
    dtype: Literal["float32", "float64"] = "float64"


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A method with its settings. Subclasses are frozen dataclasses whose fields are made by `option`."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]] = (Task.MAR, Task.PR, Task.MAP)
    symmetries: ClassVar[frozenset[Symmetry]] = ALL_SYMMETRIES  # The answers respect these, ties aside.
    exact_on: ClassVar[Literal["all", "trees", "none"]] = "none"  # Solved answers are exact on these graphs.
    any_kind: ClassVar[bool] = False  # Whether it takes structured factors as they are; see `takes_kinds_of`.
    finds_zeros: ClassVar[bool] = (
        False  # Whether it looks for impossible states itself; others get graphs without them.
    )
    takes: ClassVar[str] = ""  # Which graphs it takes, where not all; others raise `ModelError`.

    def __post_init__(self) -> None:
        check_options(self)

    def __str__(self) -> str:
        return format_method(self)

    @classmethod
    def take_name(cls, name: str) -> None:
        """Take the name under which the class is registered; `register` calls it."""
        cls.name = name

    @classmethod
    def takes_kinds_of(cls, graph: FactorGraph) -> bool:
        """Return whether the solver takes all factors of a graph as they are; `lower` replaces the others by tables.

        A solver that takes any kind takes those that the compiled kernels know.
        """
        kinds = graph.structure.kinds
        return kinds is None or (cls.any_kind and has_kernels(kinds.kind))

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot run on this machine, in a sentence that says what to install; None when it can."""
        return None

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    def check_task(self, task: Task) -> None:
        """Raise `OptionError` with one sentence where it cannot do the task."""
        if task not in self.tasks:
            raise OptionError(f"{self.name} cannot do {task}; it does {', '.join(self.tasks)}")

    def possible_tasks(self) -> list[Task]:
        """The tasks that it can do with its settings: a model file holds weights for one or two of them."""
        possible = []
        for task in self.tasks:
            with contextlib.suppress(OptionError):
                self.check_task(task)
                possible.append(task)
        if not possible:
            self.check_task(self.tasks[0])  # The error says why there is none.
        return possible

    def fingerprint(self) -> str:
        """A hash of the files it reads, which its text form leaves open; empty where it reads none."""
        return ""

    @abstractmethod
    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """One estimate per graph, over the graph's original variables."""


class GraphSolver(Solver):
    """A solver that works on one graph at a time."""

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Solve the graphs one after the other, under one clock."""
        answers = []
        for n, graph in enumerate(graphs):
            answers.append(self.run_one(graph, task, context))
            if len(graphs) > 1:
                context.report(n + 1, len(graphs))
        return answers

    @abstractmethod
    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """The estimate for one graph."""


@dataclass(frozen=True)
class Ending:
    """How the loop ended for each graph of a batch."""

    status: list[Status]  # [G]
    residual: FloatArray  # [G] the change of the last, undamped update.
    iterations: list[int]  # [G]


@dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver, Generic[State]):
    """A fixed-point iteration on a compiled batch: `init`, `step` until it settles, `finish`.

    The loop (`iteration.py`) owns convergence, limits, deadline, interrupt and progress; a method only states its
    formulae. Where it also says what its state holds of a graph, by `take` and `put`, graphs that have settled leave
    their batch; otherwise a batch goes on until its last graph has.
    """

    narrowing: ClassVar[float] = 16.0  # To begin a batch costs about as much as this many iterations.

    iterations: int = option(200, "most iterations", low=0)
    tolerance: float = option(1e-6, "stop when no message changes by more, in probability", low=0.0)

    @abstractmethod
    def init(self, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> State:
        """The state before the first iteration, on the device and in the type this method computes in."""

    @abstractmethod
    def step(self, state: State, count: int) -> FloatArray:
        """Advance the state by `count` iterations; [G] how far the last *undamped* update moved each graph."""

    @abstractmethod
    def finish(self, flat: FlatGraph[np.ndarray], state: State, task: Task, ending: Ending) -> list[Estimate]:
        """The answers from the last state, one per graph."""

    def take(self, state: State, graphs: IntArray) -> Any:
        """A copy of what the state holds of some graphs, by number, ascending; None where it cannot be divided."""
        return None

    def put(self, state: State, graphs: IntArray, part: Any) -> None:
        """Set what the state holds of some graphs to what `take` gave for them, from this state or another one."""
        raise NotImplementedError(f"{self.name} has take without put")

    def rest(self, state: State, graphs: IntArray) -> None:
        """Be told that some graphs have settled and been taken: what the state holds of them no longer counts."""

    def batch_size(self, context: SolveContext) -> float:
        """Edges and table entries of the graphs that are iterated together: more no longer fit into near caches."""
        return BATCH_SIZE

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Compile the graphs in batches, iterate and finish."""
        from equifactor.solving.iteration import run_in_batches

        return run_in_batches(self, graphs, task, context)

    def settle(
        self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext
    ) -> tuple[FlatGraph[np.ndarray], State, Ending]:
        """Compile the graphs and iterate as one batch: the batch, its last state, and how that came about."""
        from equifactor.solving.iteration import Iteration

        run = Iteration(self, graphs, task, context)
        run.go_on(context.clock)
        return run.flat, run.whole, run.end()
