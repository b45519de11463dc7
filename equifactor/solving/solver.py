"""The base classes of solvers. Iterative solvers state their formulae, and one loop runs them."""

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
from equifactor.base.status import PLAIN_TASKS, Status, Task
from equifactor.graph.kinds import has_kernels
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph

Symmetry = Literal["global", "local variable", "variable assignment"]
ALL_SYMMETRIES: frozenset[Symmetry] = frozenset(("global", "local variable", "variable assignment"))
State = TypeVar("State")
# Edges and table entries of graphs that are iterated together on a CPU: about the size of near caches.
BATCH_SIZE = 2.0**16


@dataclass(frozen=True, kw_only=True)
class SolveContext(RunContext):
    """What one call of `solve` gives to every solver: clock, seed, progress, device and float type."""

    device: str = "cpu"
    dtype: Literal["float32", "float64"] = "float64"
    threads: int | None = 1  # of the CPU, for solvers that can use several; None for all cores that are free
    query: IntArray | None = None  # for MMAP, the variables to maximise over; the others are summed out


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A method with its settings. Subclasses are frozen dataclasses whose fields are made by `option`."""

    name: ClassVar[str] = "unregistered"
    tasks: ClassVar[tuple[Task, ...]] = PLAIN_TASKS
    maximises_query: ClassVar[bool] = False  # Whether it does MMAP too, for the variables of `SolveContext.query`.
    symmetries: ClassVar[frozenset[Symmetry]] = ALL_SYMMETRIES  # Those that the answers respect, except for ties.
    exact_on: ClassVar[Literal["all", "trees", "none"]] = "none"  # The graphs on which solved answers are exact.
    any_kind: ClassVar[bool] = False  # Whether it takes structured factors as they are; see `takes_kinds_of`.
    finds_zeros: ClassVar[bool] = False  # Whether it finds impossible states; other solvers get graphs without them.
    takes: ClassVar[str] = ""  # The graphs that it takes, if not all; other graphs raise `ModelError`.

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
        """Return why the solver cannot run on this machine, with what to install; None if it can run."""
        return None

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    def check_task(self, task: Task) -> None:
        """Raise `OptionError` if the solver cannot do the task."""
        if task not in self.tasks and not (task is Task.MMAP and self.maximises_query):
            other = " brute, exact and auto do MMAP." if task is Task.MMAP else ""
            raise OptionError(f"{self.name} cannot do {task}. It does {', '.join(self.tasks)}.{other}")

    def possible_tasks(self) -> list[Task]:
        """Return the tasks that it can do with its settings: a model file has weights for one or two tasks."""
        possible = []
        for task in self.tasks:
            with contextlib.suppress(OptionError):
                self.check_task(task)
                possible.append(task)
        if not possible:
            self.check_task(self.tasks[0])  # This error says why no task is possible.
        return possible

    def fingerprint(self) -> str:
        """Return a hash of the files that the solver reads; empty if it reads no file."""
        return ""

    @abstractmethod
    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Return one estimate per graph, over the original variables of the graph."""


class GraphSolver(Solver):
    """A solver that works on one graph at a time."""

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Solve the graphs one after the other, with one clock for all."""
        answers = []
        for n, graph in enumerate(graphs):
            answers.append(self.run_one(graph, task, context))
            if len(graphs) > 1:
                context.report(n + 1, len(graphs))
        return answers

    @abstractmethod
    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return the estimate for one graph."""


@dataclass(frozen=True)
class Ending:
    """How the loop ended for each graph of a batch."""

    status: list[Status]  # [G]
    residual: FloatArray  # [G] the change in the last update, before damping
    iterations: list[int]  # [G]
    clock: Clock | None = None  # of the call, if it may have stopped


@dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver, Generic[State]):
    """A fixed-point iteration on a compiled batch: `init`, `step` until it converges, `finish`.

    The loop (`iteration.py`) handles convergence, limits, deadline, interrupt and progress; a method only states its
    formulae. If it also implements `take` and `put`, graphs that have converged leave their batch. Otherwise a batch
    goes on until its last graph has converged.
    """

    narrowing: ClassVar[float] = 16.0  # Iterations that cost about as much as starting a batch.

    iterations: int = option(200, "most iterations", low=0)
    tolerance: float = option(1e-6, "stop when no message changes by more, in probability", low=0.0)

    @abstractmethod
    def init(self, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> State:
        """Return the state before the first iteration, on the device and in the float type of the method."""

    @abstractmethod
    def step(self, state: State, count: int) -> FloatArray:
        """Advance the state by `count` iterations; return how far the last *undamped* update moved each graph [G]."""

    @abstractmethod
    def finish(self, flat: FlatGraph[np.ndarray], state: State, task: Task, ending: Ending) -> Sequence[Estimate]:
        """Return the answers from the last state, one per graph."""

    def take(self, state: State, graphs: IntArray) -> Any:
        """Return a copy of the state of some graphs, by ascending number; None if the state cannot be divided."""
        return None

    def put(self, state: State, graphs: IntArray, part: Any) -> None:
        """Set the state of some graphs to what `take` returned for them, from this state or another one."""
        raise NotImplementedError(f"{self.name} defines take but not put.")

    def rest(self, state: State, graphs: IntArray) -> None:
        """Note that some graphs have converged and were taken: their part of this state no longer matters."""

    def batch_size(self, context: SolveContext) -> float:
        """Return how many edges and table entries are iterated together: more would not fit near caches."""
        return BATCH_SIZE

    def side_by_side(self, context: SolveContext) -> bool:
        """Return whether threads may iterate batches at the same time: the work must release the GIL."""
        return False

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Compile the graphs in batches, iterate and finish."""
        from equifactor.solving.iteration import run_in_batches

        return run_in_batches(self, graphs, task, context)

    def settle(
        self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext
    ) -> tuple[FlatGraph[np.ndarray], State, Ending]:
        """Compile the graphs and iterate as one batch; return the batch, its last state, and how the loop ended."""
        from equifactor.solving.iteration import Iteration

        run = Iteration(self, graphs, task, context)
        run.go_on(context.clock)
        return run.flat, run.whole, run.end()
