"""Factor graphs as weighted formulas: clauses that must hold, and log weights of literals.

Symbols: literal 2v is "variable v of the formula is true", 2v + 1 its negation. A variable with two states is one
variable of the formula; one with more states is a variable per state, of which exactly one is true.

A table is divided by its largest entry. A zero becomes a clause. Every other value `a < 1` gets a variable `t` of
weight `a` (false: `1 - a`) and the clauses "these states imply t". So `t` sums to 1 where the states differ. Equal
entries share `t`, and clauses that differ in one sign are merged into one (Quine and McCluskey).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Budget
from equifactor.factors.lowered_graph import lower
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import by_kind
from equifactor.graph.kinds import kind_class
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_rows import FactorRows

LitClause = frozenset[int]
Cube = tuple[int, ...]  # the states of each variable of a table, as a mask of bits
_LONGEST_TABLE = 12  # Literals of a clause that becomes a table. Chosen by hand.
_PACE = 3e5  # Literals per reference second of work on them.
_LOOK = 16  # Tables from one look at the clock to the next: tables of 400 different entries take 10 ms each.
_MOST_LITERALS = 3e6  # Literals of all clauses before they are merged: about 10 s of work. Chosen by hand.


@dataclass(frozen=True, eq=False)
class WeightedFormula:
    """A formula whose weighted count is Z of a graph.

    The count is the sum over all assignments that satisfy the clauses of the product of the weights of their literals,
    times `exp(constant)`.
    """

    num_vars: int
    clauses: list[LitClause]
    log_weights: FloatArray  # [2n] of literals
    constant: float
    state_literal: IntArray  # [X] the literal that holds in each state of the graph
    is_value: BoolArray  # [n] whether a variable stands for a value of a factor, and not for a state

    def as_tables(self) -> FactorGraph | None:
        """Return the formula as a graph of tables over n variables; None if a clause has too many literals for that."""
        sizes = np.array([len(clause) for clause in self.clauses], np.int64)
        if sizes.max(initial=0) > _LONGEST_TABLE:
            return None
        n = self.num_vars
        literals = np.array([x for clause in self.clauses for x in sorted(clause)], np.int64)
        scope_ptr = ptr_of(np.append(sizes, np.ones(n, np.int64)))
        structure = Structure.build(np.full(n, 2), scope_ptr, np.append(literals >> 1, np.arange(n)))
        violated = np.zeros(len(sizes), np.int64)  # the entry at which every literal is false
        np.add.at(violated, np.repeat(np.arange(len(sizes)), sizes), structure.stride[: len(literals)] * (literals & 1))
        log_phi = np.zeros(structure.num_entries)
        log_phi[structure.table_ptr[: len(sizes)] + violated] = -np.inf
        log_phi[structure.table_ptr[len(sizes)] :] = self.log_weights.reshape(-1, 2)[:, ::-1].ravel()
        return FactorGraph.trusted(structure, log_phi, None)


def formula_of(graph: FactorGraph, clock: Clock | None = None) -> WeightedFormula | None:
    """Return the formula of a graph without observed variables; None if it would have too many literals.

    Args:
        graph: the graph.
        clock: if it stops, or would stop before the end, the answer is None; None for no limit.

    Raises:
        ModelError: if a structured factor other than a clause is too large for tables.
    """
    s = graph.structure
    rows = s.rows(graph.log_phi)
    signs = {n: None if n == TABLE else kind_class(n).literal_signs(rows.take(at)) for n, at in by_kind(rows)}
    is_clause = np.isin(rows.kind, [n for n, own in signs.items() if own is not None])
    clauses = rows.take(np.flatnonzero(is_clause))
    if is_clause.any():
        others = rows.take(np.flatnonzero(~is_clause))
        graph = FactorGraph.trusted(Structure.of_rows(s.card, others), others.log_values, None)
    graph = lower(graph).graph
    builder = FormulaBuilder(graph.card, len(s.card))
    needed = 4 * len(clauses.scope_vars) + builder.literals_of_states() + builder.literals_of_tables(graph)
    # Fast processors do not make this work faster.
    seconds = np.inf if clock is None else min(clock.left, Budget(clock).left)
    if needed > min(_MOST_LITERALS, _PACE * seconds):
        return None
    builder.add_states()
    builder.add_clauses(clauses)
    return builder.finish() if builder.add_tables(graph, clock) else None


class FormulaBuilder:
    """Collects clauses and weights.

    Args:
        card: the number of states of each variable [V], auxiliary ones at the end.
        num_own: how many of the variables are those of the graph itself.
    """

    def __init__(self, card: IntArray, num_own: int) -> None:
        wide = card > 2
        size = np.where(wide, card, 1)
        first = ptr_of(size)
        state_ptr = ptr_of(card)
        step = np.arange(state_ptr[-1]) - np.repeat(state_ptr[:-1], card)
        self.literal = np.where(
            np.repeat(wide, card), 2 * (np.repeat(first[:-1], card) + step), 2 * np.repeat(first[:-1], card) + 1 - step
        )
        self.state_ptr, self.card = state_ptr, card
        self.num_states = int(state_ptr[num_own])
        self.clauses: set[LitClause] = set()
        self.weights = [0.0] * (2 * int(first[-1]))
        self.constant = 0.0
        self.values: list[int] = []
        self._known: dict[tuple[bytes, tuple[int, ...]], tuple[float, list[tuple[float, list[Cube]]]]] = {}

    def literals_of_states(self) -> float:
        """Return the number of literals of the clauses by which a variable has one of its three or more states."""
        return float((self.card[self.card > 2].astype(np.float64) ** 2).sum())

    def add_states(self) -> None:
        """Add the clauses by which a variable has one of its states; those of two states have one without a clause."""
        self.clauses.update(frozenset((x,)) for x in self.literal[self.state_ptr[:-1][self.card == 1]].tolist())
        for i in np.flatnonzero(self.card > 2).tolist():
            own = self.literal[self.state_ptr[i] : self.state_ptr[i + 1]].tolist()
            self.clauses.add(frozenset(own))
            self.clauses.update(frozenset((own[a] ^ 1, own[b] ^ 1)) for a in range(len(own)) for b in range(a))

    def literals_of_tables(self, graph: FactorGraph) -> float:
        """Return an upper bound on the number of literals that the tables need."""
        s = graph.structure
        return float((np.diff(s.table_ptr) * np.where(s.arity > 1, s.arity + 1, 0)).sum())

    def variable(self, log_weight: float) -> int:
        """Add a variable that is true with this weight below 1, and false with the rest; return its literal."""
        self.values.append(len(self.weights) // 2)
        self.weights += [log_weight, float(np.log(-np.expm1(log_weight)))]
        return len(self.weights) - 2

    def add_clauses(self, rows: FactorRows) -> None:
        """Add clauses over variables of two states, which may have a weight."""
        for number, places in by_kind(rows):
            own = rows.take(places)
            signs = kind_class(number).literal_signs(own)
            assert signs is not None
            literals = (self.literal[self.state_ptr[own.scope_vars] + signs]).tolist()
            for a, value in enumerate(own.log_values.tolist()):
                clause = frozenset(literals[own.scope_ptr[a] : own.scope_ptr[a + 1]])
                if value == -np.inf:
                    self.clauses.add(clause)
                elif value < 0.0:
                    self.clauses.add(clause | {self.variable(value)})
                elif value > 0.0:  # the factor is largest where no literal holds
                    self.constant += value
                    self.clauses.update(frozenset((x ^ 1, t)) for t in [self.variable(-value)] for x in clause)

    def add_tables(self, graph: FactorGraph, clock: Clock | None = None) -> bool:
        """Add the tables of a graph without structured factors; return False if the clock stops before the end."""
        s, log_phi = graph.structure, graph.log_phi
        for a in range(s.num_factors):
            if clock is not None and a % _LOOK == 0 and clock.stopped:
                return False
            table = log_phi[s.table_ptr[a] : s.table_ptr[a + 1]]
            scope = s.scope(a).tolist()
            if len(scope) == 1:
                self._add_unary(scope[0], table.tolist())
                continue
            key = table.tobytes(), s.shape(a)
            if key not in self._known:
                self._known[key] = _values_of(table.reshape(s.shape(a)))
            top, values = self._known[key]
            if top == -np.inf:
                self.clauses.add(frozenset())
                continue
            self.constant += top
            for value, cubes in values:
                implied = () if value == -np.inf else (self.variable(value),)
                self.clauses.update(frozenset((*self._outside(scope, cube), *implied)) for cube in cubes)
        return True

    def _add_unary(self, variable: int, values: list[float]) -> None:
        for state, value in enumerate(values):
            literal = int(self.literal[self.state_ptr[variable] + state])
            if value == -np.inf:
                self.clauses.add(frozenset((literal ^ 1,)))
            else:
                self.weights[literal] += value

    def _outside(self, scope: list[int], cube: Cube) -> Iterable[int]:
        """Yield the literals of "the states are not in this cube"."""
        for i, mask in zip(scope, cube, strict=True):
            own = self.literal[self.state_ptr[i] : self.state_ptr[i + 1]].tolist()
            if mask == (1 << len(own)) - 1:
                continue
            if mask & (mask - 1) == 0:
                yield own[mask.bit_length() - 1] ^ 1
            else:
                yield from (x for state, x in enumerate(own) if not mask >> state & 1)

    def finish(self) -> WeightedFormula:
        """Merge clauses and return the formula."""
        clauses = sorted(map(sorted, merged_clauses(self.clauses)))
        weights = np.array(self.weights)
        literal = self.literal[: self.num_states]
        is_value = np.zeros(len(weights) // 2, bool)
        is_value[self.values] = True
        return WeightedFormula(len(is_value), [*map(frozenset, clauses)], weights, self.constant, literal, is_value)


def _values_of(table: FloatArray) -> tuple[float, list[tuple[float, list[Cube]]]]:
    """Return the largest log entry of a table, and the cubes of every other value, less the largest one."""
    top = float(table.max())
    if top == -np.inf:
        return top, []
    values = np.unique(table[table < top]).tolist()
    return top, [(value - top, _cubes(table == value)) for value in values]


def _cubes(inside: BoolArray) -> list[Cube]:
    """Return cubes that together hold the marked entries; pairs of two-state variables are left to the merging."""
    cubes = {tuple(1 << state for state in states) for states in np.argwhere(inside).tolist()}
    for j, d in enumerate(inside.shape):
        if d == 2:
            continue
        joined: dict[Cube, int] = {}
        for cube in cubes:
            rest = cube[:j] + cube[j + 1 :]
            joined[rest] = joined.get(rest, 0) | cube[j]
        cubes = {(*rest[:j], mask, *rest[j:]) for rest, mask in joined.items()}
    return sorted(cubes)


def merged_clauses(clauses: set[LitClause]) -> set[LitClause]:
    """Replace pairs of clauses that differ in the sign of one literal by their resolvent, until no pair is left."""
    found = set(clauses)
    fresh = found
    while fresh:
        new: set[LitClause] = set()
        old: set[LitClause] = set()
        for clause in fresh:
            for x in clause:
                rest = clause - {x}
                other = rest | {x ^ 1}
                if other in found:
                    new.add(rest)
                    old |= {clause, other}
        found = (found - old) | new
        fresh = new
    return found
