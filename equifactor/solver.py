"""What a solver is, and the one loop that runs the iterative ones."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

import numpy as np

from equifactor.clock import Clock
from equifactor.errors import OptionError
from equifactor.options import check_options, format_solver, option
from equifactor.result import Estimate, Status, Task

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.typing import FloatArray

Symmetry = Literal["global", "local variable", "variable assignment"]
ALL_SYMMETRIES: frozenset[Symmetry] = frozenset(("global", "local variable", "variable assignment"))
# A function that is told how much is done, of how much (None where that is unknown), and a note.
Progress = Callable[[int, int | None, str], None]
State = TypeVar("State")
_BURST_SECONDS = 0.02  # A call of `step` aims to take less time than this.
_LATE_SECONDS = 0.5  # An iteration that would end later than this after the deadline is not begun.


@dataclass(frozen=True, kw_only=True)
class SolveContext:
    """The circumstances of one call of `solve`, the same for every solver."""

    clock: Clock = field(default_factory=Clock)
    seed: int = 0
    device: str = "cpu"
    dtype: Literal["float32", "float64"] = "float64"
    progress: Progress | None = None

    def report(self, done: int, total: int | None, note: str = "") -> None:
        """Tell the progress bar, if there is one; this is cheap enough for every iteration."""
        if self.progress is not None:
            self.progress(done, total, note)


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A method with its settings. Subclasses are frozen dataclasses whose fields are made by `option`."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]] = (Task.MAR, Task.PR, Task.MAP)
    symmetries: ClassVar[frozenset[Symmetry]] = ALL_SYMMETRIES  # The answers respect these, ties aside.
    exact_on: ClassVar[Literal["all", "trees", "none"]] = "none"  # Solved answers are exact on these graphs.
    any_kind: ClassVar[bool] = False  # Whether it takes factors of every kind; others get tables in their place.
    finds_zeros: ClassVar[bool] = (
        False  # Whether it looks for impossible states itself; others get graphs without them.
    )
    takes: ClassVar[str] = ""  # Which graphs it takes, where not all; others raise `ModelError`.

    def __post_init__(self) -> None:
        check_options(self)

    def __str__(self) -> str:
        return format_solver(self)

    @classmethod
    def take_name(cls, name: str) -> None:
        """Take the name under which the class is registered; `register` calls it."""
        cls.name = name

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
    iterations: int


@dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver, Generic[State]):
    """A fixed-point iteration on the compiled batch: `init`, `step` until it settles, `finish`.

    The loop owns convergence, limits, deadline, interrupt and progress; a method only states its formulae.
    """

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

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Compile the graphs, iterate and finish."""
        from equifactor.graph import compile

        flat = compile(graphs)
        state = self.init(flat, task, context)
        ending = self._iterate(state, flat.num_graphs, context)
        return self.finish(flat, state, task, ending)

    def _iterate(self, state: State, num_graphs: int, context: SolveContext) -> Ending:
        residual = np.full(num_graphs, np.inf)
        clock, done, each, wait = context.clock, 0, 0.0, 1
        left = clock.left
        while done < self.iterations and left > 0.0:
            # The next look at the residual is after a number of iterations that does not depend on the clock, so that
            # the same call gives the same answer on a busy machine. It grows with what was done: the fixed cost of a
            # look is spread, and convergence is noticed an eighth late at most.
            look = min(done + wait, self.iterations)
            while done < look and left > 0.0 and each < left + _LATE_SECONDS:
                count = min(look - done, max(1, int(_BURST_SECONDS / max(each, 1e-9))))
                start = clock.seconds  # It stands still while kernels compile.
                residual = self.step(state, count)
                each = (clock.seconds - start) / count
                done += count
                left = clock.left
                if context.progress is not None:  # Small graphs feel the price of the note.
                    context.report(done, self.iterations, f"change {residual.max(initial=0.0):.1e}")
            if done < look:
                break
            if not (residual > self.tolerance).any():  # A graph that went to NaN is over, the others go on.
                break
            wait = max(1, min(2 * wait, done // 8))
        otherwise = context.clock.status or Status.TIME_LIMIT if done < self.iterations else Status.ITERATION_LIMIT
        converged, non_finite = Status.CONVERGED, Status.NON_FINITE  # Looking them up costs more than the rest.
        status = [
            converged if r <= self.tolerance else otherwise if r > self.tolerance else non_finite  # NaN is neither.
            for r in residual.tolist()
        ]
        return Ending(status, residual, done)
