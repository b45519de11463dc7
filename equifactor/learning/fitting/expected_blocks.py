"""Expected counts of a whole table of data, block by block.

Variables that have a value in every row separate the others into *blocks*: variables with gaps that share factors. The
sum over missing values is a product of sums over the blocks, and rows that agree in a block and beside it are one row
there. So a hidden variable in a large network costs no more than its neighbourhood, and a few hundred rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.graph.components import connected_components
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import picked
from equifactor.learning.fitting.data_table import DataTable
from equifactor.learning.fitting.enumerated_expectation import EnumeratedExpectation
from equifactor.learning.fitting.expected_counts import ExactExpectation
from equifactor.learning.fitting.network_tables import dot
from equifactor.learning.fitting.table_codes import table_codes, table_counts

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray


_FEW = 2**6  # completions of neighbouring missing values up to which nothing else is thought of than enumeration
_MANY = 2**20  # completions above which they are never enumerated


class BlockExpectation:
    """The rows of a table, made ready once for expected counts under any tables of a graph.

    Args:
        graph: the model, of any kinds of factors. The values of factors that are no tables stay as they are.
        table: the rows.
        memory_limit: GiB for the elimination of a block.

    Rows of a block in which few neighbouring values are missing are enumerated, completion by completion; the others
    are eliminated, all along one plan: whichever takes fewer steps. A step takes 4 to 8 ns either way. Raises
    `SolveError` where neither fits.
    """

    def __init__(self, graph: FactorGraph, table: DataTable, memory_limit: float) -> None:
        s = graph.structure
        self.graph, self.table = graph, table
        self.total = float(table.weights.sum())
        block_of = connected_components(s, np.where(table.has_gaps, -1, 0))  # [V] -1 where there are no gaps
        touched = np.full(s.num_factors, -1)
        np.maximum.at(touched, s.factor_of_edge, block_of[s.scope_vars])
        kind = np.zeros(s.num_factors, np.int64) if s.kinds is None else s.kinds.kind
        self._tables = np.flatnonzero((touched < 0) & (kind == 0))  # tables whose whole scope is in every row
        self._seen = table_counts(s, self._tables, table)
        others = self._scores_of(np.flatnonzero((touched < 0) & (kind > 0)))
        self._constant, self._lowest = dot(table.weights, others), int(np.argmin(others))
        self._blocks = [
            _Block.of(graph, np.flatnonzero(touched == n), table, memory_limit)
            for n in np.unique(touched[touched >= 0])
        ]

    def counts(self, log_phi: FloatArray, clock: Clock | None = None) -> tuple[FloatArray, float] | None:
        """The expected counts [T] over all rows, and the log-likelihood of all; None where the clock stops it.

        Args:
            log_phi: [T] the tables of the graph.
            clock: where it stops.

        Raises `ModelError` with the row where one has probability zero.
        """
        counts, log_likelihood = self._seen.copy(), self._score(log_phi)
        for block in self._blocks:
            found = block.counts(log_phi, clock)
            if found is None:
                return None
            expected, log_p = found
            if np.any(np.isneginf(log_p)):
                states = block.rows.states[int(np.argmin(log_p))]
                raise _impossible(int(np.argmax((self.table.states[:, block.part.variables] == states).all(axis=1))))
            counts[block.part.entries] = expected
            log_likelihood += dot(block.rows.weights, log_p)
        if log_likelihood == -np.inf:
            raise _impossible(self._zero_row(log_phi))
        return counts, log_likelihood

    def mean_log_score(self, log_phi: FloatArray, clock: Clock | None = None) -> float | None:
        """The mean over rows of the log of the sum of all scores that agree with it; -inf where a row has none."""
        total = self._score(log_phi)
        for block in self._blocks:
            log_p = block.log_scores(log_phi, clock)
            if log_p is None:
                return None
            total += dot(block.rows.weights, log_p)
        return total / self.total

    def _score(self, log_phi: FloatArray) -> float:
        """The log score of all rows in the factors that have all their values."""
        return dot(self._seen, log_phi) + self._constant

    def _scores_of(self, factors: IntArray) -> FloatArray:
        """[N] the log score of each row in some factors that are no tables."""
        part = _part_of(self.graph, factors)
        scores: FloatArray = part.graph.log_score(self.table.states[:, part.variables])
        return scores

    def _zero_row(self, log_phi: FloatArray) -> int:
        """A row at which a factor is zero that has all its values."""
        s = self.graph.structure
        for a, code, _ in table_codes(s, self._tables, self.table):
            zero = np.isneginf(log_phi[s.table_ptr[a] + code])
            if zero.any():
                return int(np.argmax(zero))
        return self._lowest


def _impossible(row: int) -> ModelError:
    """The error for a row that has probability zero; no step of EM can change that."""
    return ModelError(
        f"data, row {row}: it has probability zero whatever the learned tables are: a factor that stays as it is, or a "
        "zero in the structure's tables that EM starts from, rules it out"
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """Some factors of a graph as a graph of their own."""

    graph: FactorGraph
    variables: IntArray  # [v] in the whole graph
    entries: IntArray  # [t] its log values, in the whole graph


def _part_of(graph: FactorGraph, factors: IntArray) -> _Part:
    s = graph.structure
    rows = s.rows(graph.log_phi).take(factors)
    variables, own = np.unique(rows.scope_vars, return_inverse=True)
    rows = replace(rows, scope_vars=own.ravel().astype(np.int64))
    structure = Structure.of_rows(s.card[variables], rows)
    return _Part(FactorGraph.trusted(structure, rows.log_values), variables, picked(s.table_ptr, factors)[1])


@dataclass(frozen=True, eq=False)
class _Block:
    """Variables with gaps that share factors, these factors, and the different rows over their scopes."""

    part: _Part
    rows: DataTable  # [n, v] first those that are enumerated, then those that are eliminated
    enumerated: EnumeratedExpectation
    eliminated: ExactExpectation | None

    @classmethod
    def of(cls, graph: FactorGraph, factors: IntArray, table: DataTable, memory_limit: float) -> _Block:
        """Choose how each row is summed; `SolveError` where neither way will do."""
        part = _part_of(graph, factors)
        s = part.graph.structure
        rows = DataTable(np.asfortranarray(table.states[:, part.variables]), table.weights).merged
        if s.kinds is not None:
            none = EnumeratedExpectation(s, rows.states[:0])
            return cls(part, rows, none, ExactExpectation(part.graph, memory_limit))
        ways = EnumeratedExpectation(s, rows.states)
        if ways.largest.max() <= _FEW:
            return cls(part, rows, ways, None)
        try:
            eliminated = ExactExpectation(part.graph, memory_limit)
        except SolveError:
            if ways.largest.max() > _MANY:
                raise
            return cls(part, rows, ways, None)
        few = (ways.largest <= _MANY) & (ways.steps <= eliminated.steps)
        order = np.concatenate((np.flatnonzero(few), np.flatnonzero(~few)))
        return cls(part, rows.take(order), ways.of_rows(np.flatnonzero(few)), None if few.all() else eliminated)

    def counts(self, log_phi: FloatArray, clock: Clock | None) -> tuple[FloatArray, FloatArray] | None:
        """Expected counts [t] and the log score [n] of each row; None where the clock stops it."""
        own, n = log_phi[self.part.entries], len(self.enumerated.largest)
        found = self.enumerated.counts(own, self.rows.weights[:n], clock)
        if found is None or self.eliminated is None:
            return found
        more = self.eliminated.counts(own, self.rows.states[n:], self.rows.weights[n:], clock)
        return None if more is None else (found[0] + more[0], np.concatenate((found[1], more[1])))

    def log_scores(self, log_phi: FloatArray, clock: Clock | None) -> FloatArray | None:
        """The log of the sum [n] of all scores that agree with each row; None where the clock stops it."""
        own, n = log_phi[self.part.entries], len(self.enumerated.largest)
        found = self.enumerated.log_scores(own, clock)
        if found is None or self.eliminated is None:
            return found
        more = self.eliminated.log_scores(own, self.rows.states[n:], clock)
        return None if more is None else np.concatenate((found, more))
