"""Plans that are kept: a question about variables that were asked about before begins without planning."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.reduction import without_observed
from equifactor.solvers.elimination.plan import Plan, plan

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

_MOST_ENTRIES = 2**20  # The tables of a model whose plan is kept have no more entries in all.
_CHEAP, _TIMES = 2.0**15, 8.0  # A plan with no more entries, or no more than so many times those of the tables, is used
# as it is: the search for impossible states would take longer than what it saves.
_LIMIT, _WORK = 2.0**-4, 1e6  # GiB of messages, and list operations: the planner gives up early, in 10 ms, on others.
_KEPT = 256  # So many plans are kept, those asked for last.

_known: OrderedDict[Any, Plan | None] = OrderedDict()


def known_plan(graph: FactorGraph) -> Plan | None:
    """A cheap plan that relies on no zeros, from memory where an equal structure was planned before; None for others.

    Its graphs are without tables: `ReducedGraph.applied_to` gives the reduction of the graph at hand. The seed of the
    plan is fixed, so that what was asked before does not change an answer.
    """
    s = graph.structure
    if s.kinds is not None or s.num_entries > _MOST_ENTRIES:
        return None
    seen = None if graph.observed is None else (graph.observed < 0).tobytes()
    key = s.card.tobytes(), s.scope_ptr.tobytes(), s.scope_vars.tobytes(), seen
    if key in _known:
        _known.move_to_end(key)
        return _known[key]
    _known[key] = made = _cheap_plan(graph)
    if len(_known) > _KEPT:
        _known.popitem(last=False)
    return made


def _cheap_plan(graph: FactorGraph) -> Plan | None:
    made = plan(without_observed(graph), memory_limit=_LIMIT, most_work=_WORK)
    if not made.finished or made.entries > max(_CHEAP, _TIMES * graph.structure.num_entries):
        return None
    reduced, empty = made.reduced, np.zeros(0)
    hollow = [graph.trusted(g.structure, empty, g.observed, None) for g in (reduced.graph, reduced.original)]
    return replace(made, reduced=replace(reduced, graph=hollow[0], original=hollow[1]))
