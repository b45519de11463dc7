"""Exact answers for many rows of evidence on one model: planned once, summed out once, sixteen rows at a time."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.budget import Budget, Seconds, planning_work
from equifactor.base.clock import Clock
from equifactor.base.cores import Crew, crew_size
from equifactor.base.errors import ModelError, SolveError
from equifactor.base.status import Task
from equifactor.factors.lowered_graph import lower
from equifactor.graph.factor_graph import as_graph
from equifactor.graph.reading.state_rows import read_numbers
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.eliminate import sum_up
from equifactor.solvers.elimination.exact_batch import plan_structure
from equifactor.solvers.elimination.plan import Plan, format_bytes
from equifactor.solvers.elimination.row_records import RowAnswers, RowLanes, row_lanes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.elimination.program import ClusterTables

_LANES = 16  # The constant LANES of `kernels.lane_vectors`, whose import would load Numba.
_CHUNK_WORK = 2.0**22  # Cluster entries that a thread sums between two checks of the clock, 10 to 60 ms.
_PLAN_SHARE = 0.2  # The share of the time left for the plan. Chosen by hand, as in `auto`.
_NO_TIME = "There is no time to sum out the model for all rows of evidence. Raise the time limit, or solve a row alone."


class EvidenceRows:
    """One model, prepared for thousands of rows of evidence, on any variables in each row.

    A row holds a state for every variable of the graph, -1 where it is free. The elimination is planned once, without
    evidence, and the model without evidence is summed out once. A row then costs only the work that its evidence
    changes, a microsecond on a network of 40 variables. A row of probability zero has ln Z = -inf and
    probabilities of zero.

    Args:
        graph: the model. Structured factors are written as tables by `lower`.
        memory_limit: GiB for all tables and messages.
        clock: the time for planning, summing out and sixteen rows; None for no limit.
        threads: of the CPU, which share the rows; None for all cores that are free.

    Raises:
        SolveError: if the elimination without evidence does not fit the memory limit or the time. If much is observed,
            `solve(graph.condition(row))` may still fit.
    """

    @checks_types("memory_limit")
    def __init__(
        self, graph: FactorGraph, memory_limit: float = 4.0, *, clock: Clock | None = None, threads: int | None = None
    ) -> None:
        self.graph = as_graph(graph)
        clock = clock or Clock()
        budget = Budget(clock)
        before_planning = (Seconds.LOWERING + Seconds.PLAN_START) * graph.structure.num_edges
        if not budget.worth_starting(before_planning, _PLAN_SHARE):
            raise SolveError(_NO_TIME)
        lowered = lower(graph).graph
        self.plan: Plan = plan_structure(lowered, memory_limit, most_work=planning_work(_PLAN_SHARE * clock.left))
        need = rows_memory(self.plan)
        if not self.plan.finished:
            raise SolveError(f"{self.plan.excess(memory_limit)} Raise memory_limit, or solve the rows one by one.")
        if not need <= memory_limit * 2**30:
            raise SolveError(
                f"Rows of evidence need {self.plan.cost}, for {_LANES} rows at a time {format_bytes(need)}, but the "
                f"limit is {format_bytes(memory_limit * 2**30)}. Raise memory_limit, or solve the rows one by one."
            )
        if not budget.worth_starting((1 + _LANES) * self.plan.seconds(Task.MAR)):
            raise SolveError(_NO_TIME)
        self._fixed_columns = np.zeros(0, np.int64)
        each = max(1.0, need - self.plan.memory_for(Task.MAR))
        self._most_threads, self.threads = 1 + int((memory_limit * 2**30 - need) / each), threads
        self._lanes: list[RowLanes] = [row_lanes(self.plan.program, _LANES)]  # of each thread that was used so far
        self._sum_out(lowered.log_phi)

    def with_potentials(self, log_phi: ArrayLike) -> EvidenceRows:
        """Return rows with the same plan and memory for other log tables [T]; use only one of the two at a time."""
        graph = self.graph.with_potentials(log_phi, log=True)
        other = copy.copy(self)
        other.graph = graph
        lowered = lower(graph).graph
        if len(lowered.log_phi) != self.plan.reduced.graph.structure.num_entries:
            raise ModelError("The new tables are lowered to a different structure. Create new EvidenceRows for them.")
        other._sum_out(lowered.log_phi)
        return other

    def log_z(self, states: ArrayLike, *, clock: Clock | None = None) -> FloatArray:
        """Return ln P(e) up to the scale of the model: ln of the sum of all scores that agree with each row.

        Args:
            states: [B, V] states, -1 where free.
            clock: if it stops, the answers [b] of the rows so far are returned.
        """
        rows = read_numbers(self.graph.structure, np.asarray(states), "evidence")
        return self._run(rows, self._answers(len(rows), []), clock)[0]

    def marginals(
        self, states: ArrayLike, targets: ArrayLike | None = None, *, clock: Clock | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities [B, columns] given each row, and ln P(e) [B].

        Args:
            states: [B, V] states, -1 where free.
            targets: variables by number, whose states are the columns, one variable after another; None for all.
            clock: if it stops, the answers of the rows so far are returned.
        """
        wanted = np.arange(self.graph.num_vars) if targets is None else targets
        rows = read_numbers(self.graph.structure, np.asarray(states), "evidence")
        answers = self._answers(len(rows), wanted)
        log_z, p = self._run(rows, answers, clock)
        return p, log_z

    def expected_factors(
        self, states: ArrayLike, weights: ArrayLike | None = None, *, clock: Clock | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return expected counts of every factor's configurations, summed over all rows, and ln P(e) [B].

        Entry t of a factor's table becomes sum_b weight_b p(scope = t | row b), which the E step of EM needs, without a
        table per row. Rows of probability zero add nothing.

        Args:
            states: [B, V] states, -1 where free.
            weights: [B] weight of each row, 1 by default.
            clock: if it stops, the sums over the rows so far are returned with their ln P(e).

        Returns:
            counts [T], laid out as `graph.log_phi`, and log_z [B].

        Raises:
            ModelError: for a graph with structured factors, which have no entries to count.
        """
        from equifactor.solvers.elimination.row_kernels import unfold_groups

        if self.graph.structure.kinds is not None:
            raise ModelError("Expected counts need dense tables. Write structured factors as tables by lower(graph).")
        rows = read_numbers(self.graph.structure, np.asarray(states), "evidence")
        weight = np.ones(len(rows)) if weights is None else np.ascontiguousarray(weights, float)
        if weight.shape != (len(rows),):
            raise ModelError(
                f"weights must hold one weight for each of {len(rows)} rows, but have shape {weight.shape}."
            )
        program = self.plan.program
        expected = np.zeros(int(program.size[: program.num_groups].sum()))
        answers = self._answers(len(rows), [])._replace(
            weight=weight, expected=expected, needed=np.ones(len(program.variables), bool)
        )
        log_z, _ = self._run(rows, answers, clock)
        counts = np.zeros(self.graph.structure.num_entries)
        groups, tables = program.groups, self._shared
        unfold_groups(
            expected, groups.member_ptr, groups.members, groups.steps, groups.step_ptr, groups.table_ptr,
            groups.axis_ptr, groups.axis_dim, tables.start, self._lanes[0].digit, counts,
        )  # fmt: skip
        counts[groups.constants] = weight[: len(log_z)][np.isfinite(log_z)].sum()
        return counts, log_z

    # ---- the work ---------------------------------------------------------------------------------------

    def _sum_out(self, log_phi: FloatArray) -> None:
        """Run the upward pass without evidence, which all rows share."""
        program = self.plan.program
        self._constant = float(log_phi[program.groups.constants].sum())
        found = sum_up(program, log_phi, Clock())
        assert found is not None  # no deadline
        self._possible = found[0] > -math.inf
        self._shared: ClusterTables = found[1]

    def _answers(self, count: int, targets: ArrayLike) -> RowAnswers:
        """Return room for the answers of `count` rows about some variables."""
        s, parent = self.graph.structure, self.plan.program.clusters.parent
        asked = np.asarray(targets, np.int64).reshape(-1)
        in_range = asked.min(initial=0) >= 0 and asked.max(initial=0) < s.num_vars
        if not in_range or len(set(asked.tolist())) < len(asked):
            raise ModelError(
                f"targets must be different variables by number, 0 to {s.num_vars - 1}, but are {asked.tolist()}."
            )
        first = ptr_of(s.card[asked])
        self._fixed_columns = self._columns_of_fixed(asked, first)
        start_of = np.full(self.plan.reduced.original.num_vars, -1)
        start_of[asked] = first[:-1]
        p_start = start_of[self._variables]
        needed = p_start >= 0
        for n in np.flatnonzero(parent >= 0).tolist():
            needed[parent[n]] |= needed[n]
        none = np.zeros(0)
        return RowAnswers(np.empty(count), needed, p_start, np.zeros((count, int(first[-1]))), none, none)

    def _columns_of_fixed(self, asked: IntArray, first: IntArray) -> IntArray:
        """Return the columns of the states in which the graph itself has observed some of the targets."""
        if self.graph.observed is None:
            return asked[:0]
        fixed = self.graph.observed[asked] >= 0
        return first[:-1][fixed] + self.graph.observed[asked[fixed]]

    @property
    def _variables(self) -> IntArray:
        """The variable of the graph that each cluster [v] eliminates; auxiliary variables come last."""
        kept, own = self.plan.reduced.variables, self.plan.program.variables
        return own if kept is None else kept[own]

    def _run(self, rows: IntArray, answers: RowAnswers, clock: Clock | None) -> tuple[FloatArray, FloatArray]:
        """Return ln Z and probabilities of all rows, or of the first ones if the clock stops."""
        from equifactor.solvers.elimination.row_kernels import run_rows

        column = self._variables
        inner = column < self.graph.num_vars
        chunk = _LANES * max(1, int(_CHUNK_WORK / max(1.0, self.plan.entries) / _LANES))
        chunks = -(-len(rows) // chunk)
        # Expected counts of all rows are summed in one place.
        size = 1 if len(answers.expected) else min(crew_size(self.threads, chunks), self._most_threads)
        self._lanes += [row_lanes(self.plan.program, _LANES) for _ in range(size - len(self._lanes))]
        records = tuple(self.plan.program.clusters), tuple(self._shared)
        done = np.zeros(chunks + 1, bool)

        def work(thread: int, start: int, stop: int) -> None:
            part = rows[start:stop]
            states = np.full((len(part), len(column)), -1)
            states[:, inner] = part[:, column[inner]]
            agrees = self._agreeing(part)
            room = answers._replace(log_z=answers.log_z[start:stop], p=answers.p[start:stop])
            if len(answers.weight):
                room = room._replace(weight=answers.weight[start:stop] * agrees)
            if self._possible:
                run_rows(states, self._constant, *records, tuple(self._lanes[thread]), tuple(room))
            room.log_z[~agrees] = -math.inf
            room.p[np.isneginf(room.log_z)] = 0.0  # components without the contradiction have other values
            room.p[np.ix_(np.isfinite(room.log_z), self._fixed_columns)] = 1.0
            done[start // chunk] = True

        with Crew(size) as crew:
            crew.divide(len(rows), chunk, work, stopped=lambda: bool(done[0]) and clock is not None and clock.stopped)
        count = chunk * int(done.argmin())
        return answers.log_z[:count], answers.p[:count]

    def _agreeing(self, rows: IntArray) -> BoolArray:
        """Return which rows [b] do not contradict the evidence of the graph itself."""
        if not self._possible or self.graph.observed is None:
            return np.full(len(rows), self._possible)
        own = self.graph.observed
        agrees: BoolArray = ((rows < 0) | (own < 0) | (rows == own)).all(axis=1)
        return agrees


def rows_memory(steps: Plan) -> float:
    """Return the bytes for rows of evidence along a plan: its own, and messages up and down for every lane."""
    if not steps.finished:
        return math.inf
    return steps.memory_for(Task.MAR) + 16.0 * _LANES * float(steps.program.message_sizes.sum())
