"""Scores: of many assignments of one graph, and of many graphs with one assignment for each."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.reading import observations
from equifactor.kernels.pointers import join_ptr, ptr_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.reading.inputs import Variable


_SCORE_BLOCK = 2**21  # Edges times assignments that are scored at once: an index array of 16 MiB.


def assignment_log_scores(graph: FactorGraph, x: IntArray) -> FloatArray:
    """Return [N] the log scores of assignments [N, V], -inf where one disagrees with the evidence."""
    block = max(1, _SCORE_BLOCK // max(1, graph.structure.num_edges))
    blocks = [_block_log_scores(graph, x[n : n + block]) for n in range(0, len(x), block)]
    scores = np.concatenate(blocks) if blocks else np.zeros(0)
    if graph.observed is not None:
        scores[np.any((graph.observed >= 0) & (graph.observed != x), axis=1)] = -np.inf
    return scores


def assignment_of(graph: FactorGraph, states: Mapping[Variable, int | str]) -> IntArray:
    """Return [V] the assignment that a user gave by variable; observed variables may be left out."""
    x = np.full(graph.num_vars, -1) if graph.observed is None else graph.observed.copy()
    for i, value in observations.by_variable(graph.structure, states, "an assignment").items():
        x[i] = observations.state_number(graph.structure, i, value)
    if np.any(x < 0):
        i = int(np.argmax(x < 0))
        raise ModelError(f"The assignment gives no state to variable {graph.structure.variable_name(i)}.")
    return x


def _block_log_scores(graph: FactorGraph, x: IntArray) -> FloatArray:
    s = graph.structure
    if s.kinds is not None:
        from equifactor.graph.mixed_rows import log_scores

        return log_scores(s.rows(graph.log_phi), x)
    # Offsets within the tables are differences of a running integer sum: exact, and right for arity 0.
    running = np.zeros((len(x), s.num_edges + 1), np.int64)
    np.cumsum(x[:, s.scope_vars] * s.stride, axis=1, out=running[:, 1:])
    entry = s.table_ptr[:-1] + running[:, s.scope_ptr[1:]] - running[:, s.scope_ptr[:-1]]
    # Summed row by row in memory, an assignment has the same score to the last bit alone or among others.
    scores: FloatArray = graph.log_phi[np.ascontiguousarray(entry)].sum(axis=1)
    return scores


def batch_log_scores(graphs: Sequence[FactorGraph], assignments: Sequence[IntArray]) -> list[float]:
    """Return `graph.log_score(assignment)` of each pair to the last bit, unchecked and ten times as fast.

    The assignments [V] are valid and agree with the evidence. Cost O(E), with E the edges of all graphs.
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
