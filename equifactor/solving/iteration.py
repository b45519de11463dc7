"""The loop of the iterative solvers: graphs run in batches, and each graph of a batch stops on its own.

A graph *settles* when no message changes by more than the tolerance, or when a message is NaN. Its state is then saved.
The graph stays in its batch until that has cost about as much as starting a new batch without it, and is removed. So no
batch costs more than twice the least possible, and every graph gets the iterations, messages and answers that it would
get alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.clock import NotCompiledError, TimeIsUp
from equifactor.base.cores import Crew, crew_size
from equifactor.base.status import Status, Task
from equifactor.graph import compile
from equifactor.graph.kinds import kinds_with
from equifactor.graph.repeated_graph import RepeatedGraph, any_zeros, share_structure
from equifactor.graph.structured_factor import TABLE
from equifactor.solving.estimate import Estimate, in_order
from equifactor.solving.solver import Ending, IterativeSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph

State = TypeVar("State")
_PAIRS, _RATIOS, _OTHERS = 0, 1, 2  # Sorts of graphs for which engines have fast paths, and all others.
# An iteration is not started if it would end this much after the deadline. It is half of the second by which a run may
# exceed its limit (`evaluation.jobs`).
_LATE_SECONDS = 0.5


class Iteration(Generic[State]):
    """A batch of graphs while it is iterated."""

    def __init__(
        self, solver: IterativeSolver[State], graphs: Sequence[FactorGraph], task: Task, context: SolveContext,
        known: dict[tuple[int, ...], FlatGraph[np.ndarray]] | None = None,
    ) -> None:  # fmt: skip
        """Compile the graphs and start.

        Args:
            solver: the method.
            graphs: the graphs of the batch.
            task: what is asked for.
            context: the context of the run.
            known: compiled batches by the structures of their graphs; this one is added.
        """
        self.solver, self.task, self.context = solver, task, context
        self.flat: FlatGraph[np.ndarray] = compile(graphs) if known is None else _compiled(graphs, known)
        self.whole = self.state = solver.init(self.flat, task, context)
        self.members: IntArray = np.arange(len(graphs))  # The graphs in `state`, by their number in the batch.
        self.moves: BoolArray = np.ones(len(graphs), bool)  # Which of `members` have not settled.
        self.settled: list[tuple[IntArray, Any]] = []  # Settled graphs, and their part of the state.
        self.residual = np.full(len(graphs), np.inf)
        self.iterations = np.zeros(len(graphs), np.int64)
        self.done, self.look, self.wait = 0, 0, 1
        self.each = 0.0  # The seconds of one iteration.
        ptr = self.flat.graph_ptr
        self.size: IntArray = 1 + np.diff(ptr["states"]) + np.diff(ptr["entries"])  # What an iteration costs, roughly.
        self.idle = 0  # What the settled graphs in `state` have cost since they settled.
        self.over = solver.iterations == 0

    def go_on(self, part: Clock) -> None:
        """Iterate until all graphs have settled, a limit is reached, or the clock of this share of the time stops."""
        clock, most = self.context.clock, self.solver.iterations
        while not self.over and not part.stopped:
            if self.done == self.look:
                # The number of iterations between checks of the residual does not depend on the clock, so that the same
                # call gives the same answer on a busy machine. It grows with the iterations done, which keeps the cost
                # of checks low. Convergence is noticed at most an eighth too late.
                self.look = min(self.done + self.wait, most)
            if self.each >= clock.left + _LATE_SECONDS:
                self.over = True
                return
            seconds = min(CALL_SECONDS, part.left)
            count = min(self.look - self.done, max(1, int(seconds / max(self.each, 1e-9))))
            start = clock.working
            try:
                residual = self.solver.step(self.state, count)
            except NotCompiledError:  # No iteration can be made without its kernels.
                raise
            except TimeIsUp:  # The state is that of the last complete iteration.
                self.over = True
                return
            self.each = (clock.working - start) / count
            self.done += count
            if self.context.progress is not None:  # Formatting the note is slow for small graphs.
                self.context.report(self.done, most, f"change {residual.max(initial=0.0):.1e}")
            self._note(residual)

    def _note(self, residual: FloatArray) -> None:
        """Save how far the last update moved each graph; if a check is due, find the graphs that have settled."""
        moving = self.members[self.moves]
        self.residual[moving] = residual[self.moves]
        self.iterations[moving] = self.done
        if self.done < self.look:
            return
        self.wait = max(1, min(2 * self.wait, self.done // 8))
        go_on = self.moves & (residual > self.solver.tolerance)  # A graph with NaN stops; the others go on.
        self.over = self.done >= self.solver.iterations or not go_on.any()
        if not self.over and len(self.members) > 1:
            self._leave_behind(go_on)

    def _leave_behind(self, go_on: BoolArray) -> None:
        """Save the graphs that have settled; if it pays, make a new batch of the others."""
        settled = self.moves & ~go_on
        if settled.any():
            part = self.solver.take(self.state, np.flatnonzero(settled))
            if part is None:  # The state cannot be divided: all graphs go on until the last one has settled.
                return
            self.settled.append((self.members[settled], part))
            self.solver.rest(self.state, np.flatnonzero(settled))
            self.moves = go_on
        size = self.size[self.members]
        self.idle += self.wait * int(size[~go_on].sum())  # What they will cost until the next check.
        if self.idle < self.solver.narrowing * size[go_on].sum():
            return
        part = self.solver.take(self.state, np.flatnonzero(go_on))
        self.members, self.moves, self.idle = self.members[go_on], np.ones(np.count_nonzero(go_on), bool), 0
        smaller = self.flat.subset(self.members) if isinstance(self.flat, RepeatedGraph) else None
        smaller = smaller or compile([self.flat.graphs[n] for n in self.members.tolist()])
        self.state = self.solver.init(smaller, self.task, self.context)
        self.solver.put(self.state, np.arange(len(self.members)), part)

    def end(self) -> Ending:
        """Put every graph back into `whole`, as it was when it settled or the loop ended; return how it ended."""
        if self.state is not self.whole:
            at = np.flatnonzero(self.moves)
            self.settled.append((self.members[at], self.solver.take(self.state, at)))
            self.state = self.whole
        for graphs, part in self.settled:
            self.solver.put(self.whole, graphs, part)
        self.settled = []
        tolerance, clock = self.solver.tolerance, self.context.clock
        stopped = clock.status or Status.TIME_LIMIT if self.done < self.solver.iterations else Status.ITERATION_LIMIT
        # Looking up enum members is slower than the comparisons.
        converged, non_finite = Status.CONVERGED, Status.NON_FINITE
        status = [
            converged if r <= tolerance else stopped if r > tolerance else non_finite  # NaN is neither.
            for r in self.residual.tolist()
        ]
        return Ending(status, self.residual, self.iterations.tolist(), clock)

    def answers(self) -> Sequence[Estimate]:
        """Return one estimate per graph."""
        ending = self.end()
        return self.solver.finish(self.flat, self.whole, self.task, ending)


def run_in_batches(
    solver: IterativeSolver[Any], graphs: Sequence[FactorGraph], task: Task, context: SolveContext
) -> Sequence[Estimate]:
    """Return one estimate per graph, from batches that threads share.

    Under a time limit each batch gets a share of the time left. Batches that need more go on after all others had
    their share.
    """
    batches = _batches(graphs, solver.batch_size(context))
    size = crew_size(context.threads, len(batches)) if solver.side_by_side(context) else 1
    own = context if len(batches) == 1 else replace(context, progress=None, threads=1 if size > 1 else context.threads)
    found: list[tuple[list[int], Sequence[Estimate]]] = []
    waiting: list[tuple[list[int], Iteration[Any] | None]] = [(batch, None) for batch in batches]
    known: list[dict[tuple[int, ...], FlatGraph[np.ndarray]]] = [{} for _ in range(size)]

    def advance(thread: int, k: int, _: int) -> None:
        """Iterate a waiting batch until it is over or had its share of the time."""
        batch, begun = waiting[k]
        run = begun or Iteration(solver, [graphs[n] for n in batch], task, own, known[thread])
        share = size * len(batch) / sum(len(other) for other, _ in waiting[k:])
        run.go_on(context.clock if share >= 1.0 else context.clock.part(share))
        if run.over or context.clock.stopped:
            found.append((batch, run.answers()))
        else:
            later[k] = batch, run
        if thread == 0 and len(batches) > 1:
            context.report(sum(len(done) for done, _ in found), len(graphs))

    with Crew(size) as crew:
        while waiting:
            later: dict[int, tuple[list[int], Iteration[Any] | None]] = {}
            crew.divide(len(waiting), 1, advance)
            waiting = [later[k] for k in sorted(later)]
    return in_order(found)


def _compiled(
    graphs: Sequence[FactorGraph], known: dict[tuple[int, ...], FlatGraph[np.ndarray]]
) -> FlatGraph[np.ndarray]:
    """Return the compiled graphs; of consecutive batches with the same structures only the first is compiled."""
    if any(graph.observed is not None for graph in graphs):
        return compile(graphs)
    key = tuple(id(graph.structure) for graph in graphs)
    if key not in known:
        known.clear()
        known[key] = compile(graphs)
        return known[key]
    flat = known[key]
    return replace(flat.with_log_phi(flat.pack([graph.log_phi for graph in graphs])), graphs=tuple(graphs))


def _batches(graphs: Sequence[FactorGraph], most: float) -> list[list[int]]:
    """Return batches of graph numbers: graphs of one sort together, with at most `most` edges and entries in a batch.

    Engines have fast paths for graphs of one sort. One graph of another sort would close them to the whole batch.
    """
    numbers = list(range(len(graphs)))
    if most == math.inf or len(graphs) == 1:
        return [numbers]
    known: dict[int, int] = {}  # Graphs often share their structure.
    if share_structure(graphs) and not any_zeros(graphs):
        sorts = [_sort_of(graphs[0], known)] * len(graphs)
    else:
        sorts = [_sort_of(graph, known) for graph in graphs]
    sizes = [graph.structure.num_edges + graph.structure.num_entries for graph in graphs]
    batches: list[list[int]] = []
    size, sort = 0, -1
    for n in sorted(numbers, key=sorts.__getitem__):
        # Iterations of ratio kernels are so cheap that settled graphs should not stay in a batch.
        if sorts[n] != sort or size + sizes[n] > (most / 8 if sort == _RATIOS else most):
            batches.append([])
            size, sort = 0, sorts[n]
        batches[-1].append(n)
        size += sizes[n]
    return batches


def _sort_of(graph: FactorGraph, known: dict[int, int]) -> int:
    """Return the sort of a graph: pairs of binary variables without zeros, kinds with ratio kernels, or others."""
    structure = graph.structure
    sort = known.get(id(structure))
    if sort is None:
        kinds = structure.kinds
        of_tables = structure.arity if kinds is None else structure.arity[kinds.kind == TABLE]
        largest = of_tables.max(initial=0)
        binary = bool((structure.card == 2).all())
        sort = _OTHERS
        if binary and kinds is None and largest <= 2:
            sort = _PAIRS
        elif binary and kinds is not None and largest <= 1:
            ratios = kinds_with("has_ratio_kernels", kinds.kind) | (kinds.kind == TABLE)
            sort = _RATIOS if ratios.all() else _OTHERS
        known[id(structure)] = sort
    return _OTHERS if sort == _PAIRS and np.isneginf(graph.log_phi).any() else sort
