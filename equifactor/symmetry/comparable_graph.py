"""Graphs as tables that are isomorphic exactly when the graphs are, and the way back to relabellings of the graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.kind_comparison import MARK, AuxiliaryTables, comparison_of
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import merged
from equifactor.graph.kinds import kinds_with
from equifactor.graph.mixed_rows import with_states
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import place_in_row
from equifactor.symmetry.colour_refinement import bits, refine
from equifactor.symmetry.compared_factors import MAX_ONLY_TABLE, with_tables_at
from equifactor.symmetry.parity_systems import ParitySystem, parity_system

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.symmetry.relabelling import Relabelling


@dataclass(frozen=True, eq=False)
class ComparableGraph:
    """A graph of tables. Two graphs of tables are isomorphic exactly when the original graphs are isomorphic.

    The variables and factors of the original graph come first, followed by auxiliary variables and factors. A free
    variable, whose states only parities distinguish, has one state here.
    """

    tables: FactorGraph
    parities: ParitySystem | None

    def own_states(self, states: IntArray, state_ptr: IntArray) -> IntArray:
        """Return the effect [X] of a relabelling of the tables on the states of the graph; free variables stay."""
        own = place_in_row(state_ptr)
        if self.parities is None:
            return states[: len(own)]
        bound = np.repeat(~self.parities.is_free, np.diff(state_ptr))
        is_bound = np.repeat(~self.parities.is_free, np.where(self.parities.is_free, 1, np.diff(state_ptr)))
        own[bound] = states[: len(is_bound)][is_bound]
        return own


def comparable(graph: FactorGraph, exact: FactorGraph | None = None, tolerance: float = 0.0) -> ComparableGraph:
    """Return the tables of a graph that `with_small_tables` made.

    Args:
        graph: the graph.
        exact: the same graph with equal numbers for values that count as equal; None if `graph` already has them.
        tolerance: configurations of sparse tables within this distance of the default count as the default.
    """
    exact = graph if exact is None else exact
    parities = parity_system(exact)
    s = graph.structure
    if s.kinds is not None:
        stated = np.flatnonzero(kinds_with("is_parity", s.kinds.kind))
        left_out = np.setdiff1d(stated, np.zeros(0) if parities is None else parities.factors)
        if len(left_out):
            graph, exact = with_tables_at(graph, left_out), with_tables_at(exact, left_out)
    if parities is None and graph.structure.kinds is None:
        return ComparableGraph(graph, None)
    level = _level(exact)
    charges: list[_Charge] = []
    if parities is not None and parities.sets:
        charges = _charges(_encoded(exact, parities, [], level), parities)
    return ComparableGraph(_encoded(graph, parities, charges, level, tolerance), parities)


def _level(graph: FactorGraph) -> BoolArray:
    """Return [F] whether all stored values of a factor are the same."""
    values, ptr = graph.log_phi, graph.structure.table_ptr
    return np.asarray(np.maximum.reduceat(values, ptr[:-1]) == np.minimum.reduceat(values, ptr[:-1]))


def first_states(r: Relabelling) -> IntArray:
    """Return [V] the new number of state 0 of each variable."""
    return r.states[r.state_ptr[:-1]]


def with_swaps(r: Relabelling, swapped: BoolArray) -> Relabelling:
    """Return the relabelling with the new states of some variables [V] of two states exchanged."""
    at = np.repeat(swapped, np.diff(r.state_ptr))
    return replace(r, states=np.where(at, 1 - r.states, r.states))


@dataclass(frozen=True)
class _Charge:
    """The total turn of a set of parities: the turn of the parities, and the variables whose state 1 changes it."""

    members: list[int]
    odd: bool
    variables: IntArray


def _charges(base: FactorGraph, parities: ParitySystem) -> list[_Charge]:
    """Return the charge of every set; if the colours of two states differ, the smaller colour counts as state 0."""
    num_vars = len(parities.is_free)
    decided, second = np.zeros(num_vars, bool), np.zeros(num_vars, bool)
    bound = np.unique(parities.scope_vars[~parities.is_free[parities.scope_vars]])
    if len(bound):
        states = refine(base, bits(base.log_phi)).states
        first = base.structure.state_ptr[bound]
        decided[bound] = states[first] != states[first + 1]
        second[bound] = states[first] > states[first + 1]
    turned = parities.turns_after(second & decided)
    charges = []
    for members in parities.sets:
        scopes = [parities.scope_vars[parities.scope_ptr[p] : parities.scope_ptr[p + 1]] for p in members]
        variables, count = np.unique(np.concatenate(scopes), return_counts=True)
        open_ones = variables[(count % 2 == 1) & ~decided[variables] & ~parities.is_free[variables]]
        if len(open_ones) > np.log2(MAX_ONLY_TABLE):
            a = int(parities.factors[members[0]])
            raise ModelError(
                f"Factor {a} is a parity over {len(open_ones)} variables whose two states look the same. Models can be "
                f"compared up to {np.log2(MAX_ONLY_TABLE):.0f} of these variables.",
                factor=a,
            )
        charges.append(_Charge(members, bool(turned[members].sum() % 2), open_ones))
    return charges


def _encoded(
    graph: FactorGraph,
    parities: ParitySystem | None,
    charges: list[_Charge],
    level: BoolArray,
    tolerance: float = 0.0,
) -> FactorGraph:
    """Return the graph with tables and auxiliary variables for structured factors; `level` [F] marks constants."""
    s = graph.structure
    rows = s.rows(graph.log_phi)
    is_parity = np.zeros(s.num_factors, bool)
    is_free = np.zeros(s.num_vars, bool)
    new = AuxiliaryTables(s.num_vars, s.num_factors)
    if parities is not None:
        is_parity[parities.factors], is_free = True, parities.is_free
        _encode_parities(new, graph, parities, charges)
    for a in np.flatnonzero((rows.kind != TABLE) & ~is_parity).tolist():
        comparison, row = comparison_of(int(rows.kind[a])), rows.take(np.array([a]))
        assert comparison is not None, "with_small_tables left only kinds that have a comparison"
        comparison.encode(new, a, row, constant=bool(level[a]), tolerance=tolerance)
    tables = np.flatnonzero((rows.kind == TABLE) & ~is_parity)
    own = rows.take(tables)
    own_card = np.where(is_free, 1, s.card)
    if len(tables) and is_free.any():
        state = place_in_row(s.state_ptr)
        own = with_states(own, np.where(np.repeat(is_free, s.card) & (state > 0), -1, state), s.state_ptr, own_card)
    all_tables = merged([(tables, own), new.rows()])
    card = np.concatenate((own_card, np.array(new.card, np.int64)))
    observed = np.full(len(card), -1)
    observed[: s.num_vars] = -1 if graph.observed is None else graph.observed
    observed[new.tags] = 0
    return FactorGraph.trusted(Structure.of_rows(card, all_tables), all_tables.log_values, observed)


def _encode_parities(new: AuxiliaryTables, graph: FactorGraph, parities: ParitySystem, charges: list[_Charge]) -> None:
    """Add a head variable for every parity, with its smaller and larger value; free variables share its scope."""
    s = graph.structure
    first = graph.log_phi[s.table_ptr[parities.factors]]
    second = graph.log_phi[s.table_ptr[parities.factors] + 1]  # The value of an odd number of ones.
    values = np.where(parities.turned[:, None], np.stack((second, first), 1), np.stack((first, second), 1))
    heads = []
    for p, a in enumerate(parities.factors.tolist()):
        scope = parities.scope_vars[parities.scope_ptr[p] : parities.scope_ptr[p + 1]]
        free = parities.is_free[scope]
        heads.append(new.variable(2))
        new.replace(a, [heads[-1], *scope[free].tolist()], values[p])
        bound = scope[~free]
        new.add(heads[-1], bound, [np.full(4, 4 * MARK)] * len(bound))
    for charge in charges:
        whole = new.variable(1)
        odd = np.bitwise_count(np.arange(2 ** len(charge.variables))) % 2 ^ charge.odd
        new.append([whole, *charge.variables.tolist()], MARK * (30.0 + odd.astype(np.float64)))
        of_members = np.array([heads[p] for p in charge.members])
        new.add(whole, of_members, [np.full(2, 7 * MARK)] * len(of_members))
