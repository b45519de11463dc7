"""The scores of many graphs at once, with one assignment for each."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.pointers import join_ptr, ptr_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.typing import IntArray


def batch_log_scores(graphs: Sequence[FactorGraph], assignments: Sequence[IntArray]) -> list[float]:
    """What `graph.log_score(assignment)` gives for each pair, to the last bit, but unchecked and ten times as fast.

    The assignments [V] are valid and agree with what is observed. Cost O(E) for the sum of all edges.
    """
    structures = [g.structure for g in graphs]
    if any(s.kinds is not None for s in structures):
        return [float(g.log_score(x)) for g, x in zip(graphs, assignments, strict=True)]
    vars_ptr = ptr_of([len(s.card) for s in structures])
    factors_ptr = ptr_of([len(s.scope_ptr) - 1 for s in structures])
    shift = np.repeat(vars_ptr[:-1], [len(s.scope_vars) for s in structures])
    variable = np.concatenate([s.scope_vars for s in structures]) + shift
    card = np.concatenate([s.card for s in structures])[variable]  # [E]
    state = np.concatenate(assignments)[variable]  # [E]
    scope_ptr = join_ptr([s.scope_ptr for s in structures], factors_ptr)
    arity = np.diff(scope_ptr)
    entry = np.zeros(len(arity), np.int64)  # the place within the table, from its digits in C order, slot after slot
    for j in range(int(arity.max(initial=0))):
        factors = np.flatnonzero(arity > j)
        edge = scope_ptr[factors] + j
        entry[factors] = entry[factors] * card[edge] + state[edge]
    entry += join_ptr([s.table_ptr for s in structures], factors_ptr)[:-1]
    values = np.concatenate([g.log_phi for g in graphs])[entry]
    return [float(values[a:b].sum()) for a, b in pairwise(factors_ptr.tolist())]
