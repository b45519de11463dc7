"""Loopy belief propagation in the log domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equifactor.base.budget import LEAST_LOG, Budget, Seconds
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.base.torch_device import check_device, torch_batch_size
from equifactor.base.torch_threads import torch_threads
from equifactor.factors.table_ranges import structured_ranges, table_ranges
from equifactor.graph.components import count_components
from equifactor.solvers.elimination.impossibility import zero_or_lost
from equifactor.solvers.messages.bp_engine import (
    BpAnswers,
    BpEngine,
    BpPart,
    BpSettings,
    Schedule,
    engine_name,
    new_engine,
)
from equifactor.solving.estimate import MANY, Estimate, LazyEstimates
from equifactor.solving.registry import register
from equifactor.solving.solver import ALL_SYMMETRIES, BATCH_SIZE, Ending, IterativeSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray, Semiring
    from equifactor.graph import FactorGraph, FlatGraph

# Edges and table entries per batch of torch, large enough to hide the cost of its calls. Halved or doubled: the same
# answers, CPU within 1 %.
_TORCH_BATCH_SIZE = 2.0**17


@register("bp")
@dataclass(frozen=True, kw_only=True)
class BeliefPropagation(IterativeSolver[BpEngine]):
    """Belief propagation: sum-product for MAR and PR, max-product for MAP; exact on trees.

    On loopy graphs marginals and ln Z are the Bethe estimate, which is not a bound. For MAP the score of the assignment
    is a lower bound, and the messages give an upper bound. Cost O(T) per iteration; the residual schedule multiplies it
    by the number of neighbours.
    """

    exact_on = "trees"
    any_kind = True

    damping: float = option(0.0, "share of the old log message that is kept", low=0.0, below=1.0)
    schedule: Schedule = option("parallel", "order of the updates; residual takes the largest change first")
    engine: Literal["auto", "numba", "torch"] = option(
        "auto", "numba or NumPy on the CPU in float64, otherwise torch, with Triton on a GPU"
    )
    decode: Literal["argmax", "sequential"] = option(
        "argmax", "MAP: the best state of each variable alone, or of whole factors in turn"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule != "parallel" or self.decode != "argmax":  # these go through the factors in an order
            object.__setattr__(self, "symmetries", ALL_SYMMETRIES - {"global"})

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Compile the graphs in batches, iterate and finish; torch uses the threads of the context."""
        if engine_name(self.engine, context) == "numba":
            return super().run(graphs, task, context)
        check_device(context.device, "bp on the torch engine")
        with torch_threads(context.clock, context.device, context.threads):
            return super().run(graphs, task, context)

    def init(self, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> BpEngine:
        """Return the engine with its first messages: unary factors send their tables, all others uniform messages."""
        semiring: Semiring = "max" if task is Task.MAP else "sum"
        # An integer would be another signature of the kernels.
        damping, tolerance = float(self.damping), float(self.tolerance)
        settings = BpSettings(semiring, self.schedule, damping, tolerance, context.seed)
        return new_engine(flat, settings, context, self.engine, self.iterations)

    def step(self, state: BpEngine, count: int) -> FloatArray:
        """Update all messages `count` times."""
        return state.sweep(count)

    def take(self, state: BpEngine, graphs: IntArray) -> BpPart:
        """Return the messages of some graphs."""
        return state.take(graphs)

    def put(self, state: BpEngine, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs."""
        state.put(graphs, part)

    def rest(self, state: BpEngine, graphs: IntArray) -> None:
        """Keep converged graphs within the numbers that the engine can hold."""
        state.rest(graphs)

    def batch_size(self, context: SolveContext) -> float:
        """Return the batch size; schedules that choose among the factors of a whole batch run graph by graph."""
        if engine_name(self.engine, context) == "torch":
            return torch_batch_size(context.device, _TORCH_BATCH_SIZE)
        return 0.0 if self.schedule in ("random", "residual") else BATCH_SIZE

    def side_by_side(self, context: SolveContext) -> bool:
        """Return whether threads may share batches: those of torch share the work of each batch."""
        return engine_name(self.engine, context) == "numba"

    def finish(self, flat: FlatGraph[np.ndarray], state: BpEngine, task: Task, ending: Ending) -> Sequence[Estimate]:
        """Return beliefs, and ln Z or an assignment with its bound."""
        work = Seconds.MESSAGE_SWEEP * (flat.num_entries + flat.num_edge_states)
        in_time = task is not Task.MAR or ending.clock is None or Budget(ending.clock.root).ends_in_time(work)
        answers = state.answers(in_time)  # Marginals can do without ln Z.
        mass = np.add.reduceat(answers.probabilities, flat.var_ptr[:-1]) if flat.num_vars else np.zeros(0)
        empty = np.isneginf(answers.upper_bound if task is Task.MAP else answers.log_z)
        empty[flat.graph_of_var[mass == 0.0]] = True
        vanished = _vanished(flat, state, answers.probabilities) if task is not Task.MAP else [0] * flat.num_graphs
        sound = math.isfinite(answers.probabilities.sum()) and not empty.any() and not flat.has_zeros
        if flat.num_graphs >= MANY and task is not Task.MAP and sound and math.isfinite(answers.log_z.sum()):

            def make(n: int) -> Estimate:
                fields = {"marginals": flat.marginals_of(answers.probabilities, n), "log_z": float(answers.log_z[n])}
                return _estimate(fields, ending, n, vanished[n], state.name)

            if Status.NON_FINITE not in ending.status:
                return LazyEstimates(flat.num_graphs, make)
        found: list[dict[str, Any]]
        if task is Task.MAP:
            states = self._decoded(flat, state, answers, ending)
            bounds = answers.upper_bound.tolist()
            found = [{"assignment": x, "upper_bound": u} for x, u in zip(flat.assignments(states), bounds, strict=True)]
        else:
            marginals = flat.marginals(answers.probabilities)
            found = [
                {"marginals": m, "log_z": z if in_time else None}
                for m, z in zip(marginals, answers.log_z.tolist(), strict=True)
            ]
        return [
            zero_or_lost(graph) if is_empty else _estimate(fields, ending, n, vanished[n], state.name)
            for n, (fields, is_empty, graph) in enumerate(zip(found, empty.tolist(), flat.graphs, strict=True))
        ]

    def _decoded(self, flat: FlatGraph[np.ndarray], state: BpEngine, answers: BpAnswers, ending: Ending) -> IntArray:
        """Return the states [V] of the assignments.

        The best states of single variables need not go together if there are ties. On forests whole factors in turn
        then give an optimum, and its score does not depend on the order. Messages that were cut short have no optimum.
        """
        alone = answers.states
        if self.decode == "argmax" and all(status is Status.TIME_LIMIT for status in ending.status):
            return alone
        sequential = self.decode == "sequential"
        in_turn = np.full(flat.num_graphs, True) if sequential else _tied_forests(flat, answers.probabilities)
        if not in_turn.any():
            return alone
        from equifactor.solvers.messages.sequential_decoding import sequential_states

        return np.where(in_turn[flat.graph_of_var], sequential_states(flat, state.messages()), alone)


def _estimate(fields: dict[str, Any], ending: Ending, n: int, vanished: int, engine: str) -> Estimate:
    """Return the estimate of graph n, with its answers in `fields` and the number of vanished states."""
    status = ending.status[n]
    stats = {"change": float(ending.residual[n]), "engine": engine}
    fields |= {"status": status, "iterations": ending.iterations[n], "stats": stats}
    if vanished:
        stats["vanished"] = vanished
        fields["message"] = f"{status.advice} {vanished} state{'s' * (vanished > 1)} {_VANISHED}"
    return Estimate.of(fields)


_TIED = 1e-6  # The relative difference of max-marginals below which states are tied: the tolerance of messages.


def _tied_forests(flat: FlatGraph[np.ndarray], probabilities: FloatArray) -> BoolArray:
    """Return [G] whether a graph has no cycle and a variable with several best states."""
    found = np.zeros(flat.num_graphs, bool)
    if not flat.num_vars:
        return found
    top = np.maximum.reduceat(probabilities, flat.var_ptr[:-1])[flat.var_of_state]
    best = np.bincount(flat.var_of_state, probabilities >= (1.0 - _TIED) * top, minlength=flat.num_vars)
    for n in np.unique(flat.graph_of_var[best > 1]).tolist():
        graph = flat.graphs[n]
        factors = np.count_nonzero(graph.structure.arity)
        nodes = len(graph.free_vars) + factors - count_components(graph.structure, graph.observed)
        found[n] = graph.structure.num_edges == nodes
    return found


_VANISHED = (
    "that no factor excludes got a probability below the smallest number. Around loops of near-certain factors BP "
    "counts the same evidence repeatedly. Compare with fe-net."
)


def _vanished(flat: FlatGraph[np.ndarray], state: BpEngine, probabilities: FloatArray) -> list[int]:
    """Return the number [G] of states of belief 0 that neither zeros nor the tables of their variable account for.

    A true zero is right on any graph. Without zeros, the log odds of two states are at most the sum of the ranges of
    the tables around them. A state may therefore have belief 0 rightly only where this sum is large.
    """
    if not (probabilities == 0.0).any():
        return [0] * flat.num_graphs
    zeros = np.bincount(flat.state_of_edge_state, np.isneginf(state.messages()), minlength=flat.num_states)
    odds = np.zeros(flat.num_vars)
    for group in flat.groups:
        ranges = table_ranges(flat, group)
        for edges in group.edges:
            odds += np.bincount(flat.var_of_edge[edges], ranges, minlength=flat.num_vars)
    for other in flat.structured:
        ranges = np.repeat(structured_ranges(flat, other), np.diff(other.edge_ptr))
        odds += np.bincount(flat.var_of_edge[other.edges], ranges, minlength=flat.num_vars)
    lost = (probabilities == 0.0) & (zeros == 0.0) & (odds[flat.var_of_state] < -LEAST_LOG)
    graph = flat.graph_of_var[flat.var_of_state[lost]]
    counts: list[int] = np.bincount(graph, minlength=flat.num_graphs).tolist()
    return counts
