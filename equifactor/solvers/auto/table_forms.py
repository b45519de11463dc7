"""Graphs with structured factors for solvers that take dense tables only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Refusal
from equifactor.base.errors import ModelError
from equifactor.base.status import Task
from equifactor.factors.lowered_graph import LoweredGraph, lower_all
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.slicing import slice_tables
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import IntArray, Semiring
    from equifactor.solving.solver import SolveContext, Solver

_SMALL = 2.0**-4  # GiB of tables to find the best states of auxiliary variables: 64 MiB.


def has_kinds(graph: FactorGraph) -> bool:
    """Return whether the graph has structured factors."""
    return graph.structure.kinds is not None


def table_forms(graphs: Sequence[FactorGraph], task: Task, clock: Clock) -> list[LoweredGraph | Refusal]:
    """Return each graph with dense tables alone, or a refusal if its factors are too large or time is up."""
    semiring: Semiring = "max" if task is Task.MAP else "sum"
    try:
        forms = lower_all(graphs, semiring, clock=clock)
        return [*forms, *[Refusal("there was no time for dense tables")] * (len(graphs) - len(forms))]
    except ModelError as error:
        if len(graphs) == 1:
            return [Refusal(str(error).rstrip("."))]  # It becomes the first half of a sentence.
    return [form for graph in graphs for form in table_forms([graph], task, clock)]


def cost_in_words(form: LoweredGraph) -> str:
    """Return the cost of the dense tables as the beginning of a reason; empty if the graph had dense tables alone."""
    if form.graph is form.original:
        return ""
    entries = form.graph.structure.num_entries
    return f"with dense tables ({form.num_auxiliary:,} auxiliary variables, {entries:,} table entries) "


def run_any_kind(solver: Solver, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
    """Run a solver on graphs as they are if it takes structured factors, otherwise on their dense tables.

    The answers are over the variables of the graphs.

    Raises:
        ModelError: if dense tables are needed and would be too large.
    """
    if all(map(solver.takes_kinds_of, graphs)):
        return [*solver.run(graphs, task, context)]
    from equifactor.solving.running import estimates_of

    return [*estimates_of(solver, list(graphs), task, context)]


def completed(form: LoweredGraph, assignment: IntArray, context: SolveContext) -> IntArray | None:
    """Return [v] an assignment [V] of the original with the best states of the auxiliary variables; None if impossible.

    The states of auxiliary variables almost always follow from those of the others, as in a running parity.
    """
    graph = form.graph
    if graph is form.original:
        return assignment
    from equifactor.solvers.elimination.exact import Exact

    observed = np.concatenate((assignment, np.full(form.num_auxiliary, -1)))
    structure, log_phi = slice_tables(graph.structure, graph.log_phi, observed)
    rest = FactorGraph.trusted(structure, log_phi, observed)
    return Exact(memory_limit=_SMALL, tries=1).run_one(rest, Task.MAP, context).assignment
