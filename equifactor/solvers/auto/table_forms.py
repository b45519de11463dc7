"""Graphs with factors of any kind in the hands of methods that know tables only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.base.status import Task
from equifactor.factors.lowered_graph import LoweredGraph, lower_all
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.slicing import slice_tables
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray, Semiring
    from equifactor.solving.solver import SolveContext, Solver

_SMALL = 2.0**-4  # The best states of auxiliary variables are found with at most this many GiB.


def has_kinds(graph: FactorGraph) -> bool:
    """Whether some factors are no tables."""
    return graph.structure.kinds is not None


def table_forms(graphs: Sequence[FactorGraph], task: Task) -> list[LoweredGraph | str]:
    """Each graph in tables, or a sentence that says why there is none: its factors are too large for that."""
    semiring: Semiring = "max" if task is Task.MAP else "sum"
    try:
        return [*lower_all(graphs, semiring)]
    except ModelError as error:
        if len(graphs) == 1:
            return [str(error).rstrip(".")]  # It is the first half of a sentence there.
    return [form for graph in graphs for form in table_forms([graph], task)]


def cost_in_words(form: LoweredGraph) -> str:
    """What the tables cost, to be put before a reason; empty where the graph had tables alone."""
    if form.graph is form.original:
        return ""
    entries = form.graph.structure.num_entries
    return f"in tables ({form.num_auxiliary:,} auxiliary variables, {entries:,} table entries) "


def run_any_kind(solver: Solver, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
    """Run a solver on graphs as they are where it takes them so, else on their tables; answers are over the graphs.

    Raises:
        ModelError: where tables are needed and would be too large.
    """
    if all(map(solver.takes_kinds_of, graphs)):
        return solver.run(graphs, task, context)
    from equifactor.solving.running import estimates_of

    return estimates_of(solver, list(graphs), task, context)


def completed(form: LoweredGraph, assignment: IntArray, context: SolveContext) -> IntArray | None:
    """[v] an assignment [V] of the original with the best states of the auxiliary variables; None where it has none.

    The states of auxiliary variables follow from those of the others almost always: a running parity has no choice.
    """
    graph = form.graph
    if graph is form.original:
        return assignment
    from equifactor.solvers.elimination.exact import Exact

    observed = np.concatenate((assignment, np.full(form.num_auxiliary, -1)))
    structure, log_phi = slice_tables(graph.structure, graph.log_phi, observed)
    rest = FactorGraph.trusted(structure, log_phi, observed)
    return Exact(memory_limit=_SMALL, tries=1).run_one(rest, Task.MAP, context).assignment
