"""What is left of a graph for exact inference: free variables, and of those only the states that zeros allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.marginals import Marginals
from equifactor.graph.possible_states import kept_entries, possible_states, state_counts

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure
    from equifactor.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Reduction:
    """Scopes over the variables that are left, renumbered 0, 1, .. in order; how to put answers back.

    Observed variables are left out, and so are those that the zeros of the tables leave one state. V and X count the
    graph's variables and states, v and x those that are left.
    """

    variables: IntArray  # [v] number in the graph
    card: IntArray  # [v] states left
    scope_ptr: IntArray  # [F+1]
    scope_vars: IntArray  # [e] numbers 0..v-1
    table_ptr: IntArray  # [F+1]
    var_ptr: IntArray  # [v+1] factors of variable i are var_factors[var_ptr[i]:var_ptr[i+1]]
    var_factors: IntArray  # [e]
    entries: IntArray | None  # [t] table entries left, None when all are
    fixed: IntArray  # [V] state of the variables that are decided, -1 where left
    states: IntArray | None  # [x] number of each state left within its variable in the graph, None when all are
    impossible: bool = False  # the zeros leave no assignment: nothing else means anything

    def __post_init__(self) -> None:
        for value in vars(self).values():  # all alike: Numba compiles anew for a read-only array among writeable ones
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def log_phi(self, graph: FactorGraph) -> FloatArray:
        """[t] tables of what is left."""
        if self.entries is None:
            return graph.log_phi
        log_phi = graph.log_phi[self.entries]
        log_phi.flags.writeable = False
        return log_phi

    def marginals(self, graph: FactorGraph, p: FloatArray) -> Marginals:
        """Marginals over the graph's variables from those of the states left [x]."""
        ptr = pointers(graph.card)
        if len(p) == ptr[-1]:
            return Marginals(p, ptr)
        fixed = self._fixed_in(graph)
        values = np.zeros(ptr[-1])
        seen = fixed >= 0
        values[ptr[:-1][seen] + fixed[seen]] = 1.0
        first = np.repeat(ptr[self.variables], self.card)
        number = np.arange(len(p)) - np.repeat(pointers(self.card)[:-1], self.card)
        values[first + (number if self.states is None else self.states)] = p
        return Marginals(values, ptr)

    def assignment(self, graph: FactorGraph, states: IntArray) -> IntArray:
        """[V] assignment from states [v] of the variables left."""
        full = self._fixed_in(graph).copy()
        full[self.variables] = states if self.states is None else self.states[pointers(self.card)[:-1] + states]
        return full

    def _fixed_in(self, graph: FactorGraph) -> IntArray:
        """Graphs of one structure may share a reduction and still be observed in different states."""
        return self.fixed if graph.observed is None else np.where(graph.observed >= 0, graph.observed, self.fixed)


def reduce_structure(structure: Structure, observed: IntArray | None) -> Reduction:
    """Leave out the observed variables only: right for any tables over this structure."""
    s = structure
    fixed = np.full(s.num_vars, -1) if observed is None else observed
    free = np.flatnonzero(fixed < 0)
    scope_vars = s.scope_vars if observed is None else (np.cumsum(fixed < 0) - 1)[s.scope_vars]
    var_ptr, var_factors = _by_variable(len(free), scope_vars, s.factor_of_edge)
    return Reduction(
        variables=free, card=s.card[free], scope_ptr=s.scope_ptr, scope_vars=scope_vars, table_ptr=s.table_ptr,
        var_ptr=var_ptr, var_factors=var_factors, entries=None, fixed=fixed, states=None,
    )  # fmt: skip


def reduce_graph(graph: FactorGraph) -> Reduction:
    """Leave out observed variables, states that the zeros rule out, and variables with one state left. Cost O(T)."""
    whole = reduce_structure(graph.structure, graph.observed)
    if not np.isneginf(graph.log_phi).any() and whole.card.min(initial=2) > 1:
        return whole
    possible = possible_states(graph.structure, np.isneginf(graph.log_phi))
    if possible is None:
        return Reduction(**{**vars(whole), "impossible": True})
    seen = whole.fixed >= 0
    possible[np.repeat(seen, graph.card)] = True  # observed variables are in no table
    if possible.all() and whole.card.min(initial=2) > 1:
        return whole
    entries = np.flatnonzero(kept_entries(graph.structure, possible))
    table_ptr = np.searchsorted(entries, graph.structure.table_ptr)
    card = state_counts(graph.structure, possible)[~seen]
    live = possible[np.repeat(~seen, graph.card)]
    state_ptr = pointers(whole.card)
    left = card > 1
    number = np.flatnonzero(live) - np.repeat(state_ptr[:-1], card)
    fixed = whole.fixed.copy()
    fixed[whole.variables[~left]] = number[np.repeat(~left, card)]
    kept = left[whole.scope_vars]
    scope_vars = (np.cumsum(left) - 1)[whole.scope_vars[kept]]
    factor_of_edge = graph.structure.factor_of_edge[kept]
    var_ptr, var_factors = _by_variable(int(left.sum()), scope_vars, factor_of_edge)
    return Reduction(
        variables=whole.variables[left],
        card=card[left],
        scope_ptr=pointers(np.bincount(factor_of_edge, minlength=graph.num_factors)),
        scope_vars=scope_vars,
        table_ptr=table_ptr,
        var_ptr=var_ptr,
        var_factors=var_factors,
        entries=entries,
        fixed=fixed,
        states=number[np.repeat(left, card)],
    )


def pointers(counts: IntArray) -> IntArray:
    """[N+1] where each of N runs begins."""
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def _by_variable(num_vars: int, scope_vars: IntArray, factor_of_edge: IntArray) -> tuple[IntArray, IntArray]:
    var_ptr = pointers(np.bincount(scope_vars, minlength=num_vars))
    return var_ptr, factor_of_edge[np.argsort(scope_vars, kind="stable")]
