"""Factors in the form in which graphs are compared. Only the values of a factor count, not the kind that states them.

Small factors of every kind are compared by their dense tables. A large factor becomes a few small tables over its
variables and over auxiliary variables, which are isomorphic exactly when the factors are:

    count, clause   c, one of two sides, and n, a number of variables: the values by n as seen from each side, and for
                    each variable which of its states is on which side. The two sides may be exchanged.
    parity          h, and its variables; parity_systems.py has the rest
    noisy_or        h, the inhibitor of each cause in its active state, and which variable is the effect
    sparse          s, one of the listed configurations, and the state of each variable in it

Each has a tag, an observed variable of one state in the scope of the table that replaces the factor. No other scope has
an observed variable. Every isomorphism therefore maps replaced factors to replaced factors, auxiliary variables to
auxiliary variables, and original variables and factors to original ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.clause import Clause
from equifactor.factors.count import Counting
from equifactor.factors.noisy_or import IN_SCOPE, ON, NoisyOr, log1mexp
from equifactor.factors.parity import Parity
from equifactor.factors.sparse import SparseTable
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows, by_kind, by_shape, merged
from equifactor.graph.kinds import kind_class, kind_name
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray

MAX_TABLE = 2**12  # Entries up to which a structured factor is compared by its dense table. Chosen by hand.
MAX_ONLY_TABLE = 2**16  # The same limit for kinds without another form. Chosen by hand.
MARK = 1000.0  # Tables of auxiliary variables hold multiples of this log value, far from real values. Chosen by hand.


def with_small_tables(graph: FactorGraph) -> FactorGraph:
    """Return the graph with dense tables in place of small structured factors, and counts in place of large clauses.

    Factors keep their numbers and scopes. The table of a relabelled factor is the relabelled table to the last bit.
    Raise `ModelError` for a factor that can only be compared by its table if the table is too large.
    """
    if graph.structure.kinds is None:
        return graph
    rows = graph.structure.rows(graph.log_phi)
    bits = rows.sum_of_edges(np.log2(rows.card))
    encoded = (TABLE, Parity.number, Clause.number, Counting.number, NoisyOr.number, SparseTable.number)
    only_table = ~np.isin(rows.kind, encoded)
    return _with_tables(graph, (rows.kind != TABLE) & (only_table | (bits <= np.log2(MAX_TABLE))))


def with_tables_at(graph: FactorGraph, factors: IntArray) -> FactorGraph:
    """Return the graph with dense tables in place of these factors; raise `ModelError` if a table is too large."""
    chosen = np.zeros(graph.num_factors, bool)
    chosen[factors] = True
    return _with_tables(graph, chosen)


def _with_tables(graph: FactorGraph, chosen: BoolArray) -> FactorGraph:
    """Return the graph with tables in place of the chosen factors [F], and counts in place of clauses and constants."""
    s = graph.structure
    rows = s.rows(graph.log_phi)
    bits = np.where(chosen, rows.sum_of_edges(np.log2(rows.card)), 0.0)
    if bits.max(initial=0.0) > np.log2(MAX_ONLY_TABLE):
        a = int(np.argmax(bits))
        raise ModelError(
            f"Factor {a} is a {kind_name(int(rows.kind[a]))} over {rows.arity[a]} variables with a dense table of "
            f"2^{bits[a]:.0f} entries. Models can be compared up to 2^{np.log2(MAX_ONLY_TABLE):.0f} entries.",
            factor=a,
        )
    parts = []
    for number, places in by_kind(rows):
        own, left = places[chosen[places]], places[~chosen[places]]
        for shape in by_shape(rows.take(own)):
            parts.append((own[shape], _as_tables(rows.take(own[shape]), number)))
        others = rows.take(left)
        if number == Parity.number:
            level = others.log_values[::2] == others.log_values[1::2]
            parts.append((left[level], _level_counts(others.take(np.flatnonzero(level)))))
            left, others = left[~level], others.take(np.flatnonzero(~level))
        parts.append((left, _as_counts(others) if number == Clause.number else others))
    changed = merged(parts)
    structure = Structure.of_rows(s.card, changed, variable_names=s.variable_names, state_names=s.state_names)
    return FactorGraph.trusted(structure, changed.log_values, graph.observed, graph.name)


def normal_factors(graph: FactorGraph) -> FactorGraph:
    """Return the graph with a unique form of each structured factor that `with_small_tables` left."""
    s = graph.structure
    if s.kinds is None:
        return graph
    rows = s.rows(graph.log_phi)
    normal = {Counting.number: _normal_count, NoisyOr.number: _normal_noisy_or, SparseTable.number: _normal_sparse}
    has_choice = np.isin(rows.kind, list(normal))
    others = np.flatnonzero(~has_choice)
    alone = [(np.array([a]), rows.take(np.array([a]))) for a in np.flatnonzero(has_choice).tolist()]
    changed = merged([(others, rows.take(others)), *((place, normal[int(row.kind[0])](row)) for place, row in alone)])
    return FactorGraph.trusted(Structure.of_rows(s.card, changed), changed.log_values, graph.observed, graph.name)


class NewTables:
    """Auxiliary variables, and tables that replace factors or follow all other factors."""

    def __init__(self, num_vars: int, num_factors: int) -> None:
        self.card: list[int] = []
        self.tags: list[int] = []
        self._num_vars, self._next_factor = num_vars, num_factors
        self._places: list[int] = []
        self._scopes: list[list[int]] = []
        self._tables: list[FloatArray] = []

    def variable(self, card: int) -> int:
        """Add an auxiliary variable and return its number."""
        self.card.append(card)
        return self._num_vars + len(self.card) - 1

    def replace(self, factor: int, scope: list[int], table: FloatArray) -> None:
        """Replace a factor by a table over these variables and a tag."""
        tag = self.variable(1)
        self.tags.append(tag)
        self._add(factor, [tag, *scope], table)

    def add(self, first: int, others: IntArray, tables: list[FloatArray]) -> None:
        """Append a table for the pair of one variable with each of the others."""
        for other, table in zip(others.tolist(), tables, strict=True):
            self.append([first, other], table)

    def append(self, scope: list[int], table: FloatArray) -> None:
        """Append a table after all others."""
        self._add(self._next_factor, scope, table)
        self._next_factor += 1

    def _add(self, place: int, scope: list[int], table: FloatArray) -> None:
        self._places.append(place)
        self._scopes.append(scope)
        self._tables.append(table.ravel())

    def rows(self) -> tuple[IntArray, FactorRows]:
        """Return the number of each table, and the tables; cardinalities of edges are left out."""
        none = np.zeros(len(self._places) + 1, np.int64)
        scope_vars = np.array([i for scope in self._scopes for i in scope], np.int64)
        rows = FactorRows(
            none[:-1],
            ptr_of([len(scope) for scope in self._scopes]), scope_vars,
            ptr_of([len(table) for table in self._tables]), np.concatenate([np.zeros(0), *self._tables]),
            none, none[:0],
            np.zeros(len(scope_vars), np.int64),
        )  # fmt: skip
        return np.array(self._places, np.int64), rows


def encode_count(new: NewTables, factor: int, row: FactorRows) -> None:
    """Add the tables of a count or a clause, as listed above."""
    side, number = new.variable(2), new.variable(int(row.arity[0]) + 1)
    values, steps = row.log_values, MARK * np.arange(row.arity[0] + 1)
    new.replace(factor, [side, number], np.stack((values, values[::-1])))
    new.add(side, np.array([number]), [np.stack((steps, steps))])
    positive = np.where(np.eye(2), -np.inf, 0.0)  # Side 0 has the states that are counted.
    new.add(side, row.scope_vars, [positive if sign else positive[::-1] for sign in row.words.tolist()])


def encode_level(new: NewTables, factor: int, row: FactorRows) -> None:
    """Add the tables of a count whose values are all the same, which has a scope and no sides."""
    head = new.variable(1)
    new.replace(factor, [head], row.log_values[:1])
    new.add(head, row.scope_vars, [np.full(2, 5 * MARK)] * len(row.scope_vars))


def encode_noisy_or(new: NewTables, factor: int, row: FactorRows) -> None:
    """Add the tables of a noisy-or, as listed above."""
    head = new.variable(2)
    known = min(int(row.words[0]), IN_SCOPE)
    new.replace(factor, [head], np.array([row.log_values[0], MARK * (1 + known)]))
    active = row.words[1:]
    is_effect = np.arange(len(active)) == row.words[0] - IN_SCOPE
    tables = np.full((len(active), 2, 2), MARK)
    tables[:, 0] = 0.0
    tables[np.flatnonzero(~is_effect), 0, active[~is_effect]] = row.log_values[1:]
    tables[is_effect, 1] = 2 * MARK
    tables[np.flatnonzero(is_effect), 0, active[is_effect]] = 3 * MARK
    new.add(head, row.scope_vars, list(tables))


def encode_sparse(new: NewTables, factor: int, row: FactorRows) -> None:
    """Add the tables of a sparse table, as listed above."""
    selector = new.variable(len(row.log_values))
    new.replace(factor, [selector], row.log_values)
    listed = row.words.reshape(-1, row.arity[0])
    tables = []
    for k, d in enumerate(row.card.tolist()):
        table = np.full((len(listed) + 1, d), -np.inf)
        table[0] = MARK  # All configurations that are not listed.
        table[1 + np.arange(len(listed)), listed[:, k]] = 0.0
        tables.append(table)
    new.add(selector, row.scope_vars, tables)


def without_default(row: FactorRows, tolerance: float) -> FactorRows:
    """Return a sparse table without configurations that have its default value."""
    default, values = row.log_values[0], row.log_values[1:]
    kept = (values != default) & ~(np.isfinite(values) & (np.abs(values - max(default, -1e300)) <= tolerance))
    listed = row.words.reshape(-1, row.arity[0])[kept]
    log_values = np.concatenate(([default], values[kept]))
    return row.with_values(ptr_of([len(log_values)]), log_values).with_words(ptr_of([listed.size]), listed.ravel())


def _normal_count(row: FactorRows) -> FactorRows:
    """Return the side with the smaller values; if both have the same, the side of state 1 of the first variable."""
    values, turned = row.log_values, row.log_values[::-1]
    if (values == values[0]).all():
        return row.with_words(row.word_ptr, np.ones_like(row.words))
    differ = np.flatnonzero(values != turned)
    if (turned[differ[0]] < values[differ[0]]) if len(differ) else row.words[0] == 0:
        return row.with_values(row.value_ptr, turned.copy()).with_words(row.word_ptr, 1 - row.words)
    return row


def _normal_noisy_or(row: FactorRows) -> FactorRows:
    """Return the row with active state 1 for each cause without an effect."""
    words = row.words.copy()
    is_cause = np.arange(row.arity[0]) != words[0] - IN_SCOPE
    causes = 1 + np.flatnonzero(is_cause)
    words[causes[row.log_values[1:] == 0.0]] = 1
    return row.with_words(row.word_ptr, words)


def _normal_sparse(row: FactorRows) -> FactorRows:
    """Return the row with sorted configurations, without those that have the default value."""
    row = without_default(row, 0.0)
    listed = row.words.reshape(-1, row.arity[0])
    order = np.lexsort(listed.T[::-1])
    values = np.concatenate((row.log_values[:1], row.log_values[1:][order]))
    return row.with_values(row.value_ptr, values).with_words(row.word_ptr, listed[order].ravel())


def _as_counts(rows: FactorRows) -> FactorRows:
    """Return clauses as counts of the literals that hold."""
    value_ptr = ptr_of(rows.arity + 1)
    values = np.zeros(value_ptr[-1])
    values[value_ptr[:-1]] = rows.log_values
    return rows.as_kind(Counting.number).with_values(value_ptr, values)


def _level_counts(rows: FactorRows) -> FactorRows:
    """Return parities with equal values for even and odd as counts with equal values."""
    value_ptr = ptr_of(rows.arity + 1)
    values = np.repeat(rows.log_values[::2], rows.arity + 1)
    words = np.ones(len(rows.scope_vars), np.int64)
    return rows.as_kind(Counting.number).with_values(value_ptr, values).with_words(rows.scope_ptr, words)


def _as_tables(rows: FactorRows, number: int) -> FactorRows:
    """Return factors of one kind and shape as dense tables."""
    log_tables = _noisy_or_tables(rows) if number == NoisyOr.number else kind_class(number).tables(rows)
    none = np.zeros(rows.num_factors + 1, np.int64)
    tables = rows.as_kind(TABLE).with_words(none, none[:0])
    return tables.with_values(ptr_of(np.full(rows.num_factors, log_tables[0].size)), log_tables.ravel())


def _noisy_or_tables(rows: FactorRows) -> FloatArray:
    """Return [N, size] the log tables of noisy-ors of one arity.

    Their values are sums over the active causes, and the last bit of a sum depends on the order of its terms. Here the
    terms are added from the smallest to the largest, an order that no relabelling changes.
    """
    count, arity = rows.num_factors, int(rows.arity[0])
    words = rows.words.reshape(count, arity + 1)
    known, signs = words[:, :1], words[:, 1:]
    is_effect = np.arange(arity) == known - IN_SCOPE  # [N, k]
    is_head = np.zeros(len(rows.log_values), bool)
    is_head[rows.value_ptr[:-1]] = True
    inhibitor = np.zeros((count, arity))
    inhibitor[~is_effect] = rows.log_values[~is_head]
    digits = np.indices((2,) * arity).reshape(arity, -1).T  # [size, k]
    active = digits == signs[:, None]  # [N, size, k]
    terms = np.sort(np.where(active, inhibitor[:, None], 0.0), axis=2)
    log_off = np.repeat(rows.log_values[is_head][:, None], len(digits), axis=1)
    for k in range(arity):
        log_off = log_off + terms[:, :, k]
    on = np.where(known >= IN_SCOPE, (active & is_effect[:, None]).any(axis=2), known == ON)
    return np.where(on, log1mexp(log_off), log_off)
