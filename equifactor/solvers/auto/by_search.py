"""Sums of models full of zeros by search: when `auto` tries `search-sum`, and what it keeps of a search cut short."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from equifactor.base.budget import Budget, Refusal
from equifactor.base.clock import NotCompiledError
from equifactor.base.errors import ModelError
from equifactor.base.status import Status
from equifactor.graph.flat_graph import has_zeros
from equifactor.kernels.compile_costs import can_compile
from equifactor.solvers.auto.possibility import are_contradictory, has_hard_structure
from equifactor.solvers.auto.sum_ladder import share_of_time
from equifactor.solving.estimate import impossible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.status import Task
    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph import FactorGraph
    from equifactor.solving.estimate import Estimate
    from equifactor.solving.solver import SolveContext

# The share of zeros among the entries of tables from which a search is tried. Public models of Promedus have 0.3 to
# 0.4, linkage 0.4 to 0.6, grids with deterministic nodes 0.5, images and spin glasses none.
_ZEROS = 0.25
# The share of the time left for a search where exact does not fit, of formulas and of others. Chosen by hand.
_FORMULA_SHARE, _TABLE_SHARE = 0.6, 0.25
# Seconds below which tables are not searched: no public model is solved so soon, and BP needs the time. By
# `benchmarks.front`, even places.
_LEAST_SEARCH = 0.015
# The width of the formula of tables above which they are not searched: models of Promedus with 23 to 25 take 0.1 to 1 s
# of CPU, and those of linkage with 29 to 39 more than 25 s. Formulas are searched at any width.
_MOST_WIDTH = 28
# The share of the estimated time of exact for a search before it: nothing gets slower by more than that.
_TRIAL_SHARE = 0.08


def is_full_of_zeros(graph: FactorGraph, form: LoweredGraph | Refusal) -> bool:
    """Return whether a search may pay: the graph has clauses or the like, or many zeros in its tables."""
    if has_hard_structure(graph):
        return True
    tables = graph if isinstance(form, Refusal) else form.graph
    s = tables.structure
    if not has_zeros(tables.log_phi):
        return False
    wide = np.repeat((s.arity > 1) & s.is_table, np.diff(s.table_ptr))
    return bool(np.isneginf(tables.log_phi[wide]).sum() > _ZEROS * np.count_nonzero(wide))


def search_each(
    graphs: Sequence[FactorGraph],
    forms: Sequence[LoweredGraph | Refusal],
    task: Task,
    context: SolveContext,
    end: float,
) -> list[Estimate | None]:
    """Return what a search finds in a share of the time of each graph; None for graphs that are not searched.

    Equations of parities that contradict each other need no search. The graphs share the time until `end`
    on the clock of the call.
    """
    found: list[Estimate | None] = []
    for n, (graph, form) in enumerate(zip(graphs, forms, strict=True)):
        part = share_of_time(context, len(graphs) - n, end)
        if has_hard_structure(graph) and are_contradictory(graph):
            found.append(replace(impossible(), stats={"chosen": "parity equations"}))
            continue
        share = _FORMULA_SHARE if has_hard_structure(graph) else _TABLE_SHARE
        if not has_hard_structure(graph) and share * part.clock.left < _LEAST_SEARCH:
            found.append(None)
            continue
        found.append(by_search(graph, form, task, replace(part, clock=part.clock.part(share))))
    return found


def search_before(
    graph: FactorGraph, form: LoweredGraph | Refusal, task: Task, seconds: float, context: SolveContext
) -> Estimate | None:
    """Return what a search finds in a small share of the reference seconds that exact should take."""
    clock = context.clock.within(_TRIAL_SHARE * Budget(context.clock).time_for(seconds))
    return by_search(graph, form, task, replace(context, clock=clock))


def by_search(graph: FactorGraph, form: LoweredGraph | Refusal, task: Task, context: SolveContext) -> Estimate | None:
    """Return the answer of `search-sum` in the time of the context; None if it is not worth trying.

    The estimate is exact or `zero-probability`, or it has nothing but bounds on ln Z.
    """
    from equifactor.solvers.counting.sum_search import SearchSum

    if context.clock.stopped or not is_full_of_zeros(graph, form):
        return None
    if not can_compile(context.clock, 1.0, SearchSum.name):
        return None
    try:
        solver = SearchSum() if has_hard_structure(graph) else SearchSum(width=_MOST_WIDTH)
        found = solver.run_one(graph, task, context)
    except (NotCompiledError, ModelError):
        return None
    return replace(found, stats={**found.stats, "chosen": SearchSum.name})


def is_solved(estimate: Estimate | None) -> TypeGuard[Estimate]:
    """Return whether a search has ended with the exact sum or a proof that no assignment is possible."""
    return estimate is not None and estimate.status in (Status.EXACT, Status.ZERO_PROBABILITY)
