"""The conditional probability tables of a Bayesian network that is fitted: counts, priors, and tables from counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.graph.kinds import kind_name
from equifactor.graph.parents import ROUNDING, Families, families_of
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.factors.kind_learning import KindLearning
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.learning.fitting.fit_method import FitContext

Prior = float | Literal["k2", "bdeu", "none"] | None


@dataclass(frozen=True, eq=False)
class ConditionalTables:
    """The conditional tables of a network: which entries are learned, form one distribution, or are shared.

    A *row* of a table is the distribution of the child for one configuration of the parents.
    """

    graph: FactorGraph
    families: Families
    free: IntArray  # The factors that are learned.
    tied: tuple[IntArray, ...]  # [k, n] for each group: the n entries of k factors that share one table
    structured: tuple[KindLearning, ...] = ()  # Factors with parameters of their kind, learned instead of entries.

    @classmethod
    def of(
        cls, graph: FactorGraph, context: FitContext, method: str, structured: tuple[KindLearning, ...] = ()
    ) -> ConditionalTables:
        """Return the tables of a network, after checking its families, fixed factors and ties."""
        families = families_of(
            graph, f"{method} fits a Bayesian network", "The methods likelihood and pseudo-likelihood fit any graph."
        )
        s = graph.structure
        is_free = s.is_table.copy()
        is_free[[*context.fixed, *(part.factor for part in structured)]] = False
        for a in np.flatnonzero(~is_free).tolist():
            _check_fixed(graph, a, int(families.slot[a]))
        for group in context.tied:
            a = next((a for a in group if families.slot[a] != families.slot[group[0]]), -1)
            if a >= 0:
                raise OptionError(
                    f"Tied factors must have their child at the same place of their scopes. The child is at place "
                    f"{families.slot[a]} in factor {a} and at place {families.slot[group[0]]} in factor {group[0]}."
                )
        entries = [
            s.table_ptr[list(group)][:, None] + np.arange(np.diff(s.table_ptr)[group[0]]) for group in context.tied
        ]
        return cls(graph, families, np.flatnonzero(is_free), tuple(entries), structured)

    @cached_property
    def is_free(self) -> BoolArray:
        """[T] whether an entry is learned."""
        s = self.graph.structure
        factors = np.zeros(s.num_factors, bool)
        factors[self.free] = True
        return factors[row_of(s.table_ptr)]

    @cached_property
    def _child_card(self) -> IntArray:
        """[F] the number of states of the child."""
        s = self.graph.structure
        return s.card[s.scope_vars[s.scope_ptr[:-1] + self.families.slot]]

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray]:
        """[T] the row of each entry, counted over all tables, and [R] the number of entries of each row."""
        s = self.graph.structure
        is_table = np.zeros(s.num_factors, bool)
        is_table[self.free] = True
        size = np.diff(s.table_ptr)
        card = np.where(is_table, self._child_card, 1)  # Every entry of a factor that is not learned is a separate row.
        stride = np.where(is_table, s.stride[s.scope_ptr[:-1] + self.families.slot], 1)
        first = ptr_of(size // card)
        a = row_of(s.table_ptr)
        entry = np.arange(s.num_entries) - s.table_ptr[a]
        block = stride[a] * card[a]
        row = first[a] + (entry // block) * stride[a] + entry % stride[a]
        return row, np.repeat(card, size // card)

    def about_kept(self, fixed: frozenset[int]) -> str:
        """Return a sentence about structured factors that are neither learned nor fixed, or an empty text."""
        kinds = self.graph.structure.kinds
        kept = [] if kinds is None else sorted(set(np.flatnonzero(kinds.kind).tolist()) - fixed)
        if not kept or kinds is None:
            return ""
        names = ", ".join(sorted({kind_name(int(kinds.kind[a])) for a in kept}))
        which = f"Factor {kept[0]} is a structured factor ({names}) and is not learned."
        return which if len(kept) == 1 else f"{len(kept):,} structured factors ({names}) are not learned."

    # ---- counts -----------------------------------------------------------------------------------------

    def prior(self, prior: Prior) -> FloatArray:
        """Return the counts [T] before any data: a number spread evenly over each table (BDeu), or 1 per entry (K2)."""
        s = self.graph.structure
        if prior == "k2":
            return np.where(self.is_free, 1.0, 0.0)
        strength = {"none": 0.0, None: 0.0, "bdeu": 1.0}[prior] if prior is None or isinstance(prior, str) else prior
        size = np.diff(s.table_ptr)
        return np.where(self.is_free, np.repeat(strength / np.maximum(size, 1), size), 0.0)

    # ---- tables from counts -----------------------------------------------------------------------------

    def shared(self, counts: FloatArray) -> FloatArray:
        """Return the counts [T]. Tied factors all get the sum of their counts."""
        if not self.tied:
            return counts
        counts = counts.copy()
        for entries in self.tied:
            counts[entries] = counts[entries].sum(axis=0)
        return counts

    def row_sums(self, values: FloatArray) -> FloatArray:
        """Return the sum [R] over each row of learned tables; every entry of another factor is a separate row."""
        row, size = self._rows
        return np.bincount(row, values, len(size)).astype(float)

    def log_tables(self, counts: FloatArray) -> FloatArray:
        """Return the log tables [T] that counts make most probable; entries that are not learned keep their values.

        The counts include the prior and the sums over tied factors. A row without any count becomes uniform. An entry
        without a count in a row with counts becomes zero.
        """
        row, size = self._rows
        total = self.row_sums(counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            learned = np.where(total[row] > 0.0, np.log(counts) - np.log(total[row]), -np.log(size[row]))
        return np.where(self.is_free, learned, self.graph.log_phi)

    def maximised(self, counts: FloatArray, prior: Prior, before: FloatArray) -> FloatArray:
        """Return the log tables [T] that expected counts [T] and the prior make most probable.

        Args:
            counts: [T] the counts of all entries, not summed over tied factors.
            prior: see `prior`.
            before: [T] the log tables under which the counts were expected.
        """
        log_phi = self.log_tables(self.shared(np.where(self.is_free, counts, 0.0)) + self.prior(prior))
        for part in self.structured:
            part.maximise(counts, _of_each_event(prior), before, log_phi)
        return log_phi

    def num_unseen_rows(self, counts: FloatArray) -> int:
        """Return the number of rows of learned tables without any count."""
        row, _ = self._rows
        return int(np.count_nonzero(self.row_sums(counts)[np.unique(row[self.is_free])] <= 0.0))

    def log_prior(self, log_phi: FloatArray, prior: Prior) -> float:
        """Return the log density of the tables under the prior, up to a constant; shared tables count once."""
        weights = self.prior(prior)
        for entries in self.tied:
            weights[entries[1:]] = 0.0
        others = sum(part.log_prior(_of_each_event(prior), log_phi) for part in self.structured)
        return dot(weights, log_phi) + others


def _of_each_event(prior: Prior) -> float:
    """Return the count of each outcome of a hidden event with two outcomes before any data."""
    if isinstance(prior, str):
        return {"none": 0.0, "k2": 1.0, "bdeu": 0.5}[prior]
    return 0.5 * (prior or 0.0)


def dot(weights: FloatArray, log_values: FloatArray) -> float:
    """Return the sum of weights times log values, where 0 times -inf is 0."""
    used = weights > 0.0
    return float(weights[used] @ log_values[used])


def _check_fixed(graph: FactorGraph, a: int, slot: int) -> None:
    """Raise `ModelError` if a factor that is not learned is not the distribution of its child."""
    s = graph.structure
    factor = graph.factor(a)
    child = s.variable_name(int(s.scope(a)[slot]))
    if not isinstance(factor, np.ndarray) and factor.child_slot == slot:
        return
    sums = np.exp(graph.log_table(a)).sum(axis=slot)  # The dense table of a structured factor must be small.
    if np.any(np.abs(sums - 1.0) > ROUNDING):
        raise ModelError(
            f"Factor {a} is not learned, so it must be the distribution of its child {child}. The values of the factor "
            f"do not sum to 1 over {child}.",
            factor=a,
        )
