"""Smaller graphs with the same answers, and how their answers become answers of the original graph.

States that the zeros of the tables exclude leave the graph before any solver sees them; for exact inference observed
variables leave it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.flat_graph import has_zeros
from equifactor.graph.marginals import Marginals
from equifactor.graph.possible_states import kept_entries, possible_states, state_counts
from equifactor.graph.slicing import slice_tables
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.solving.estimate import Estimate


class ConsistentGraph(FactorGraph):
    """A graph all of whose states have support in every factor: the search for impossible states has been made.

    Every graph made from it, for example by `condition`, is a plain `FactorGraph` again.
    """

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class ReducedGraph:
    """A graph with fewer variables or states than the original, and the way back for its answers.

    V and X count the variables and states of the original, v and x those of the reduced graph.
    """

    graph: FactorGraph
    original: FactorGraph
    variables: IntArray | None = None  # [v] number of each variable in the original, None if all are kept
    kept_states: IntArray | None = None  # [x] number of each state among those of the original, None if all are kept
    fixed: IntArray | None = None  # [V] state of the variables that are left out, -1 elsewhere; None if all are kept

    def assignment(self, states: IntArray) -> IntArray:
        """Return [V] assignment of the original from one of the reduced graph [v]; or rows [n, V] from rows [n, v]."""
        if self.kept_states is None:
            return states
        flat = self.kept_states[self.graph.structure.state_ptr[:-1] + states]
        first = self.original.structure.state_ptr[:-1]
        if self.variables is None or self.fixed is None:
            return flat - first
        full = np.tile(self.fixed, (*flat.shape[:-1], 1)) if flat.ndim > 1 else self.fixed.copy()
        full[..., self.variables] = flat - first[self.variables]
        return full

    def states(self, assignment: IntArray) -> IntArray:
        """Return [v] states of the reduced graph in an assignment [V] of the original that has positive probability."""
        if self.kept_states is None:
            return assignment
        flat = self.original.structure.state_ptr[:-1] + assignment
        flat = flat if self.variables is None else flat[self.variables]
        return np.searchsorted(self.kept_states, flat) - self.graph.structure.state_ptr[:-1]

    def marginals(self, values: FloatArray) -> Marginals:
        """Return marginals over the original's states from those of the reduced graph [x]."""
        ptr = self.original.structure.state_ptr
        if self.kept_states is None:
            return Marginals(values, ptr)
        full = np.zeros(ptr[-1])
        full[self.kept_states] = values
        if self.fixed is not None:
            decided = self.fixed >= 0
            full[ptr[:-1][decided] + self.fixed[decided]] = 1.0
        return Marginals(full, ptr)

    def errors(self, values: FloatArray) -> Marginals:
        """Return errors over the original's states from those of the reduced graph [x], 0 for the others."""
        ptr = self.original.structure.state_ptr
        if self.kept_states is None:
            return Marginals(values, ptr)
        full = np.zeros(ptr[-1])
        full[self.kept_states] = values
        return Marginals(full, ptr)

    def estimate(self, estimate: Estimate) -> Estimate:
        """Return the same answer over the variables and states of the original."""
        if self.kept_states is None:
            return estimate
        changed: dict[str, Any] = {}
        if estimate.marginals is not None:
            changed["marginals"] = self.marginals(estimate.marginals.values)
        for name in ("standard_errors", "marginal_errors"):
            if (errors := getattr(estimate, name)) is not None:
                changed[name] = self.errors(errors.values)
        if estimate.assignment is not None:
            changed["assignment"] = self.assignment(estimate.assignment)
        return replace(estimate, **changed) if changed else estimate

    def states_left(self, variable: int) -> IntArray:
        """Return the states of one variable of the original that are left, in order; one state if it is fixed."""
        fixed = self.graph.observed if self.variables is None else self.fixed
        if fixed is not None and fixed[variable] >= 0:
            return fixed[variable : variable + 1]
        first, last = self.original.structure.state_ptr[variable : variable + 2]
        if self.kept_states is None:
            return np.arange(last - first)
        start, stop = np.searchsorted(self.kept_states, (first, last))
        return self.kept_states[start:stop] - first

    def placed(self, scope: Sequence[int], p: FloatArray) -> FloatArray:
        """Return a table over the remaining states of some variables, placed in a table over all their states."""
        kept = [self.states_left(i) for i in scope]
        table = np.zeros(self.original.card[list(scope)])
        table[np.ix_(*kept)] = p.reshape([len(states) for states in kept])
        return table

    def values_of_kept(self, values: FloatArray) -> FloatArray:
        """Return [x] numbers of the original's states [X] at the states that are kept."""
        return values if self.kept_states is None else values[self.kept_states]

    def applied_to(self, other: FactorGraph) -> ReducedGraph:
        """Return the same reduction of another graph; for reductions that leave out observed variables alone.

        Args:
            other: a graph that shares its structure and the set of observed variables with the original. The states
                in which they are observed may differ.
        """
        if other is self.original or self.fixed is None:
            return self if other is self.original else ReducedGraph(other, other)
        if len(other.log_phi) != self.graph.structure.num_entries:
            raise ValueError("A reduction that relies on the zeros of one graph cannot be applied to another.")
        smaller = FactorGraph.trusted(self.graph.structure, other.log_phi, None, other.name)
        return replace(self, graph=smaller, original=other, fixed=other.observed)


