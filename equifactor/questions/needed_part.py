"""The part of a graph on which the marginals of some variables depend.

Two kinds of factors do not matter. A factor whose sum over a variable of no other factor is constant, such as the table
of an unobserved child in a Bayesian network, sends uniform messages. Factors that no path of free variables joins with
a target are separated from it, by observed variables for example.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from equifactor.base.typing import BoolArray, FloatArray, IntArray
from equifactor.graph import FactorGraph
from equifactor.graph.marginals import Marginals
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import by_number, picked, ptr_of

_EQUAL_SUMS = 1e-12  # Relative difference of sums that count as constant: some rounding errors of float64.


@dataclass(frozen=True)
class NeededPart:
    """A part of a graph, with the numbers that its variables have in the whole.

    Attributes:
        graph: the part, without names.
        whole: the graph that it is a part of.
        variables: [v] the number in the whole of each variable of the part.
        log_left_out: ln of what the rest contributes to Z; None if it is not known.
    """

    graph: FactorGraph
    whole: FactorGraph
    variables: IntArray
    log_left_out: float | None

    def marginals(self, found: Marginals) -> Marginals:
        """Return the marginals of the part, and of observed variables, by the numbers of the whole.

        All other variables have empty vectors.
        """
        card, observed = self.whole.card, self.whole.observed
        known = np.zeros(len(card), bool) if observed is None else observed >= 0
        kept = known.copy()
        kept[self.variables] = True
        ptr = ptr_of(np.where(kept, card, 0))
        values = np.zeros(int(ptr[-1]))
        if observed is not None:
            values[ptr[:-1][known] + observed[known]] = 1.0
        values[picked(ptr, self.variables)[1]] = found.values
        return Marginals(values, ptr, self.whole.structure)

    def errors(self, found: Marginals | None) -> Marginals | None:
        """Return errors of the part, which are 0 for observed variables, by the numbers of the whole."""
        if found is None:
            return None
        full = self.marginals(found)
        values = np.zeros_like(full.values)
        values[picked(full.ptr, self.variables)[1]] = found.values
        return Marginals(values, full.ptr, full.structure)


def needed_part(graph: FactorGraph, targets: IntArray) -> NeededPart:
    """Return the part of a graph on which the marginals of the targets, given its evidence, depend. Cost O(T)."""
    s = graph.structure
    ptr, scope_vars = s.scope_ptr.tolist(), s.scope_vars.tolist()
    factor_of_edge = np.repeat(np.arange(s.num_factors), np.diff(s.scope_ptr))
    around = factor_of_edge[by_number(s.scope_vars)].tolist()
    degrees = np.bincount(s.scope_vars, minlength=s.num_vars)
    around_ptr = ptr_of(degrees).tolist()
    degree = degrees.tolist()
    is_target = np.zeros(s.num_vars, bool)
    is_target[targets] = True
    asked = is_target.tolist()
    closes, log_sums = _closing_factors(graph)
    # Factors whose variables are all observed are numbers.
    numbers = (np.diff(s.scope_ptr) == 0) & (np.diff(s.table_ptr) == 1)
    gone, log_left_out = numbers.tolist(), float(graph.log_phi[s.table_ptr[:-1][numbers]].sum())
    leaves = [i for i, d in enumerate(degree) if d == 1 and not asked[i]]
    while leaves:
        i = leaves.pop()
        a = next((a for a in around[around_ptr[i] : around_ptr[i + 1]] if not gone[a]), -1)
        if a < 0 or not closes[a] or scope_vars[ptr[a + 1] - 1] != i:
            continue
        gone[a] = True
        log_left_out += log_sums[a]
        for j in scope_vars[ptr[a] : ptr[a + 1]]:
            degree[j] -= 1
            if degree[j] == 1 and not asked[j]:
                leaves.append(j)
    free = np.full(s.num_vars, True) if graph.observed is None else graph.observed < 0
    reached = [i for i in targets.tolist() if free[i]]
    seen, taken = set(reached), set()
    while reached:
        i = reached.pop()
        for a in around[around_ptr[i] : around_ptr[i + 1]]:
            if not gone[a] and a not in taken:
                taken.add(a)
                new = [j for j in scope_vars[ptr[a] : ptr[a + 1]] if j not in seen]
                seen.update(new)
                reached += new
    complete = len(taken) + sum(gone) == s.num_factors and not any(
        d == 0 and n == 0 and free[i] and i not in seen for i, (d, n) in enumerate(zip(degree, degrees, strict=True))
    )
    part = _part(graph, np.array(sorted(seen), np.int64), np.array(sorted(taken), np.int64))
    return NeededPart(part, graph, np.array(sorted(seen), np.int64), log_left_out if complete else None)


def _closing_factors(graph: FactorGraph) -> tuple[list[bool], list[float]]:
    """Return [F] whether the sum of a table over its last variable is constant, and the logs of these sums."""
    s = graph.structure
    arity, sizes = np.diff(s.scope_ptr), np.diff(s.table_ptr)
    is_table = arity > 0
    if s.kinds is not None:
        is_table &= s.kinds.kind == 0
    last = np.where(is_table, s.card[s.scope_vars[np.maximum(s.scope_ptr[1:] - 1, 0)]] if s.num_edges else 1, sizes)
    rows = np.where(sizes > 0, sizes // np.maximum(last, 1), 0)
    if not rows.sum():
        return [False] * s.num_factors, [0.0] * s.num_factors
    starts = np.repeat(s.table_ptr[:-1] - ptr_of(rows * last)[:-1], rows) + ptr_of(np.repeat(last, rows))[:-1]
    sums: FloatArray = np.add.reduceat(np.exp(graph.log_phi), starts)
    row_starts, filled = ptr_of(rows)[:-1], rows > 0
    high, low = np.zeros(s.num_factors), np.zeros(s.num_factors)
    high[filled] = np.maximum.reduceat(sums, row_starts[filled])
    low[filled] = np.minimum.reduceat(sums, row_starts[filled])
    closes: BoolArray = is_table & (low > 0.0) & (high - low <= _EQUAL_SUMS * high) & np.isfinite(high)
    return closes.tolist(), np.log(np.where(closes, high, 1.0)).tolist()


def _part(graph: FactorGraph, variables: IntArray, factors: IntArray) -> FactorGraph:
    """Return the graph of some factors over some variables, numbered in their order."""
    s = graph.structure
    place = np.full(s.num_vars, -1)
    place[variables] = np.arange(len(variables))
    rows = s.rows(graph.log_phi).take(factors)
    rows = replace(rows, scope_vars=place[rows.scope_vars])
    card = s.card[variables]
    if s.kinds is None:
        structure = Structure.trusted(card, rows.scope_ptr.copy(), rows.scope_vars, rows.value_ptr.copy())
    else:
        structure = Structure.of_rows(card, rows)
    return FactorGraph.trusted(structure, np.array(rows.log_values), None, graph.name)
