"""A cache of plans: a repeated question about the same variables needs no planning."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.reduction import without_observed
from equifactor.solvers.elimination.plan import Plan, plan

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

# Most entries of all tables of a model whose plan is kept. Halved or doubled: the same answers, CPU within 2 %.
_MOST_ENTRIES = 2**20
# A plan with at most _CHEAP entries, or at most _TIMES those of the tables, is used as it is: the search for impossible
# states would take longer than the time it saves. Halved or doubled: the same answers, CPU within 2 %.
_CHEAP, _TIMES = 2.0**15, 8.0
_LIMIT, _WORK = 2.0**-4, 1e6  # GiB of messages, and list operations: on larger models the planner stops within 10 ms.
# Number of plans that are kept, the most recently used. Halved or doubled: the same answers, CPU within 2 %.
_KEPT = 256

_known: OrderedDict[Any, Plan | None] = OrderedDict()


def known_plan(graph: FactorGraph, most_work: float = math.inf) -> Plan | None:
    """Return a cheap plan that relies on no zeros, from the cache if an equal structure was planned before; else None.

    The graphs of the plan are without tables: `ReducedGraph.applied_to` gives the reduction of a given graph. The seed
    of the plan is fixed, so that earlier questions do not change an answer. Planning ends after `most_work` list
    operations. A plan that fewer operations than usual cut short is not kept in the cache.
    """
    s = graph.structure
    if s.kinds is not None or s.num_entries > _MOST_ENTRIES:
        return None
    seen = None if graph.observed is None else (graph.observed < 0).tobytes()
    key = s.card.tobytes(), s.scope_ptr.tobytes(), s.scope_vars.tobytes(), seen
    if key in _known:
        _known.move_to_end(key)
        return _known[key]
    made = _cheap_plan(graph, min(most_work, _WORK))
    if most_work < _WORK and (made is None or made.entries > most_work):  # More work could have found a better plan.
        return made
    _known[key] = made
    if len(_known) > _KEPT:
        _known.popitem(last=False)
    return made


def _cheap_plan(graph: FactorGraph, most_work: float) -> Plan | None:
    made = plan(without_observed(graph), memory_limit=_LIMIT, most_work=most_work)
    if not made.finished or made.entries > max(_CHEAP, _TIMES * graph.structure.num_entries):
        return None
    reduced, empty = made.reduced, np.zeros(0)
    hollow = [graph.trusted(g.structure, empty, g.observed, None) for g in (reduced.graph, reduced.original)]
    return replace(made, reduced=replace(reduced, graph=hollow[0], original=hollow[1]))