def without_impossible_states(graphs: Sequence[FactorGraph]) -> list[ReducedGraph | None]:
    """Return each graph without impossible states; None if the search finds that no assignment is possible.

    A state is impossible if some factor is zero for it at all remaining states of the factor's other variables.
    Removing it may make others impossible, so the search goes on until nothing changes (arc consistency; for clauses
    unit propagation). No table then has rows of zeros, which a network could mistake for strong evidence. A variable
    with one state left is observed and keeps its states, so that evidence reads the same in both graphs. Graphs that
    lose the same states of one structure share the smaller structure too.
    """
    known: dict[Any, Structure] = {}
    return [_without_impossible_states(graph, known) for graph in graphs]


def without_observed(graph: FactorGraph) -> ReducedGraph:
    """Return the graph over its free variables alone, renumbered; the tables stay as they are."""
    if graph.observed is None:
        return ReducedGraph(graph, graph)
    s = graph.structure
    is_free = graph.observed < 0
    free = np.flatnonzero(is_free)
    scope_vars = (np.cumsum(is_free) - 1)[s.scope_vars]
    card = s.card[free]
    for array in (card, scope_vars):  # Numba compiles again for a writeable array among read-only ones.
        array.flags.writeable = False
    structure = Structure(card, s.scope_ptr, scope_vars, s.table_ptr, kinds=s.kinds)
    smaller = type(graph).trusted(structure, graph.log_phi, None, graph.name)
    return ReducedGraph(smaller, graph, free, np.flatnonzero(np.repeat(is_free, s.card)), graph.observed)


def to_free_part(graph: FactorGraph) -> ReducedGraph | None:
    """Return the graph without impossible states and without observed variables; None if no assignment is possible.

    Every variable that is left has two states or more. Cost O(T); constant for a `ConsistentGraph` without observed
    variables.
    """
    (outer,) = without_impossible_states([graph])
    if outer is None:
        return None
    inner = without_observed(outer.graph)
    if outer.kept_states is None:
        return replace(inner, original=graph)
    if inner.kept_states is None:
        return replace(outer, graph=inner.graph)
    kept = outer.kept_states[inner.kept_states]
    return ReducedGraph(inner.graph, graph, inner.variables, kept, inner.fixed)


def _without_impossible_states(graph: FactorGraph, known: dict[Any, Structure]) -> ReducedGraph | None:
    if isinstance(graph, ConsistentGraph):
        return ReducedGraph(graph, graph)
    s = graph.structure
    if not s.has_single_states and s.kinds is None and not has_zeros(graph.log_phi):
        return ReducedGraph(graph, graph)
    possible = possible_states(s, graph.log_phi)
    if possible is None:
        return None
    reduced = _observe_forced(graph, possible)
    s = reduced.structure
    if reduced.observed is not None:
        possible[np.repeat(reduced.observed >= 0, s.card)] = True
    whole = bool(possible.all())
    if s.kinds is not None:  # The words change too, so graphs do not share the structure.
        smaller = reduced if whole else _without_structured_states(reduced, possible)
        smaller = ConsistentGraph.trusted(smaller.structure, smaller.log_phi, reduced.observed, graph.name)
        return ReducedGraph(smaller, graph, kept_states=None if whole else np.flatnonzero(possible))
    # The key has the id of the given structure, which the caller holds. The id of a sliced one may be used again.
    free = None if reduced.observed is None else (reduced.observed < 0).tobytes()
    key = id(graph.structure), free, possible.tobytes()
    if key not in known:
        known[key] = s if whole else _without_states(s, possible)
    log_phi = reduced.log_phi if whole else reduced.log_phi[kept_entries(s, possible)]
    smaller = ConsistentGraph.trusted(known[key], log_phi, reduced.observed, graph.name)
    return ReducedGraph(smaller, graph, kept_states=None if whole else np.flatnonzero(possible))


def _observe_forced(graph: FactorGraph, possible: BoolArray) -> FactorGraph:
    """Return the graph in which every variable with one state left is observed."""
    s = graph.structure
    observed = np.full(s.num_vars, -1) if graph.observed is None else graph.observed.copy()
    count = state_counts(s, possible)
    forced = np.flatnonzero((count == 1) & (observed < 0))
    if not len(forced):
        return graph
    first = np.flatnonzero(possible)[ptr_of(count)[:-1]]  # This is the lowest state left of each variable.
    observed[forced] = first[forced] - s.state_ptr[forced]
    structure, log_phi = slice_tables(s, graph.log_phi, observed)
    return FactorGraph.trusted(structure, log_phi, observed, graph.name)


def _without_states(s: Structure, possible: BoolArray) -> Structure:
    """Return the structure over the states that are left."""
    names = _names_left(s, possible)
    card = state_counts(s, possible)
    return Structure.build(card, s.scope_ptr, s.scope_vars, variable_names=s.variable_names, state_names=names)


def _without_structured_states(graph: FactorGraph, possible: BoolArray) -> FactorGraph:
    """Return the graph over the states that are left, for a graph with structured factors."""
    from equifactor.graph.mixed_rows import with_states

    s = graph.structure
    new_state = np.where(possible, np.cumsum(possible) - 1, -1)
    card = state_counts(s, possible)
    new_state = np.where(possible, new_state - np.repeat(ptr_of(card)[:-1], s.card), -1)
    rows = with_states(s.rows(graph.log_phi), new_state, s.state_ptr, card)
    names = _names_left(s, possible)
    structure = Structure.of_rows(card, rows, variable_names=s.variable_names, state_names=names)
    return FactorGraph.trusted(structure, rows.log_values, graph.observed, graph.name)


def _names_left(s: Structure, possible: BoolArray) -> tuple[tuple[str, ...] | None, ...] | None:
    """Return the names of the states that are left."""
    if s.state_names is None:
        return None
    ends = zip(s.state_names, s.state_ptr[:-1].tolist(), s.state_ptr[1:].tolist(), strict=True)
    return tuple(own and tuple(np.array(own)[possible[a:b]].tolist()) for own, a, b in ends)
