"""Expected counts of all rows of data, block by block.

A *block* is a set of variables with gaps that share factors. Variables that have a value in every row separate the
blocks. The sum over missing values is a product of sums over the blocks. Rows that agree on a block and its neighbours
are merged in that block. So the cost of a hidden variable in a large network depends only on its neighbourhood, and
often on a few hundred distinct rows.
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
from equifactor.learning.fitting.conditional_tables import dot
from equifactor.learning.fitting.data_rows import DataRows
from equifactor.learning.fitting.enumerated_expectation import EnumeratedExpectation
from equifactor.learning.fitting.expected_counts import ExactExpectation
from equifactor.learning.fitting.table_codes import table_codes, table_counts

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray


_FEW = 2**6  # Up to this number of completions, rows are enumerated without planning an elimination. Chosen by hand.
_MANY = 2**20  # Above this number of completions, rows are never enumerated. Chosen by hand.


class BlockExpectation:
    """Rows of data, prepared once for expected counts under any tables of a graph.

    Args:
        graph: the model, with factors of any kind. Structured factors are not learned.
        data: the rows.
        memory_limit: GiB for the elimination of a block.

    Rows of a block in which few neighbouring values are missing are enumerated, completion by completion. The others
    are eliminated, all along one plan. Each row takes the way with fewer steps; a step takes 4 to 8 ns either way.
    Raises `SolveError` if neither way fits.
    """

    def __init__(self, graph: FactorGraph, data: DataRows, memory_limit: float) -> None:
        s = graph.structure
        self.graph, self.data = graph, data
        self.total = float(data.weights.sum())
        block_of = connected_components(s, np.where(data.has_gaps, -1, 0))  # [V] -1 for a variable without gaps
        touched = np.full(s.num_factors, -1)
        np.maximum.at(touched, s.factor_of_edge, block_of[s.scope_vars])
        kind = np.zeros(s.num_factors, np.int64) if s.kinds is None else s.kinds.kind
        self._tables = np.flatnonzero((touched < 0) & (kind == 0))  # Tables whose whole scope has values in every row.
        self._seen = table_counts(s, self._tables, data)
        others = self._scores_of(np.flatnonzero((touched < 0) & (kind > 0)))
        self._constant, self._lowest = dot(data.weights, others), int(np.argmin(others))
        self._blocks = [
            _Block.of(graph, np.flatnonzero(touched == n), data, memory_limit) for n in np.unique(touched[touched >= 0])
        ]

    def counts(self, log_phi: FloatArray, clock: Clock | None = None) -> tuple[FloatArray, float] | None:
        """Return the expected counts [T] over all rows, and the log-likelihood of the rows; None if the clock stops it.

        Args:
            log_phi: [T] the log tables of the graph.
            clock: the clock that may stop the computation.

        Raises `ModelError` with the number of a row that has probability zero.
        """
        counts, log_likelihood = self._seen.copy(), self._score(log_phi)
        for block in self._blocks:
            found = block.counts(log_phi, clock)
            if found is None:
                return None
            expected, log_p = found
            if np.any(np.isneginf(log_p)):
                states = block.rows.states[int(np.argmin(log_p))]
                raise _impossible(int(np.argmax((self.data.states[:, block.part.variables] == states).all(axis=1))))
            counts[block.part.entries] = expected
            log_likelihood += dot(block.rows.weights, log_p)
        if log_likelihood == -np.inf:
            raise _impossible(self._zero_row(log_phi))
        return counts, log_likelihood

    def mean_log_score(self, log_phi: FloatArray, clock: Clock | None = None) -> float | None:
        """Return the mean over rows of ln (sum of the scores of all completions of the row); -inf if a sum is zero."""
        total = self._score(log_phi)
        for block in self._blocks:
            log_p = block.log_scores(log_phi, clock)
            if log_p is None:
                return None
            total += dot(block.rows.weights, log_p)
        return total / self.total

    def _score(self, log_phi: FloatArray) -> float:
        """Return the log score of all rows in the factors whose whole scope has values."""
        return dot(self._seen, log_phi) + self._constant

    def _scores_of(self, factors: IntArray) -> FloatArray:
        """Return the log score [N] of each row in some structured factors."""
        part = _part_of(self.graph, factors)
        scores: FloatArray = part.graph.log_score(self.data.states[:, part.variables])
        return scores

    def _zero_row(self, log_phi: FloatArray) -> int:
        """Return a row for which a factor without missing values in its scope is zero."""
        s = self.graph.structure
        for a, code, _ in table_codes(s, self._tables, self.data):
            zero = np.isneginf(log_phi[s.table_ptr[a] + code])
            if zero.any():
                return int(np.argmax(zero))
        return self._lowest


def _impossible(row: int) -> ModelError:
    """Return the error for a row that has probability zero, which no step of EM can change."""
    return ModelError(
        f"data, row {row}: the row has probability zero for all learned tables. A factor that is not learned excludes "
        "it, or a zero in the tables from which EM starts excludes it."
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """Some factors of a graph as a separate graph."""

    graph: FactorGraph
    variables: IntArray  # [v] the numbers of its variables in the whole graph
    entries: IntArray  # [t] the places of its log values in the whole graph


def _part_of(graph: FactorGraph, factors: IntArray) -> _Part:
    s = graph.structure
    rows = s.rows(graph.log_phi).take(factors)
    variables, own = np.unique(rows.scope_vars, return_inverse=True)
    rows = replace(rows, scope_vars=own.ravel().astype(np.int64))
    structure = Structure.of_rows(s.card[variables], rows)
    return _Part(FactorGraph.trusted(structure, rows.log_values), variables, picked(s.table_ptr, factors)[1])


@dataclass(frozen=True, eq=False)
class _Block:
    """A block: variables with gaps, the factors that they share, and the distinct rows over their scopes."""

    part: _Part
    rows: DataRows  # [n, v] first the enumerated rows, then the eliminated rows
    enumerated: EnumeratedExpectation
    eliminated: ExactExpectation | None

    @classmethod
    def of(cls, graph: FactorGraph, factors: IntArray, data: DataRows, memory_limit: float) -> _Block:
        """Choose how each row is summed; raise `SolveError` if neither way fits."""
        part = _part_of(graph, factors)
        s = part.graph.structure
        rows = DataRows(np.asfortranarray(data.states[:, part.variables]), data.weights).merged
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
        """Return expected counts [t] and the log score [n] of each row; None if the clock stops it."""
        own, n = log_phi[self.part.entries], len(self.enumerated.largest)
        found = self.enumerated.counts(own, self.rows.weights[:n], clock)
        if found is None or self.eliminated is None:
            return found
        more = self.eliminated.counts(own, self.rows.states[n:], self.rows.weights[n:], clock)
        return None if more is None else (found[0] + more[0], np.concatenate((found[1], more[1])))

    def log_scores(self, log_phi: FloatArray, clock: Clock | None) -> FloatArray | None:
        """Return the log of the sum [n] of all scores that agree with each row; None if the clock stops it."""
        own, n = log_phi[self.part.entries], len(self.enumerated.largest)
        found = self.enumerated.log_scores(own, clock)
        if found is None or self.eliminated is None:
            return found
        more = self.eliminated.log_scores(own, self.rows.states[n:], clock)
        return None if more is None else np.concatenate((found, more))
